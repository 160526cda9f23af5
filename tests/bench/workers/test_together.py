"""Workers that start at the same time, or one after the other."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from hasten.bench.workers.together import at_first_step, may_start_together, seconds_of_starts
from hasten.records.facts import Facts
from tests.techniques.made_up import facts, machine, root


class PaperWorker:
    """Notes in ``log`` what happens to it."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self._log = name, log
        log.append(f"{name} starts")

    def __enter__(self) -> PaperWorker:
        return self

    def __exit__(self, *error: object) -> None:
        self._log.append(f"{self.name} ends")

    def wait_started(self) -> None:
        self._log.append(f"{self.name} has started")
        if self.name == "broken":
            raise RuntimeError


IN_TURN = ["a starts", "a has started", "then a", "b starts", "b has started", "then b"]
AT_ONCE = ["a starts", "b starts", "a has started", "then a", "b has started", "then b"]


@pytest.mark.parametrize(("together", "expected"), [(False, IN_TURN), (True, AT_ONCE)])
def test_the_order(together: bool, expected: list[str]) -> None:
    log: list[str] = []
    starts: Any = [partial(PaperWorker, name, log) for name in "ab"]
    with ExitStack() as stack:
        found: Any = at_first_step(
            starts,
            stack,
            together,
            lambda worker: log.append(f"then {worker.name}"),  # type: ignore[attr-defined]
        )
        assert [worker.name for worker in found] == ["a", "b"]
        assert log == expected
    assert log[len(expected) :] == ["b ends", "a ends"]


@pytest.mark.parametrize("together", [False, True])
def test_none_outlives_one_that_fails(together: bool) -> None:
    log: list[str] = []
    starts: Any = [partial(PaperWorker, name, log) for name in ("a", "broken", "c")]
    with pytest.raises(RuntimeError), ExitStack() as stack:
        at_first_step(starts, stack, together, lambda _: None)
    begun, ended = ({line.split()[0] for line in log if line.endswith(how)} for how in ("starts", "ends"))
    assert begun == ended == ({"a", "broken", "c"} if together else {"a", "broken"})


def on(device: str, cores: int) -> Facts:
    seen = facts(roots=(root(devices=(device,)),))
    return replace(seen, machine=machine(logical_cpus=cores, physical_cores=cores))


def test_together_where_a_gpu_computes_and_there_are_cores_for_all() -> None:
    assert may_start_together(on("cuda:0", 16))
    assert not may_start_together(on("cuda:0", 4))
    assert not may_start_together(on("cpu", 16))


def test_what_several_starts_take() -> None:
    assert seconds_of_starts(5.0, 1, together=True) == seconds_of_starts(5.0, 1, together=False) == 5.0
    assert seconds_of_starts(5.0, 3, together=False) == 15.0
    assert 5.0 < seconds_of_starts(5.0, 3, together=True) < 10.0
