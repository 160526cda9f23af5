"""What a tune came to, in words. With the numbers of real confirmations: tests/tuning/test_conclusion.py."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from hasten.records.conclusion import Code, Conclusion, Resolution, Unsure
from hasten.records.plan import BASELINE
from hasten.records.result import TuneResult
from hasten.records.verdict import GuardVerdict, Shortfall, TooLittleTime
from hasten.report.conclusion import conclusion_words
from tests.bench.made_up import unchecked, verdict

UNSURE = Unsure(speedup=1.05, pairs=6, seen=6, slow=0, slower=0.57)
NOT_SURE = "no certain one: 6 pairs of fresh processes measured 1.05 times faster, but "
MAY_BE = (
    "a process may be slow throughout (by 57% if its memory layout is bad), and 6 under the plan are too "
    "few to rule that out for so small a gain"
)
NO_TIME = replace(unchecked("budget", ""), budget=TooLittleTime(210, ("bf16",)))


SHORT = Shortfall(50.0, 150.0, 110.0, times=2.6)
KEPT = (
    "could be tried, as time is kept to check and confirm what is faster: after 50 s of 150 s that takes "
    "110 s more; a pair of processes takes 2.6 times as long as foreseen at the beginning: tune when the "
    "machine is less busy"
)


def said(conclusion: Conclusion, guard: GuardVerdict | None = None) -> str:
    return conclusion_words(TuneResult("no-gain", conclusion, BASELINE, guard=guard))


@pytest.mark.parametrize(
    ("conclusion", "words"),
    [
        (Conclusion("slower"), "what looked faster proved slower in fresh processes"),
        (Conclusion("failed", "out of memory"), "the plan failed in fresh processes: out of memory"),
        (Conclusion("not held"), "what was faster did not keep accuracy"),
        (Conclusion("not seen"), "accuracy under the plan was not checked"),
        (Conclusion("no time"), "the budget ended before anything could be tried"),
        (Conclusion("no time", short=SHORT), f"nothing {KEPT}"),
        (Conclusion("nothing faster", short=SHORT), f"nothing tried is faster. Not all {KEPT}"),
        (
            Conclusion("nothing faster", short=replace(SHORT, spent=140.0)),
            "nothing tried is faster",
        ),
        (Conclusion("nothing applies"), "no technique applies here"),
        (Conclusion("refused", "it never trains"), "it never trains"),
        (Conclusion("nothing faster"), "nothing tried is faster"),
        (
            Conclusion("nothing faster", resolution=Resolution(7, finer=4, budget=400.0)),
            "nothing tried is faster. Cannot tell under 7%: comparisons that vary as the least "
            "steady of these find a gain of 7% four times in five, smaller ones less often; a search under "
            "--budget 400 would find 4%",
        ),
        (
            Conclusion("noise"),
            "what looked faster was not confirmed in fresh processes: it is within the noise",
        ),
        (
            Conclusion("noise", resolution=Resolution(11, 6, 6, 330.0)),
            "what looked faster was not confirmed in fresh processes: it is within the noise. Cannot tell "
            "under 11%: 6 pairs that vary as much as these find a gain of 11% four times in five, "
            "smaller ones less often; --budget 330 would find 6%",
        ),
        (
            Conclusion("nothing faster", resolution=Resolution(43945, finer=21973, budget=300.0)),
            "nothing tried is faster. Measurements vary too much to tell anything: tune again "
            "when the machine is idle",
        ),
        (Conclusion("unsure", unsure=UNSURE), f"{NOT_SURE}{MAY_BE}"),
        (
            Conclusion("unsure", unsure=replace(UNSURE, hopeless=True)),
            f"{NOT_SURE}{MAY_BE}; no --budget is long enough to start enough of them",
        ),
        (
            Conclusion("unsure", unsure=replace(UNSURE, seen=10, slow=2, budget=330.0)),
            f"{NOT_SURE}2 of 10 processes under the plan were slow, and others may be; --budget 330 would "
            "start enough of them",
        ),
    ],
)
def test_a_conclusion(conclusion: Conclusion, words: str) -> None:
    assert said(conclusion) == words


@pytest.mark.parametrize(
    ("code", "guard", "words"),
    [
        ("confirmed", verdict(), "the gain is confirmed in fresh processes"),
        (
            "confirmed",
            replace(verdict(), changes=("prune",)),
            "the gain in speed is confirmed in fresh processes; model quality was not "
            "checked: hasten verify does that",
        ),
        ("not checked", unchecked("killed", "it died"), "accuracy could not be checked: it died"),
        (
            "not checked",
            NO_TIME,
            "the budget ended before bf16 could be checked and then confirmed: try --budget 210",
        ),
        ("not checked", unchecked("budget", "the budget ended"), "the budget ended"),
    ],
)
def test_what_the_guard_found_is_told(code: Code, guard: GuardVerdict, words: str) -> None:
    assert said(Conclusion(code), guard) == words


def test_every_code_has_words() -> None:
    for code in get_args(Code):
        assert said(Conclusion(code, "a text", unsure=UNSURE), verdict(passed=False))
