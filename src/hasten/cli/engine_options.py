"""The options of ``run`` that are for several hosts. Those that torchrun has, too, are called as there."""

from __future__ import annotations

import re
from typing import Any

import click

from ..records.launch_job import Nodes
from .options import OneOf, file_option
from .values import MOST_PROCESSES, file_name, positive_seconds, shortened, whole_number

ENGINES = (
    *("local", "torchrun", "slurm", "openmpi", "mpich", "ray"),
    *("kubernetes", "skypilot", "docker", "apptainer"),
)
"""Those of launch.engines.catalog, which a test compares: importing it takes long."""
_INTERFACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,14}")  # IFNAMSIZ is 16
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_IMAGE = re.compile(r"[A-Za-z0-9./_][\x20-\x7e]{0,511}")
_JOB = re.compile(r"[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")


def nodes(text: str) -> Nodes:
    """An option's type: ``4``, or ``1:4`` for at least and at most."""
    number = whole_number(1, MOST_PROCESSES)
    least, colon, most = text.partition(":")
    if not colon:
        return Nodes(number(text), number(text))
    found = Nodes(number(least), number(most))
    if found.least > found.most:
        raise click.BadParameter(f"expected LEAST:MOST, and {shortened(text)} has more as the least")
    return found


def _like(pattern: re.Pattern[str], expected: str) -> Any:
    def checked(text: str) -> str:
        if not pattern.fullmatch(text):
            raise click.BadParameter(f"expected {expected}, found {shortened(text)}")
        return text

    return checked


def variable(text: str) -> str:
    """An option's type: ``NAME`` or ``NAME=VALUE``."""
    name, _, value = text.partition("=")
    if not _VARIABLE.fullmatch(name) or "\0" in value:
        raise click.BadParameter(f"expected NAME or NAME=VALUE, found {shortened(text)}")
    return text


ENGINE_OPTIONS = (
    click.Option(
        ["--engine"],
        type=OneOf(ENGINES),
        help="what starts the ranks (default: hasten itself on this machine; torchrun if hosts are named)",
    ),
    click.Option(
        ["--nnodes"],
        metavar="N",
        type=nodes,
        help="train on N hosts; LEAST:MOST if the engine may go on with fewer",
    ),
    click.Option(
        ["--hosts"], metavar="HOST,...", type=file_name, help="train on these hosts, by ssh or mpirun"
    ),
    file_option("--hostfile", "train on the hosts in this file, one a line, perhaps with slots=N"),
    click.Option(
        ["--node-rank"],
        metavar="N",
        type=whole_number(0, MOST_PROCESSES - 1),
        help="for a command that you start on each host: this host's number, from 0 (torchrun)",
    ),
    click.Option(
        ["--rdzv-endpoint"], metavar="HOST:PORT", type=file_name, help="where ranks meet: one of the hosts"
    ),
    click.Option(
        ["--master-addr"], metavar="HOST", type=file_name, help="the host of --rdzv-endpoint, given alone"
    ),
    click.Option(
        ["--master-port"],
        metavar="PORT",
        type=whole_number(1, 65535),
        help="the port on --master-addr (default: 29400)",
    ),
    click.Option(
        ["--rdzv-id"],
        metavar="NAME",
        type=_like(_JOB, "letters, digits and -, a letter first"),
        help="the job's name, the same on all hosts (default: a new one)",
    ),
    click.Option(
        ["--max-restarts"],
        metavar="N",
        type=whole_number(0, 1000),
        help="restart the ranks up to N times if one fails; what is not in the script's checkpoint is lost",
    ),
    click.Option(
        ["--interface"],
        metavar="NAME",
        type=_like(_INTERFACE, "the name of a network's interface, such as eth0"),
        help="the network that ranks talk over (default: the one that leads to where they meet)",
    ),
    click.Option(
        ["--group-timeout"],
        metavar="SECONDS",
        type=positive_seconds,
        help="how long a rank waits for the others, if the script does not say (default: 600)",
    ),
    click.Option(
        ["--env"],
        metavar="NAME[=VALUE]",
        multiple=True,
        type=variable,
        help="set this variable in every rank, to its value here unless one is given (repeatable)",
    ),
    click.Option(
        ["--engine-option"],
        metavar="WORD",
        multiple=True,
        help="one more word for the engine's own command, such as --partition=long (repeatable)",
    ),
    click.Option(
        ["--image"],
        metavar="IMAGE",
        type=_like(_IMAGE, "the name of an image"),
        help="the container image (docker, apptainer, kubernetes)",
    ),
    click.Option(
        ["--render"], is_flag=True, help="print what would be started or submitted, and start nothing"
    ),
    click.Option(["--detach"], is_flag=True, help="submit, and do not wait for the end (slurm)"),
)
NAMES = frozenset(str(option.name) for option in ENGINE_OPTIONS)
