"""Several ranks of a small script, each a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from ... import warm
from ...patience import PATIENCE_SECONDS
from ...warm import Ended as Ended

SECONDS = PATIENCE_SECONDS  # after which a test has failed
START = """
import datetime, json, os, sys
import torch
import torch.distributed as dist
import hasten.backends
torch.set_num_threads(1)
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

def start(name, seconds=60.0):
    how = dict(init_method="file://" + os.environ["STORE"], rank=rank, world_size=size)
    dist.init_process_group(name, timeout=datetime.timedelta(seconds=seconds), **how)
"""


AS_MPI_SAYS = """
import os, sys
for ours, theirs in (("RANK", "RANK"), ("WORLD_SIZE", "SIZE"), ("LOCAL_RANK", "LOCAL_RANK")):
    os.environ[ours] = os.environ[f"OMPI_COMM_WORLD_{theirs}"]
sys.stdout = open(os.path.join(os.environ["OUTPUT"], os.environ["RANK"] + ".stdout"), "w")
"""


@contextmanager
def ranks(folder: Path, source: str, size: int, **environment: str) -> Iterator[list[subprocess.Popen[str]]]:
    """``source`` after START in ``size`` processes; all are gone at the end."""
    script = folder / "rank.py"
    script.write_text(START + source)
    started = [
        subprocess.Popen(
            [sys.executable, str(script)],
            env=_environment(folder, rank, size, environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


def ended(process: subprocess.Popen[str]) -> Ended:
    stdout, stderr = process.communicate(timeout=SECONDS)
    return Ended(process.returncode, stdout, stderr)


def all_ended(processes: Sequence[subprocess.Popen[str]]) -> list[Ended]:
    """Of ranks that wait for each other: all are heard at the same time, so that none waits for a reader."""
    with ThreadPoolExecutor(len(processes)) as readers:
        return list(readers.map(ended, processes))


def run_under_mpi(folder: Path, source: str, size: int, **environment: str) -> list[Ended]:
    """As ``run``, started by mpirun, which knows of ranks itself."""
    script = folder / "rank.py"
    script.write_text(AS_MPI_SAYS + START + source)
    command = ["mpirun", "-n", str(size), "--bind-to", "none", "--oversubscribe", "--allow-run-as-root"]
    done = subprocess.run(
        [*command, sys.executable, str(script)],
        env={**os.environ, **environment, "STORE": str(folder / "store"), "OUTPUT": str(folder)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    printed = [folder / f"{rank}.stdout" for rank in range(size)]
    return [Ended(done.returncode, p.read_text() if p.exists() else "", done.stderr) for p in printed]


def run(folder: Path, source: str, size: int, **environment: str) -> list[Ended]:
    """What each rank printed, when all have ended."""
    programs = []
    for rank in range(size):
        script = folder / f"rank-{rank}.py"
        script.write_text(START + source)
        programs.append(warm.Program(script, Path.cwd(), _environment(folder, rank, size, environment)))
    return warm.run(programs)


def _environment(folder: Path, rank: int, size: int, more: dict[str, str]) -> dict[str, str]:
    told = {"WORLD_SIZE": str(size), "STORE": str(folder / "store")}
    return {**os.environ, **more, **told, "RANK": str(rank), "LOCAL_RANK": str(rank)}
