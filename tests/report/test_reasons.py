"""Why a technique is kept, not kept or not tried, in words."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from hasten.records.curve import ThreadPoint
from hasten.records.plan import Plan
from hasten.records.reasons import Decision, Found, Reason, SetUp, WhyNot
from hasten.records.trial import Ratio
from hasten.report.reasons import missing_words, reason_words, why_not_words
from tests.bench.made_up import unchecked

SET_UP = SetUp(10.0, 1000)
TOGETHER = Reason("gain", names=("a", "b"))
CRASH = Reason("failed", failure="killed by SIGSEGV")


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (Reason("gain"), "a gain"),
        (Reason("slower"), "slower"),
        (Reason("not measured"), "could not be measured"),
        (Reason("no gain"), "no gain found"),
        (Reason("no gain", resolution=2), "no gain found (cannot tell under 2%)"),
        (Reason("no gain", resolution=22153), "no gain found (too noisy to tell)"),
        (Reason("gain", parts=("start",)), "a gain in the time to the first step"),
        (CRASH, "killed by SIGSEGV"),
        (Reason("slower", set_up=SetUp(10.0)), "slower; its set-up took 10 s"),
        (Reason("gain", set_up=SET_UP), "a gain; its set-up of 10 s pays after 1,000 steps"),
        (
            Reason("gain", set_up=replace(SET_UP, slower_start=SET_UP.seconds)),
            "a gain; a run starts 10 s later under it, which pays after 1,000 steps",
        ),
        (
            Reason("slower", set_up=SetUp(4.0, slower_start=3.0)),
            "slower; a run starts 3 s later under it, 4 s with its set-up",
        ),
        (
            Reason("gain", "not kept", set_up=replace(SET_UP, script_steps=999), remarks=("2 graph breaks",)),
            "a gain in combination; its set-up of 10 s pays after 1,000 steps, and a run has "
            "999; 2 graph breaks: not kept",
        ),
        (
            Reason("gain", along=Plan({"threads": {"count": 1}, "malloc": {}})),
            "a gain, with threads (count=1), with malloc",
        ),
        (Reason("gain", "settings replaced", set_up=SET_UP), "a gain over the previous settings"),
        (Reason("slower", "settings stay"), "slower: the previous settings stay"),
        (Reason("gain", "earned"), "a gain in combination"),
        (Reason("gain", "likely"), "probably faster, but there are few pairs"),
        (Reason("slower", "not kept"), "slower: not kept"),
        (replace(CRASH, decision="undecided"), "killed by SIGSEGV: not conclusive, kept"),
        (TOGETHER, "a gain together: a, b"),
        (
            replace(TOGETHER, found="failed", failure="b had no effect", decision="again"),
            "b had no effect; again without",
        ),
        (
            replace(TOGETHER, found="failed", failure="it hung", decision="singly"),
            "it hung; each tried alone",
        ),
        (replace(TOGETHER, found="slower", decision="singly"), "slower together, so each tried alone: a, b"),
        (
            replace(TOGETHER, found="no gain", decision="none singly", resolution=3),
            "no gain found together (cannot tell under 3%), so none tried alone: a, b",
        ),
        (
            Reason("no gain", "left out", parts=("evaluation",)),
            "left out: the plan with it was not confirmed over whole stretches of the run, evaluation "
            "included",
        ),
        (
            Reason("gain", late=840, remarks=("1,157,817 averages of gradients had fallen below 1.2e-38",)),
            "a gain from about step 840 on; 1,157,817 averages of gradients had fallen below 1.2e-38",
        ),
        (
            Reason("no gain", resolution=3, late=840),
            "no gain found (cannot tell under 3%) from about step 840 on",
        ),
        (
            Reason(decision="did not apply", guard=unchecked("refused", "malloc: not here")),
            "it did not apply in the accuracy check: malloc: not here",
        ),
        (
            Reason(decision="not checked", guard=unchecked("killed", "out of memory")),
            "accuracy could not be checked: out of memory",
        ),
        (
            Reason(decision="not held", guard=unchecked("short", "it ended")),
            "the guard stopped it: it ended",
        ),
    ],
)
def test_a_row(reason: Reason, words: str) -> None:
    assert reason_words(reason) == words


@pytest.mark.parametrize("found", [one for one in get_args(Found) if one])
@pytest.mark.parametrize("decision", get_args(Decision))
@pytest.mark.parametrize("names", [(), ("a", "b")])
def test_every_code_has_words(found: Found, decision: Decision, names: tuple[str, ...]) -> None:
    assert reason_words(Reason(found, decision, failure="it hung", names=names))


@pytest.mark.parametrize(
    ("why", "words"),
    [
        (WhyNot("said", "needs glibc"), "needs glibc"),
        (WhyNot("risk", risk="close", allowed="exact"), "the risk here is 'close', above --risk exact"),
        (WhyNot("no time"), "the budget ended first"),
        (WhyNot("no time", budget=4e8), "the budget ended first"),
        (
            WhyNot("no time", untried=({"kind": "b"}, {"kind": "c", "arenas": 2})),
            "the budget ended before kind=b or kind=c, arenas=2 could be tried",
        ),
        (
            WhyNot("no time in combination"),
            "kept: the budget ended before it could be measured in combination with the others",
        ),
        (
            WhyNot("before the start"),
            "kept: it was measured before the start was shortened, which may change what it gains",
        ),
    ],
)
def test_what_was_not_tried(why: WhyNot, words: str) -> None:
    assert why_not_words(why) == words


def test_a_point_that_is_missing() -> None:
    assert missing_words(ThreadPoint(1)) == "the budget ended before"
    assert missing_words(ThreadPoint(1, failed=CRASH)) == "killed by SIGSEGV"
    assert missing_words(ThreadPoint(1, Ratio(1.0, 1.0, 1.0, 4, "pairs"))) == ""
