"""The most that a cure can give: what is seen of a cause, and what it brings along elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from hasten.causes import find_causes
from hasten.causes.of_the_run import bound_of
from hasten.records.cause import Cause
from hasten.records.facts import Facts
from hasten.records.observation import Wait
from tests.bench.made_up import facts, loader, step, watched_run


def bound(found: list[Cause], name: str) -> float:
    (known,) = (cause.bound for cause in found if cause.name == name)
    assert known is not None
    return known


def steps_of(shares: dict[str, float], **more: Any) -> Facts:
    return facts(steps=tuple(step(shares=shares) for _ in range(30)), **more)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.04, 0.3, 0.5, 0.85, 0.99, 1.0])
def test_a_bound_is_no_less_than_what_was_seen_and_no_more_than_all(share: float) -> None:
    assert share <= bound_of(share) <= 1.0


def test_what_a_small_cause_leaves_behind_is_no_more_than_itself() -> None:
    assert bound_of(0.04) == pytest.approx(0.08)


def test_evaluation_and_first_batches_wait_for_the_same_data_set() -> None:
    run = watched_run({"steps": 80.0, "evaluation": 9.0, "garbage": 6.0, "saving": 5.0}, epochs=1)
    found = find_causes(steps_of({"data": 0.9, "forward": 0.1}, run=run))
    assert bound(found, "input") == pytest.approx(bound_of(0.72 + 0.09 + 0.06))


def test_first_batches_count_once() -> None:
    run = watched_run({"steps": 80.0, "first batches": 20.0}, epochs=1)
    found = find_causes(steps_of({"data": 0.5, "forward": 0.5}, run=run))
    assert found[0].share == pytest.approx(0.6)  # made in the training process: as any other batch
    assert bound(found, "input") == pytest.approx(bound_of(0.6))
    others = find_causes(steps_of({"data": 0.5, "forward": 0.5}, run=run, loaders=(loader(workers=1),)))
    assert bound(others, "input") == pytest.approx(bound_of(0.4 + 0.2))


def test_workers_that_begin_are_waited_for_in_the_steps_that_follow_too() -> None:
    run = watched_run({"steps": 50.0, "first batches": 50.0}, epochs=1)
    found = find_causes(steps_of({"data": 0.4, "forward": 0.6}, run=run, loaders=(loader(workers=2),)))
    assert bound(found, "epochs") == pytest.approx(bound_of(0.5 + 0.4 * 0.5))


def test_where_a_loop_stands_still_is_its_own_code_too() -> None:
    seen = steps_of({"forward": 0.2}, waits=(Wait(".item()", "train.py:3", 1.0, 0.003),))
    assert bound(find_causes(seen), "loop") == pytest.approx(bound_of(0.5 + 0.3))


def test_a_bound_is_reported_next_to_what_was_seen() -> None:
    run = watched_run({"steps": 70.0, "saving": 30.0}, epochs=1)
    (saving,) = (cause for cause in find_causes(steps_of({}, run=run)) if cause.name == "saving")
    assert saving.evidence.endswith("without it, 1.43 times faster, 2.50 at most")
