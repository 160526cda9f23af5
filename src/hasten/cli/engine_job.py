"""The command line's words as a job: checked, with absolute paths, and nothing of any one engine."""

from __future__ import annotations

import os
import secrets
import sys
import zlib
from types import SimpleNamespace
from typing import TYPE_CHECKING

from ..records.launch_job import PATIENCE_SECONDS
from . import engine_options
from .typed_options import words_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import click

    from ..launch.hosts import Host
    from ..records.launch_job import LaunchJob, Nodes
    from ..scripts.workspace import Script

_BY_HAND_PORT = 29400  # torchrun's own
_NOT_THE_RANKS = engine_options.NAMES | {"nproc_per_node", "plan"}
# the user's variables that are passed on to other hosts without being asked for: none that may be a secret
_CARRIED = (
    *("OMP_", "KMP_", "GLOO_", "NCCL_", "TORCH_", "TP_", "MKL_", "MALLOC_", "UCX_", "FI_"),
    "GLIBC_TUNABLES",
)
_CARRIED_WHOLE = ("PYTHONPATH", "PYTHONHASHSEED", "LD_PRELOAD", "LD_LIBRARY_PATH", "HASTEN_DEADLINE")
_SECRET = ("TOKEN", "SECRET", "PASSWORD", "KEY")


def engine_name(arguments: SimpleNamespace) -> str:
    """The engine that was asked for, or the one that other options need."""
    return arguments.engine or ("torchrun" if on_hosts(arguments) else "local")


def on_hosts(arguments: SimpleNamespace) -> bool:
    """Whether options say which hosts, how many, or where they meet."""
    several = arguments.nnodes is not None and arguments.nnodes.most > 1
    return bool(several or arguments.hosts or arguments.hostfile or endpoint(arguments))


def endpoint(arguments: SimpleNamespace) -> str:
    """Where ranks meet, as HOST:PORT; "" if that is not given. Raises UsageError if it is given twice."""
    from ..errors import UsageError
    from ..launch.hosts import place_of

    if not arguments.master_addr:
        if arguments.master_port is not None:
            raise UsageError("--master-port without --master-addr: say on which host, too")
        return arguments.rdzv_endpoint or ""
    if arguments.rdzv_endpoint:
        raise UsageError("--rdzv-endpoint and --master-addr both say where ranks meet: leave one out")
    return place_of(arguments.master_addr, arguments.master_port or _BY_HAND_PORT)


def job_of(script: Script, arguments: SimpleNamespace, parameters: Sequence[click.Parameter]) -> LaunchJob:
    """What the command line asks for. Raises UsageError for options that contradict each other."""
    from ..launch.hosts import slots_of
    from ..records.launch_job import LaunchJob

    engine, hosts = engine_name(arguments), _hosts(arguments)
    name = arguments.rdzv_id or _name(script, arguments)
    address, port = _meeting(arguments, name)
    asked, hidden = _asked(arguments.env)
    token = _token(engine, bool(hosts))
    return LaunchJob(
        command=tuple(rank_command(script, arguments, parameters, engine)),
        folder=os.getcwd(),
        name=name,
        python=sys.executable,
        nodes=arguments.nnodes or _as_many(len(hosts)),
        nproc_per_node=arguments.nproc_per_node or (slots_of(hosts) if hosts else None) or 1,
        hosts=tuple(host.name for host in hosts),
        address=address,
        port=port,
        node_rank=arguments.node_rank,
        interface=arguments.interface or "",
        max_restarts=arguments.max_restarts or 0,
        group_timeout_seconds=arguments.group_timeout or PATIENCE_SECONDS,
        environment={**_environment(engine, arguments), **token, **asked},
        secrets=hidden | token.keys(),
        options=tuple(arguments.engine_option),
        image=arguments.image or "",
    )


def _hosts(arguments: SimpleNamespace) -> list[Host]:
    from ..errors import UsageError
    from ..launch.hosts import in_file, listed

    if arguments.hosts and arguments.hostfile:
        raise UsageError("--hosts and --hostfile both name hosts: leave one out")
    if arguments.hostfile:
        return in_file(arguments.hostfile)
    return listed(arguments.hosts) if arguments.hosts else []


def _environment(engine: str, arguments: SimpleNamespace) -> dict[str, str]:
    """The variables that every rank gets, whatever its host's environment is."""
    from ..launch.engines.catalog import ENGINES
    from ..launch.told_rank import variables_of
    from ..records.launch_job import Launched

    does = ENGINES[engine].does
    carried = _carried(os.environ) if does.like_here else {}
    if does.starts_hasten:
        return carried
    launched = Launched(
        threads=os.environ.get("OMP_NUM_THREADS", "") if does.like_here else "",
        interface=arguments.interface or "",
        group_timeout_seconds=arguments.group_timeout or PATIENCE_SECONDS,
    )
    return carried | variables_of(launched, carried)


def _token(engine: str, hosts_are_named: bool) -> dict[str, str]:
    """The secret by which ranks on several hosts recognise each other: the user's own, or a new one for this
    job. None if a person starts each host, because the hosts would draw different ones.
    """
    from ..launch.engines.catalog import ENGINES
    from ..launch.job_key import VARIABLE

    does = ENGINES[engine].does
    if does.starts_hasten or does.renders_only or not (does.hosts or hosts_are_named):
        return {}
    return {VARIABLE: os.environ.get(VARIABLE) or secrets.token_hex(32)}


def _as_many(hosts: int) -> Nodes:
    from ..records.launch_job import Nodes

    return Nodes(max(1, hosts), max(1, hosts))


def rank_command(
    script: Script, arguments: SimpleNamespace, parameters: Sequence[click.Parameter], engine: str
) -> list[str]:
    """The command of each rank: hasten itself, which finds the plan for the host that it is on."""
    from . import rank_entry

    words = words_of(parameters, arguments, _NOT_THE_RANKS)
    if arguments.plan:
        words.append(f"--plan={os.path.abspath(arguments.plan)}")
    if engine == "local" and arguments.nproc_per_node is not None:
        words.append(f"--nproc-per-node={arguments.nproc_per_node}")
    return [
        *(sys.executable, os.path.abspath(rank_entry.__file__), "run", *words),
        *(["-m"] if script.module else []),
        *script.argv,
    ]


def _name(script: Script, arguments: SimpleNamespace) -> str:
    """The job's name: unique, but the same on all hosts that meet at one place if a person starts each."""
    if endpoint(arguments) and not (arguments.hosts or arguments.hostfile):
        told = f"{endpoint(arguments)} {script.label} {arguments.nnodes}"
        return f"hasten-{zlib.crc32(told.encode()):08x}"
    return f"hasten-{secrets.token_hex(6)}"


def _meeting(arguments: SimpleNamespace, name: str) -> tuple[str, int]:
    """Address and port where ranks meet. The port depends on the job's name, so jobs have different ones."""
    from ..errors import UsageError
    from ..launch.hosts import checked_host
    from ..launch.launched_rank import port_of

    text = endpoint(arguments)
    if not text:
        return "", port_of(name)
    host, colon, port = text.rpartition(":")
    if not colon or (":" in host and not host.startswith("[")):
        host, port = text, str(_BY_HAND_PORT)
    if not port.isdecimal() or not 0 < int(port) < 2**16:
        raise UsageError(f"--rdzv-endpoint {text}: expected HOST:PORT, the port from 1 to 65535")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if "@" in host:
        raise UsageError(f"--rdzv-endpoint {text}: expected HOST:PORT, without a user")
    return checked_host(host, "--rdzv-endpoint"), int(port)


def _carried(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if (name.startswith(_CARRIED) or name in _CARRIED_WHOLE) and not any(word in name for word in _SECRET)
    }


def _asked(words: Sequence[str]) -> tuple[dict[str, str], frozenset[str]]:
    """The variables of --env, and all their names, because any of them may be a secret."""
    from ..errors import UsageError

    made = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals and name not in os.environ:
            raise UsageError(f"--env {name}: it is not set here. Set it, or write --env {name}=VALUE")
        made[name] = value if equals else os.environ[name]
    return made, frozenset(made)
