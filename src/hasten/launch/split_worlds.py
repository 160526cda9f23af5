"""A rendezvous that is set wrongly makes each host a world of its own, which trains all by itself."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from .. import safe_files
from ..errors import UnsafeFile
from ..records.preflight import Fault

FRESH_SECONDS = 120.0
_WAIT_SECONDS = 2.0  # for the others to write theirs
_TURN_SECONDS = 0.1
_MOST_BYTES = 2**16
HOSTS = "HASTEN_NNODES"
_OUTER = (  # variables of launchers that may have started the one whose world this is: name, hosts of the job
    ("srun", "SLURM_STEP_NUM_NODES"),
    ("the job", HOSTS),
)
_ADVICE = (
    "give torchrun --nnodes and, on all hosts, one --rdzv-endpoint (or --master-addr) that is a host of the "
    "job: localhost is another one on each"
)


def faults_of_world(environment: Mapping[str, str], hosts: int) -> list[Fault]:
    """A fault if a launcher started more hosts than this process's world has."""
    for who, name in _OUTER:
        many = environment.get(name, "")
        if many.isdecimal() and int(many) != hosts:
            more = "each trains by itself, in a world of its own" if hosts == 1 else "the others are missing"
            text = f"{who} has {many} hosts ({name}), and this world has {hosts}: {more}"
            return [Fault(text, _ADVICE, stops=True)]
    ranks, here = (
        environment.get("OMPI_COMM_WORLD_SIZE", ""),
        environment.get("OMPI_COMM_WORLD_LOCAL_SIZE", ""),
    )
    if ranks.isdecimal() and here.isdecimal() and int(ranks) > int(here) and hosts == 1:
        text = f"mpirun has started {ranks} processes, {here} of them here, and this world has one host"
        return [Fault(f"{text}: each host trains by itself, in a world of its own", _ADVICE, stops=True)]
    return []


def another_world(
    folder: Path,
    hosts: Sequence[str],
    words: str,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> str:
    """A sentence if a world of other hosts is checking the same command right now; "" if none is, or if that
    cannot be seen. Hosts that share ``folder``, one of ours, leave a file there. ``words``: the command, and
    what its launcher calls the job.
    """
    mine = hashlib.blake2b(words.encode(), digest_size=8).hexdigest()
    place = folder / "worlds"
    with suppress(OSError, UnsafeFile):  # then no host leaves a file
        safe_files.make_folder(place)
        name = f"{mine}-{hashlib.blake2b(' '.join(hosts).encode(), digest_size=8).hexdigest()}"
        safe_files.write(place / name, json.dumps({"hosts": list(hosts), "at": clock()}).encode())
        for _ in range(int(_WAIT_SECONDS / _TURN_SECONDS)):
            for other in safe_files.names(place):
                found = _read(place / other) if other.startswith(mine) and other != name else None
                if (
                    found is not None
                    and clock() - found[1] < FRESH_SECONDS
                    and not set(found[0]) & set(hosts)
                ):
                    return (
                        f"{', '.join(found[0])} is checking the same command in a world of its own, which "
                        f"began {max(0.0, clock() - found[1]):.0f} s ago: each trains by itself"
                    )
            sleep(_TURN_SECONDS)
    return ""


def _read(path: Path) -> tuple[list[str], float] | None:
    with suppress(OSError, UnsafeFile, ValueError, KeyError, TypeError):
        told = json.loads(safe_files.read(path, _MOST_BYTES))
        return [str(host) for host in told["hosts"]], float(told["at"])
    return None


def fault_of(another: str) -> list[Fault]:
    """The fault if ``another`` world, in words, was seen."""
    return [Fault(another, _ADVICE, stops=True)] if another else []
