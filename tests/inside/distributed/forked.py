"""Ranks as forks of one process that has imported torch: each training starts at once."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hasten.inside.job import Job, Ranks
from hasten.machine import this_machine
from hasten.records.ranks import Findings

from ...patience import PATIENCE_SECONDS
from .ranks import Ended
from .trainings import LOADER, SEED, write

_SECONDS = PATIENCE_SECONDS  # after which a test has failed


def train_forked(
    folder: Path, source: str, size: int, findings: Findings | None = None, sync_batch_norm: bool = False
) -> list[Ended]:
    """As ``trainings.train``, with how each rank ended, well or not (-9 where it hung); of size 0 it is one
    worker alone.
    """
    script = write(folder, source)
    store = folder / f"store-{os.urandom(4).hex()}"
    jobs = []
    for rank in range(max(size, 1)):
        ranks = Ranks(
            rank, size, rank, f"file://{store}",
            timeout_seconds=PATIENCE_SECONDS, sync_batch_norm=sync_batch_norm,
            findings=findings or Findings(LOADER),
        )  # fmt: skip
        jobs.append(
            Job(argv=(str(script),), machine=this_machine(), seed=SEED, ranks=ranks if size else None)
        )
    return forked([lambda job=job: _work(job) for job in jobs], folder)  # type: ignore[misc]


def _work(job: Job) -> None:
    from hasten.inside.worker import Worker

    Worker(job, time.time()).run()


def forked(works: list[Callable[[], None]], folder: Path) -> list[Ended]:
    """Each of ``works`` in a process of its own, in ``folder``; what it printed, once all have ended."""
    import torch  # before they part, so that each of these is imported once
    import torch._dynamo
    import torch.utils.data

    import hasten.inside.distributed.member
    import hasten.inside.distributed.rehearsal
    import hasten.inside.worker  # noqa: F401

    torch.set_num_threads(1)
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
    """The child's whole life."""
    code = 1
    try:
        os.chdir(folder)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
        sys.path.insert(0, str(folder))
        for name in ("ground",):
            sys.modules.pop(name, None)
        work()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
