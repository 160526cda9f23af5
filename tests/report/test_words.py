"""Numbers in words."""

from __future__ import annotations

import pytest

from hasten.records.plan import BASELINE, Plan
from hasten.records.reasons import Reason
from hasten.records.result import Tried
from hasten.records.trial import Ratio
from hasten.report.words import (
    number_words,
    percent_words,
    rate_words,
    ratio_words,
    technique_words,
    tried_words,
    with_words,
)


@pytest.mark.attack("messages")
@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0.0, "0"),
        (12345.6, "12,346"),
        (99.7, "100"),
        (12.4, "12"),
        (3.14, "3.1"),
        (0.49, "0.49"),
        (0.0432, "0.043"),
        (0.000271828, "0.00027"),
    ],
)
def test_a_number_keeps_two_significant_digits(number: float, words: str) -> None:
    assert number_words(number) == words


@pytest.mark.attack("messages")
@pytest.mark.parametrize(
    ("samples", "seconds", "words"),
    [
        (64, 0.0142, ", 4,507 samples a second"),
        (1, 23.0, ", 0.043 samples a second"),
        (None, 1.0, ""),
        (8, 0.0, ""),
    ],
)
def test_a_rate_is_never_rounded_to_nothing(samples: float | None, seconds: float, words: str) -> None:
    assert rate_words(samples, seconds) == words


def test_a_ratio_of_times_is_told_as_a_speedup() -> None:
    """0.8 of the time is 1.25 times faster; the interval turns round with it."""
    assert ratio_words(Ratio(0.8, 0.5, 1.0, 6, "pairs")) == "1.25x (1.00 to 2.00)"


def test_no_ratio() -> None:
    assert ratio_words(None) == "-"


def test_a_technique_with_its_settings() -> None:
    assert technique_words("bf16", {}) == "bf16"
    assert technique_words("threads", {"count": 1, "interop": 2}) == "threads (count=1, interop=2)"


def test_a_row() -> None:
    row = Tried("threads", {"count": 1}, None, BASELINE, False, Reason("slower"), "pairs")
    assert tried_words(row) == "threads (count=1)"
    joint = Tried(
        "environment",
        {},
        None,
        BASELINE,
        False,
        Reason("slower"),
        "pairs",
        together=Plan({"malloc": {}, "bf16": {}}),
    )
    assert tried_words(joint) == "environment, 2 together"


def test_what_it_was_tried_with() -> None:
    assert with_words(BASELINE) == "-"
    assert with_words(Plan({"malloc": {}, "bf16": {}})) == "malloc + bf16"
    assert with_words(Plan({"malloc": {}, "bf16": {}, "threads": {"count": 1}})) == "3 others"


@pytest.mark.parametrize(
    ("share", "digits", "words"),
    [
        (0.00065, 2, "0.065%"),
        (0.00082173, 4, "0.08217%"),
        (0.005, 2, "0.50%"),
        (7.9184, 4, "791.8%"),
        (7.9184, 2, "792%"),
        (1.0, 2, "100%"),
        (0.0, 4, "0%"),
        (-0.0123, 2, "-1.2%"),
        (2.0**-20, 2, "0.000095%"),
    ],
)
def test_a_share_has_so_many_significant_digits(share: float, digits: int, words: str) -> None:
    assert percent_words(share, digits) == words
