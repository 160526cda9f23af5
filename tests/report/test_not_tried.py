"""What a tune did not try, and what a person can do about it."""

from __future__ import annotations

import pytest

from hasten.records.reasons import WhyNot
from hasten.records.result import Refused
from hasten.report.not_tried import not_tried_lines

LATE = WhyNot("no time", budget=400.0)
FOR_MORE = "the budget ended first; --budget 400 would be enough"
NO_GPU, RISKY = WhyNot("said", "no GPU here"), WhyNot("risk", risk="training", allowed="close")
BY_NAME = WhyNot("by name", "it saves memory: name it by --use")
SMALL = WhyNot("small part", parts=("saving",), share=0.001)
KEPT = WhyNot("no time in combination")


def report(**reasons: tuple[WhyNot, ...]) -> str:
    refused = [Refused(name, why) for name, why in reasons.items()]
    return "\n".join(not_tried_lines(refused, "train.py"))


def test_nothing_refused_takes_no_line() -> None:
    assert not_tried_lines([], "train.py") == []


def test_what_was_tried_with_something_else_does_apply() -> None:
    """As what keeps samples in memory, once no worker processes make them."""
    refused = [Refused("dataset_in_ram", (NO_GPU,)), Refused("tf32", (NO_GPU,)), Refused("threads", (LATE,))]
    found = not_tried_lines(refused, "train.py", {"dataset_in_ram", "threads"})
    assert "\nDo not apply here: tf32. To see why:" in found
    assert f"  threads: {FOR_MORE}" in found, "other settings of it"


def test_what_had_no_time_comes_first_with_the_budget_that_would_do() -> None:
    found = report(tf32=(NO_GPU,), threads=(LATE,), processes=(LATE,))
    first, rest = found.lstrip("\n").split("\n\n")
    assert first.splitlines() == [
        "Not tried, for want of time:",
        f"  threads, processes: {FOR_MORE}",
    ]
    assert rest == "Do not apply here: tf32. To see why:\n  hasten techniques train.py"


def test_what_only_waits_for_a_word_says_which() -> None:
    found = report(drop_bias=(RISKY,), batch_size=(RISKY,), checkpointing=(BY_NAME,))
    assert found.lstrip("\n").splitlines() == [
        "Not tried unless you ask for it:",
        "  drop_bias, batch_size: the risk here is 'training', above --risk close",
        "  checkpointing: it saves memory: name it by --use",
    ]


@pytest.mark.parametrize(
    ("why", "line"),
    [
        ((SMALL,), "Cannot gain 2% of this run: one, two."),
        ((SMALL, RISKY), "Cannot gain 2% of this run: one, two."),
        ((RISKY, NO_GPU), "Do not apply here: one, two. To see why:\n  hasten techniques train.py"),
        ((NO_GPU, SMALL), "Do not apply here: one, two. To see why:\n  hasten techniques train.py"),
        ((WhyNot("not named", "--only names others"),), "Not tried, as --only names others: 2 techniques."),
    ],
)
def test_what_nothing_can_be_done_about_is_a_name(why: tuple[WhyNot, ...], line: str) -> None:
    assert report(one=why, two=why) == f"\n{line}"


def test_what_the_plan_excludes_says_by_what() -> None:
    found = report(matmul_precision=(WhyNot("excluded", "matmul_precision and bf16 exclude each other"),))
    assert found.lstrip("\n").splitlines() == [
        "Not in combination with this plan:",
        "  matmul_precision: matmul_precision and bf16 exclude each other",
    ]


def test_what_is_in_the_plan_is_told_apart() -> None:
    found = report(malloc=(KEPT,), bf16=(KEPT, NO_GPU))
    assert "In the plan, not measured again in combination with the others: malloc, bf16.\n" in found
    assert "Not tried" not in found
