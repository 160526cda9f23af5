"""What the guard found, in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hasten.records.comparison import LossCurve, SingleSteps, StepDeparture
from hasten.records.verdict import Difference, GuardVerdict, Invariants, Shortfall, TooLittleTime
from hasten.report.guard import reasons

HELD = GuardVerdict("held", 120, loss_curve=LossCurve(True, 0.003, 0.0, 0.012))
LOSS = LossCurve(False, 0.05, 0.0, 0.012)
LOSS_WORDS = "the loss differs from the baseline's by 5.000%, where rounding explains 1.2%"
RATES, STREAMS = Difference("rates", 7), Difference("streams", 2)
OFF = SingleSteps(False, compared={"gradient": StepDeparture(1.05, 0.005, False, 2, 0.05, 0.02)})
OFF_WORDS = "the gradient is 1.050 times the baseline's in step 2, where rounding explains 0.50%"


def test_of_what_held_there_is_nothing_to_say() -> None:
    assert reasons(HELD) == []
    assert reasons(replace(HELD, numerics=SingleSteps(left_out="no room"))) == []
    assert reasons(GuardVerdict("held", 45, changes=("prune",))) == []


def test_what_did_not_hold_is_told_from_the_surest_to_the_finest() -> None:
    found = replace(HELD, loss_curve=LOSS, numerics=OFF, invariants=Invariants((), (RATES, STREAMS)))
    assert reasons(replace(found, accuracy="not held")) == [
        "learning rates differ (from step 7)",
        "different random numbers were drawn (from step 2)",
        LOSS_WORDS,
        OFF_WORDS,
    ]


def test_steps_that_could_not_be_compared_to_the_end_are_not_held_against_the_plan() -> None:
    numerics = replace(OFF, held=None, left_out="no room")
    assert reasons(replace(HELD, accuracy="not held", loss_curve=LOSS, numerics=numerics)) == [LOSS_WORDS]


SHAPES = tuple(Difference("shape", name=name) for name in "abcd")


@pytest.mark.parametrize(
    ("differing", "said"),
    [
        (SHAPES[:1], ["checkpoints have different shapes: a"]),
        (SHAPES, ["checkpoints have different shapes: a, b, c"]),
        (
            (*SHAPES[:2], Difference("losses"), Difference("number", 3)),
            [
                "checkpoints have different shapes: a, b",
                "losses are missing",
                "the loss is not a number in step 3",
            ],
        ),
        ((Difference("steps", counts=(60, 40)),), ["one training took 60 steps, the other 40"]),
        ((Difference("samples"),), ["an epoch had different samples"]),
    ],
)
def test_what_differs(differing: tuple[Difference, ...], said: list[str]) -> None:
    found = GuardVerdict("not held", 30, Invariants((), differing), changes=("prune",))
    assert reasons(found) == said


SHORT: dict[str, Any] = {"accuracy": "not checked", "steps": 19, "why_not": "short", "needed": 20}
UNSTEADY: dict[str, Any] = {"why_not": "unrepeatable", "unsteady": (RATES, STREAMS)}


def spent(seen: Shortfall) -> GuardVerdict:
    return GuardVerdict("not checked", why_not="budget", budget=TooLittleTime(420, ("malloc",), seen))


BUDGET = GuardVerdict("not checked", why_not="budget", budget=TooLittleTime(210, ("bf16", "malloc")))


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (GuardVerdict(**SHORT), ["only 19 steps could be compared, and 20 are needed"]),
        (
            GuardVerdict(
                "not checked", 18, why_not="noise", needed=20, loss_curve=LossCurve(precision="bfloat16")
            ),
            ["with noise the size of rounding in bfloat16, the script ends after 18 steps"],
        ),
        (GuardVerdict(**SHORT, changes=("prune",)), ["only 19 steps could be seen, and 20 are needed"]),
        (
            GuardVerdict(**SHORT, loss_curve=LOSS),
            ["only 19 steps could be compared, and 20 are needed", LOSS_WORDS],
        ),
        (
            replace(HELD, accuracy="not checked", **UNSTEADY, invariants=Invariants((), (RATES,))),
            [
                "two runs from one seed differ (learning rates differ (from step 7); different "
                "random numbers were drawn (from step 2): perhaps its losses decide what it does next, and "
                "noise the size of rounding changes that), so nothing can be compared",
                "learning rates differ (from step 7)",
            ],
        ),
        (
            GuardVerdict("not checked", 60, loss_curve=LossCurve(False), why_not="no losses"),
            ["losses are missing, or not numbers"],
        ),
        (GuardVerdict("not checked", why_not="short", failure="it came to its end"), ["it came to its end"]),
        (
            replace(HELD, accuracy="not checked", why_not="state", failure="no room"),
            ["single steps could not be compared: no room"],
        ),
        (
            BUDGET,
            ["the budget ended before bf16, malloc could be checked and then confirmed: try --budget 210"],
        ),
        (
            replace(HELD, accuracy="not checked", why_not="budget", budget=TooLittleTime(180)),
            ["the budget ended before what was faster could be confirmed: try --budget 180"],
        ),
        (
            spent(Shortfall(148.0, 150.0, 60.0, times=3.0, disturbed=0.9)),
            ["the budget ended before malloc could be checked and then confirmed: try --budget 420"],
        ),
        (
            spent(Shortfall(50.0, 150.0, 110.0, times=2.6, disturbed=0.72)),
            [
                "the budget was too short before malloc could be checked and then confirmed: after 50 s of "
                "150 s that takes 110 s more; a pair of processes takes 2.6 times as long as foreseen at "
                "the beginning; other programs took processor time from 72% of the blocks of steps: tune "
                "when the machine is less busy. Try --budget 420"
            ],
        ),
        (
            spent(Shortfall(50.0, 150.0, 110.0)),
            [
                "the budget was too short before malloc could be checked and then confirmed: after 50 s of "
                "150 s that takes 110 s more. Try --budget 420"
            ],
        ),
    ],
)
def test_why_nothing_could_be_checked(verdict: GuardVerdict, said: list[str]) -> None:
    assert reasons(verdict) == said
