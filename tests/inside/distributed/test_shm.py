"""What happens to the other ranks when one ends, stops, or does something else."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ...patience import PATIENCE_SECONDS
from .ranks import Ended, ended, ranks, run
from .test_contract import NO_KERNEL

ENDLESS = """
start("shm", float(os.environ["TIMEOUT"]))
numbers = torch.ones(int(os.environ["COUNT"]))
try:
    for step in range(10**9):
        dist.all_reduce(numbers)
        if step == 20:
            print("going", flush=True)
except RuntimeError as error:
    print(type(error).__name__, error, flush=True)
    try:
        dist.all_reduce(numbers)
    except RuntimeError as again:
        print(again, flush=True)
    os._exit(9)
"""


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = set(os.listdir("/dev/shm"))
    yield
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not {name for name in os.listdir("/dev/shm") if name.startswith("hasten")} <= before:
        assert time.monotonic() < deadline, "a file stayed behind"
        time.sleep(0.05)


def after(signalled: int, folder: Path, size: int, **environment: str) -> list[Ended]:
    """What the others print once the last rank got that signal in the midst of all-reduces."""
    with ranks(folder, ENDLESS, size, **environment) as started:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "going\n"
        os.kill(started[-1].pid, signalled)
        return [ended(process) for process in started[:-1]]


@pytest.mark.parametrize(
    ("size", "count", "more"),
    [
        pytest.param(2, "100000", {}, id="2, kernel"),
        pytest.param(3, "1", NO_KERNEL, id="3, semaphores", marks=pytest.mark.thorough),
        pytest.param(3, "1", {}, id="3, kernel", marks=pytest.mark.thorough),
        pytest.param(2, "100000", NO_KERNEL, id="2, semaphores", marks=pytest.mark.thorough),
    ],
)
def test_a_rank_that_is_killed_is_named_at_once(
    tmp_path: Path, size: int, count: str, more: dict[str, str]
) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")} if more else {}
    for other in after(signal.SIGKILL, tmp_path, size, TIMEOUT="100", COUNT=count, **more, **cache):
        assert other.code == 9, other.stderr
        first, again = other.stdout.splitlines()
        # the first to notice may have ended, too, when the next one looks
        assert first.startswith("RankGone rank ")
        assert "has ended while rank" in first
        assert again.startswith("this group ended earlier: rank ")


@pytest.mark.thorough
def test_a_rank_that_is_stopped_is_named_within_the_timeout(tmp_path: Path) -> None:
    (other,) = after(signal.SIGSTOP, tmp_path, 2, TIMEOUT="1.5", COUNT="1000")
    assert other.code == 9, other.stderr
    assert other.stdout.startswith("RankGone rank 1 kept rank 0 waiting for 1.5 s")


@pytest.mark.thorough
def test_an_interrupt_ends_the_waiting(tmp_path: Path) -> None:
    source = """
start("shm", 100.0)
if rank == 0:
    print("waiting", flush=True)
    dist.all_reduce(torch.ones(1))
else:
    sys.stdin.read()
"""
    with ranks(tmp_path, source, 2) as started:
        waits = started[0]
        assert waits.stdout is not None
        assert waits.stdout.readline() == "waiting\n"
        waits.send_signal(signal.SIGINT)
        done = ended(waits)
        assert "KeyboardInterrupt" in done.stderr
        assert done.code in (-signal.SIGINT, 1)


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        pytest.param(
            "dist.all_reduce(torch.ones(5 + rank))",
            ("all_reduce (sum) of 5 float32", "all_reduce (sum) of 6 float32"),
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            "dist.all_reduce(torch.ones(5, dtype=torch.int64 if rank else torch.float32))",
            ("all_reduce (sum) of 5 float32", "all_reduce (sum) of 5 int64"),
            marks=pytest.mark.thorough,
        ),
        (
            "dist.barrier() if rank else dist.broadcast(torch.ones(3), 1)",
            ("broadcast from rank 1 of 3 float32", "barrier"),
        ),
        pytest.param(
            "dist.all_reduce(torch.ones(5), dist.ReduceOp.MAX if rank else dist.ReduceOp.SUM)",
            ("all_reduce (sum) of 5 float32", "all_reduce (max) of 5 float32"),
            marks=pytest.mark.thorough,
        ),
    ],
    ids=["sizes", "dtypes", "collectives", "operations"],
)
def test_ranks_that_disagree_are_told_both_sides(tmp_path: Path, calls: str, words: tuple[str, str]) -> None:
    source = f"""
start("shm", 60.0)
try:
    {calls}
except RuntimeError as error:
    print(type(error).__name__, error)
"""
    done = run(tmp_path, source, 2)
    for rank, one in enumerate(done):
        mine, other = words[rank], words[1 - rank]
        assert one.stdout == f"Disagreement rank {rank} calls {mine}, but rank {1 - rank} calls {other}\n"


def test_a_script_that_never_heard_of_us_needs_one_import(tmp_path: Path) -> None:
    """No compiler's output, no warning, and the default group is ours."""
    source = """
start("shm")
x = torch.full((3,), float(rank))
dist.all_reduce(x)
print(dist.get_backend(), x.tolist())
dist.destroy_process_group()
"""
    for one in run(tmp_path, source, 2):
        assert (one.code, one.stdout, one.stderr) == (0, "shm [1.0, 1.0, 1.0]\n", "")


@pytest.mark.thorough
def test_the_first_collectives_of_a_rank_that_starts_late_wait_for_it(tmp_path: Path) -> None:
    source = """
import time
start("shm", 60.0)
time.sleep(rank * 1.0)
x = torch.ones(2)
dist.all_reduce(x)
print(x.tolist())
"""
    assert [one.stdout for one in run(tmp_path, source, 2)] == ["[2.0, 2.0]\n"] * 2
