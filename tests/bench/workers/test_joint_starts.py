"""Workers that come to their first step at the same time, one after the other, or in turn."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hasten.bench.workers.joint_starts import Starts
from hasten.records.facts import Facts
from hasten.records.plan import BASELINE, Plan
from tests.bench.real_workers import trials_for
from tests.techniques.made_up import facts, machine, root


class PaperWorker:
    """Notes in ``log`` what happens to it, and whether it may compute."""

    def __init__(self, name: str, log: list[str], turn: str) -> None:
        self.name, self._log, self._turn = name, log, turn
        self.plan = Plan({"compile": {}}) if name == "compiled" else BASELINE
        log.append(f"{name} starts{'' if self._may_compute else ', and will wait'}")

    @property
    def _may_compute(self) -> bool:
        return not self._turn or not Path(self._turn).exists()

    def __enter__(self) -> PaperWorker:
        return self

    def __exit__(self, *error: object) -> None:
        self._log.append(f"{self.name} ends")

    def wait_started(self) -> None:
        assert self._may_compute
        self._log.append(f"{self.name} has started")
        if self.name == "broken":
            raise RuntimeError


def brought(starts: Starts, names: str, log: list[str], stack: ExitStack) -> list[str]:
    makers: Any = [partial(PaperWorker, name, log) for name in names.split()]
    note: Any = lambda worker: log.append(f"then {worker.name}")  # noqa: E731
    found: Any = starts.bring(makers, stack, note)
    return [worker.name for worker in found]


ONE_BY_ONE = ["a starts", "a has started", "then a", "b starts", "b has started", "then b"]
IN_TURN = [
    *("a starts", "b starts, and will wait", "a has started", "then a"),
    *("c starts, and will wait", "b has started", "then b", "c has started", "then c"),
]
TOGETHER = ["a starts", "b starts", "a has started", "then a", "b has started", "then b"]


@pytest.mark.parametrize(
    ("how", "names", "expected"),
    [("one by one", "a b", ONE_BY_ONE), ("in turn", "a b c", IN_TURN), ("together", "a b", TOGETHER)],
)
def test_the_order(tmp_path: Path, how: Any, names: str, expected: list[str]) -> None:
    log: list[str] = []
    starts = Starts(lambda: str(tmp_path))
    starts.how = how
    with ExitStack() as stack:
        assert brought(starts, names, log, stack) == names.split()
        assert log == expected
    assert log[len(expected) :] == [f"{name} ends" for name in reversed(names.split())]
    assert not list(tmp_path.iterdir())


def test_where_a_gpu_is_too_small_for_all_they_start_in_turn(tmp_path: Path) -> None:
    starts = Starts(lambda: str(tmp_path))
    starts.how = "together"
    starts.room.failed("torch.OutOfMemoryError: CUDA out of memory")
    together, in_turn = Starts(), starts
    together.how = "together"
    assert in_turn.seconds(5.0, 2) > together.seconds(5.0, 2)
    log: list[str] = []
    with ExitStack() as stack:
        brought(starts, "a b c", log, stack)
    assert log[: len(IN_TURN)] == IN_TURN


@pytest.mark.parametrize("how", ["one by one", "in turn", "together"])
def test_none_outlives_one_that_fails(tmp_path: Path, how: Any) -> None:
    log: list[str] = []
    starts = Starts(lambda: str(tmp_path))
    starts.how = how
    with pytest.raises(RuntimeError), ExitStack() as stack:
        brought(starts, "a broken c", log, stack)
    begun, ended = ({line.split()[0] for line in log if how in line} for how in (" starts", " ends"))
    assert begun == ended
    assert not list(tmp_path.iterdir())


def watched(device: str, cores: int) -> Facts:
    seen = facts(roots=(root(devices=(device,)),))
    return replace(seen, machine=machine(logical_cpus=cores, physical_cores=cores))


@pytest.mark.parametrize(
    ("device", "cores", "how"),
    [
        ("cuda:0", 16, "together"),
        ("cuda:0", 4, "in turn"),
        ("cpu", 16, "in turn"),
        ("cpu", 2, "in turn"),
        ("cpu", 1, "one by one"),
    ],
)
def test_how_they_start(device: str, cores: int, how: str) -> None:
    starts = Starts()
    starts.know(watched(device, cores))
    assert starts.how == how
    assert starts.seconds(5.0, 1) == 5.0
    assert 5.0 < starts.seconds(5.0, 2) <= 10.0


@pytest.mark.parametrize(
    ("alone", "names", "how"),
    [
        (60.0, "a b c", "in turn"),
        (1e-9, "a b c", "one by one"),
        (1e-9, "compiled b", "in turn"),  # its set-up may have taken the time
    ],
)
def test_where_they_slow_each_other_all_the_same_they_start_one_by_one(
    tmp_path: Path, alone: float, names: str, how: str
) -> None:
    starts = Starts(lambda: str(tmp_path))
    starts.how, starts.alone = "in turn", alone
    with ExitStack() as stack:
        assert brought(starts, names, [], stack) == names.split()
    assert starts.how == how


EVALUATES_FIRST = """
import time
import torch

model = torch.nn.Linear(4, 4)
print(time.monotonic(), flush=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
print(time.monotonic(), flush=True)
time.sleep(2.0)
for _ in range(100):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""


def test_what_computes_before_its_first_step_waits_for_its_turn(tmp_path: Path) -> None:
    with trials_for(tmp_path, EVALUATES_FIRST) as trials:
        trials.starts.how = "in turn"
        reached: list[float] = []
        with ExitStack() as stack:
            starts = [lambda turn: trials.worker(turn=turn)] * 2
            workers = trials.starts.bring(starts, stack, lambda _: reached.append(time.monotonic()))
            for worker in workers:
                worker.proofs()  # which also tell how long its start took
                assert 0 < worker.own_seconds < worker.start_seconds
            first, second = (worker.start_seconds for worker in workers)
    made, computes = map(float, (tmp_path / "output/worker-002.stdout").read_text().split())
    assert made < reached[0] < computes < reached[1]
    assert second < first + (computes - made) / 2  # what it waited is not its own
