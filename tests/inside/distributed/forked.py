"""Ranks as forks of one process that has imported torch: each training starts at once."""

from __future__ import annotations

import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from hasten.bench.workers import process
from hasten.bench.workers.worker_output import Output
from hasten.inside.job import VARIABLE, Job, Ranks
from hasten.machine import this_machine
from hasten.records.codec import from_json
from hasten.records.ranks import Findings

from ...patience import PATIENCE_SECONDS
from .ranks import Ended
from .trainings import LOADER, SEED, write

_SECONDS = PATIENCE_SECONDS  # after which a test has failed


def train_well(
    folder: Path, source: str, size: int, findings: Findings | None = None, **how: Any
) -> list[Ended]:
    """As ``trainings.train``: all of them end well."""
    done = train_forked(folder, source, size, findings, **how)
    for rank, one in enumerate(done):
        assert one.code == 0, f"rank {rank}: {one.stderr[-3000:]}"
    return done


def train_forked(
    folder: Path,
    source: str,
    size: int,
    findings: Findings | None = None,
    backend: str = "shm",
    sync_batch_norm: bool = False,
) -> list[Ended]:
    """As ``trainings.train``, with how each rank ended, well or not (-9 where it hung); of size 0 it is one
    worker alone.
    """
    script = write(folder, source)
    store = folder / f"store-{os.urandom(4).hex()}"
    jobs = []
    for rank in range(max(size, 1)):
        ranks = Ranks(
            rank, size, rank, f"file://{store}", backend,
            timeout_seconds=PATIENCE_SECONDS, sync_batch_norm=sync_batch_norm,
            findings=findings or Findings(LOADER),
        )  # fmt: skip
        jobs.append(
            Job(argv=(str(script),), machine=this_machine(), seed=SEED, ranks=ranks if size else None)
        )
    return forked([lambda job=job: _work(job) for job in jobs], folder)  # type: ignore[misc]


def plain_forked(script: Path) -> Ended:
    """The script by Python, without us."""
    (ended,) = forked([lambda: _run_plainly(script)], script.parent)
    return ended


def _run_plainly(script: Path) -> None:
    sys.argv = [str(script)]
    runpy.run_path(str(script), run_name="__main__")


def run_forked(job: Job, folder: Path) -> Ended:
    """A worker without a coordinator, to its end."""
    (ended,) = forked([lambda: _work(job)], folder)
    return ended


def _work(job: Job) -> None:
    from hasten.inside.worker.start_times import StartTimes
    from hasten.inside.worker.worker import Worker

    Worker(job, StartTimes(time.time())).run()


@contextmanager
def workers_forked() -> Iterator[None]:
    """Workers of a bench are forks of this process, too; they get their job, output and end of the wire."""
    _import_once()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "start_process", _start)
        yield


class _Process:
    """What a WorkerProcess asks of a Popen."""

    def __init__(self, pid: int, stdout: Any) -> None:
        self.pid, self.stdout = pid, stdout
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        until = time.monotonic() + (timeout if timeout is not None else _SECONDS)
        while self.poll() is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired("worker", timeout or _SECONDS)
            time.sleep(0.005)
        assert self.returncode is not None
        return self.returncode

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


def _start(
    argv: Sequence[str], environment: Mapping[str, str], descriptors: Sequence[int], output: Output
) -> _Process:
    heard = os.pipe() if output.heard is not None else None
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if not child:
        gc.freeze()  # what is garbage of ours may hold files of ours, and must not be cleared away here
        of_test = os.dup(2)
        _live(lambda: _work(_job_of_ours(environment, descriptors, output, heard, of_test)), of_test)
    if heard is not None:
        os.close(heard[1])
    return _Process(child, os.fdopen(heard[0], "rb") if heard is not None else None)


def _job_of_ours(
    environment: Mapping[str, str],
    descriptors: Sequence[int],
    output: Output,
    heard: tuple[int, int] | None,
    of_test: int,
) -> Job:
    """What a new process would be given, and nothing else."""
    out = heard[1] if heard is not None else _opened(output.stdout)
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for place, descriptor in ((1, out), (2, _opened(output.stderr))):
        os.dup2(descriptor, place)
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number not in (*descriptors, of_test):
            with suppress(OSError):  # a tensor in a file's memory fails where it finds its file closed
                os.dup2(nothing, number)
    return from_json(Job, json.loads(os.environ.pop(VARIABLE)))


def _opened(path: Path | None) -> int:
    return os.open(path or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def _import_once() -> None:
    """Before they part, so that none has to do it."""
    import torch
    import torch._dynamo
    import torch.utils.data

    import hasten.inside.distributed.rehearsal
    import hasten.inside.distributed.this_rank
    import hasten.inside.worker.worker  # noqa: F401

    torch.set_num_threads(1)


def forked(works: list[Callable[[], None]], folder: Path) -> list[Ended]:
    """Each of ``works`` in a separate process, in ``folder``; what it printed, once all have ended."""
    _import_once()
    sys.stdout.flush()
    sys.stderr.flush()
    outputs = [tempfile.TemporaryFile() for _ in range(2 * len(works))]  # noqa: SIM115
    children = []
    for number, work in enumerate(works):
        child = os.fork()
        if not child:
            _become(work, folder, outputs[2 * number].fileno(), outputs[2 * number + 1].fileno())
        children.append(child)
    codes = _wait(children)
    texts = []
    for output in outputs:
        output.seek(0)
        texts.append(output.read().decode(errors="replace"))
        output.close()
    return [Ended(code, texts[2 * n], texts[2 * n + 1]) for n, code in enumerate(codes)]


def _wait(children: list[int]) -> list[int]:
    codes: dict[int, int] = {}
    deadline = time.monotonic() + _SECONDS
    while len(codes) < len(children) and time.monotonic() < deadline:
        for child in children:
            if child not in codes:
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    codes[child] = os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    for child in children:
        if child not in codes:
            with suppress(ProcessLookupError):
                os.kill(child, 9)
            os.waitpid(child, 0)
    return [codes.get(child, -9) for child in children]


def _become(work: Callable[[], None], folder: Path, stdout: int, stderr: int) -> None:
    os.chdir(folder)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    sys.path.insert(0, str(folder))
    sys.modules.pop("ground", None)
    _live(work)


def _live(work: Callable[[], None], of_test: int = 2) -> None:
    """The child's whole life; what it dies of is also written to ``of_test``, a file of the test's report."""
    code = 1
    try:
        sys.stdout = open(1, "w", closefd=False, buffering=1)  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
        work()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        if of_test != 2:
            os.write(of_test, traceback.format_exc().encode())
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
