"""Why steps are said to be slower: readings before and after in, words out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hasten.inside.run_watch.causes import Spell, causes, straggler, where
from hasten.inside.run_watch.message import slower_words
from hasten.inside.run_watch.rules import Slower
from hasten.records.run_facts import RunFacts

from .made_up import facts

MIB = 2**20
USUAL = {"data": 0.001, "forward": 0.003, "loss": 0.0, "backward": 0.004, "optimizer": 0.001, "other": 0.001}
LONGER, WAITED = 0.010, 0.001


def spell(
    phases: dict[str, float] | None = None,
    began: dict[str, Any] | None = None,
    ended: dict[str, Any] | None = None,
    steps_until: int = 1000,
    collecting: float | None = None,
    **both: Any,
) -> Spell:
    """Of ten seconds on two processors, of which the run used one."""
    first = facts(0.0, **{**both, **(began or {})})
    last = facts(10.0, **{"busy": 10.0, "own": 10.0, **both, **(ended or {})})
    return Spell(first, last, phases or USUAL, steps_until, collecting)


FIRST = spell()
EVEN = {"rank 0": 0.010, "rank 1": 0.011, "rank 2": 0.010}


def with_ranks(own: dict[str, float], of: Spell) -> Spell:
    return replace(of, own=own)


def slow(**changes: Any) -> Spell:
    """Whose steps take 10 ms longer."""
    return spell(**{"phases": {**USUAL, "forward": 0.013}, "steps_until": 5000, **changes})


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (slow(ended={"busy": 19.0}), "other programs take 0.9 of its 2 processors"),
        (slow(ended={"busy": 19.0, "stolen": 8.0}), "the host takes 0.9 of its 2 processors"),
        (slow(ended={"busy": 14.0}), ""),  # there is room for them
        (slow(ended={"throttled": 3.0}), "the container's processor quota stops it 30% of the time"),
        (slow(ended={"throttled": 0.1}), ""),
        (slow(ended={"cpus": 1}), "it may run on 1 of the 2 processors it had"),
        (slow(ended={"heat_stops": 3}), "the processor slows down because it is hot"),
        (slow(ended={"swapped_bytes": 300 * MIB}), "300 MiB of its memory are swapped out"),
        (slow(ended={"swapped_bytes": 3 * MIB}), ""),
        (
            slow(began={"stalled_seconds": 50.0}, ended={"stalled_seconds": 52.0}),
            "memory is short, and programs wait for it 20% of the time",
        ),
        (
            slow(available_bytes=100 * MIB, memory_bytes=8192 * MIB),
            "memory is short: 100 MiB are left",
        ),
        (slow(available_bytes=4000 * MIB, memory_bytes=8192 * MIB), ""),
        (slow(collecting=0.3), "Python's garbage collector takes 30% of the time"),
        (slow(collecting=0.05), ""),
        (
            replace(slow(), tiny=1_157_817, tiny_seconds=0.016),
            "1,157,817 averages of gradients have fallen below 1.2e-38, with which this processor computes "
            "slowly (--use denormals takes them for zero)",
        ),
        (replace(slow(), tiny=1_157_817, tiny_seconds=0.001), ""),  # not here
        (replace(slow(), tiny=0, tiny_seconds=0.016), ""),
        (
            slow(phases={**USUAL, "data": 0.011}),
            "it waits for data, 55% of a step and 10% before",
        ),
        (slow(), ""),
    ],
)
def test_a_cause_is_named_where_it_is_seen(now: Spell, words: str) -> None:
    assert causes(FIRST, now, LONGER, WAITED) == ([words] if words else [])


def test_memory_that_grows_is_told_by_the_step() -> None:
    then = spell(resident_bytes=1024 * MIB)
    now = slow(began={"resident_bytes": 3000 * MIB}, ended={"resident_bytes": 3072 * MIB})
    assert causes(then, now, LONGER, WAITED) == [
        "its memory grows by 524 KiB a step, from 1.0 GiB to 3.0 GiB so far"
    ]


@pytest.mark.parametrize("memory", [(3072, 3072), (1100, 1124)], ids=["no longer", "hardly"])
def test_memory_that_does_not_grow_is_no_cause(memory: tuple[int, int]) -> None:
    then = spell(resident_bytes=1024 * MIB)
    began, ended = memory
    now = slow(began={"resident_bytes": began * MIB}, ended={"resident_bytes": ended * MIB})
    assert causes(then, now, LONGER, WAITED) == []


def test_a_clock_that_is_slower_than_it_was_is_named() -> None:
    words = "the processor's clock is at 2.1 GHz and was at 3.4"
    assert causes(spell(gigahertz=3.4), slow(gigahertz=2.1), LONGER, WAITED) == [words]
    assert causes(spell(gigahertz=3.4), slow(gigahertz=3.3), LONGER, WAITED) == []


@pytest.mark.parametrize(
    "what", [{"ended": {"busy": 19.0}}, {"ended": {"throttled": 3.0}}, {"ended": {"heat_stops": 3}}]
)
def test_what_was_there_from_the_beginning_is_no_cause_of_what_came_later(what: dict[str, Any]) -> None:
    assert causes(spell(**what), slow(**what), LONGER, WAITED) == []


def test_a_run_that_is_slow_from_its_start_is_not_compared_with_that() -> None:
    now = slow(ended={"busy": 19.0, "throttled": 3.0})
    assert causes(None, now, LONGER, WAITED) == [
        "other programs take 0.9 of its 2 processors",
        "the container's processor quota stops it 30% of the time",
    ]
    assert where(None, now, LONGER) == ""


def test_a_system_that_tells_nothing_gives_no_causes() -> None:
    mute = Spell(RunFacts(0.0), RunFacts(10.0), USUAL, 1000)
    assert causes(mute, Spell(RunFacts(0.0), RunFacts(10.0), USUAL, 5000), LONGER, WAITED) == []


@pytest.mark.parametrize(
    ("phases", "place"),
    [
        ({"forward": 0.013}, "the forward pass"),
        ({"other": 0.011}, "the script's own code between the steps"),
        ({"forward": 0.008, "backward": 0.009}, ""),  # half in each
    ],
)
def test_the_part_of_a_step_that_takes_longer_is_named(phases: dict[str, float], place: str) -> None:
    assert where(FIRST, slow(phases={**USUAL, **phases}), LONGER) == place


@pytest.mark.parametrize(
    ("found", "seen", "place", "line"),
    [
        (
            Slower(True, 0.0131, 0.010, 0.0031),
            ["other programs take 0.9 of its 2 processors"],
            "",
            "steps take 1.31 times as long as when the plan was tuned (10 ms then, 13.1 ms now): "
            "other programs take 0.9 of its 2 processors",
        ),
        (
            Slower(False, 0.020, 0.010, 0.010, growing=True),
            [],
            "the forward pass",
            "steps take 2.00 times as long as earlier in this run (10 ms then, 20 ms now), "
            "and ever longer: no cause was seen; what takes longer is the forward pass",
        ),
    ],
)
def test_the_line_says_how_much_since_when_and_why(
    found: Slower, seen: list[str], place: str, line: str
) -> None:
    assert slower_words(found, seen, place) == line


# ---- ranks
@pytest.mark.parametrize(
    ("first", "own", "name"),
    [
        (EVEN, {**EVEN, "rank 1": 0.021}, "rank 1"),
        (EVEN, {**EVEN, "rank 1": 0.013}, ""),  # that explains too little
        (EVEN, {name: seconds + 0.010 for name, seconds in EVEN.items()}, ""),  # all of them are slower
        ({**EVEN, "rank 1": 0.020}, {**EVEN, "rank 1": 0.021}, ""),  # it was before
        ({}, {**EVEN, "rank 1": 0.021}, "rank 1"),  # it is not known what it took before
        (EVEN, {}, ""),
        ({}, {"rank 0": 0.030}, ""),
    ],
)
def test_the_rank_that_others_wait_for(first: dict[str, float], own: dict[str, float], name: str) -> None:
    before, now = with_ranks(first, FIRST), with_ranks(own, slow())
    assert straggler(before, now, LONGER) == name
    told = [line for line in causes(before, now, LONGER, WAITED) if "ranks" in line]
    assert len(told) == bool(name)


def test_a_rank_that_is_slow_from_the_start_is_found_too() -> None:
    now = with_ranks({**EVEN, "rank 2": 0.021}, slow())
    assert causes(None, now, LONGER, None)[0] == (
        "the other ranks wait for rank 2, which takes 10 ms longer for its part of a step"
    )
