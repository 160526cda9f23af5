"""What is seen while a tune works."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest

from hasten.records.cause import Cause
from hasten.records.plan import BASELINE, Plan
from hasten.records.reasons import Reason
from hasten.records.result import Tried
from hasten.records.spent import Spent
from hasten.records.trial import Ratio
from hasten.report.progress import Lines, Silent, progress_for

from ..bench.made_up import observation

GAIN = Tried("bf16", {}, Ratio(0.8, 0.78, 0.82, 9, "ABBA blocks"), BASELINE, True, Reason("gain"), "live")
CAUSE = Cause("input", 0.5, "50% of a step is waiting for data", ("dataset_in_ram",))


def a_tune(progress: Silent) -> None:
    """Everything that a tune says."""
    with progress:
        progress.stage("observing train.py")
        progress.observed(observation(), [CAUSE])
        progress.trying("bf16", BASELINE)
        progress.tried(GAIN)
        progress.trying("threads", Plan({"bf16": {}}))
        progress.tried(replace(GAIN, technique="threads", ratio=None, kept=False, reason=Reason("no gain")))
        beside_it = replace(GAIN, against=Plan({"bf16": {}}))
        progress.tried(replace(beside_it, technique="malloc", ratio=Ratio(0.5, 0.4, 0.6, 5, "pairs")))
        progress.tried(replace(GAIN, reason=Reason("gain", "earned"), ablation=True))


def test_a_remark_is_made_once_in_each_part_of_the_work() -> None:
    stream = io.StringIO()
    progress = Lines(150, stream)
    for technique in ("bf16", "malloc"):
        progress.trying(technique, BASELINE)
        progress.remark("waiting until other programs are quiet")
        progress.remark("waiting until other programs are quiet")
    told = [line.split("] ")[-1].strip() for line in stream.getvalue().splitlines()]
    assert told == [
        line
        for name in ("bf16", "malloc")
        for line in (f"trying {name}", "waiting until other programs are quiet")
    ]


def test_plain_lines() -> None:
    stream = io.StringIO()
    a_tune(Lines(150, stream))
    lines = [re.sub(r"^\[ *\d+ s left\] ", "[.. s left] ", line) for line in stream.getvalue().splitlines()]
    assert lines == [
        "[.. s left] observing train.py",
        "             50% of a step is waiting for data",
        "[.. s left] trying bf16",
        "             bf16: 1.25x (1.22 to 1.28): a gain (best so far about 1.25 times faster)",
        "[.. s left] trying threads in combination with bf16",
        "             threads: no gain found (best so far about 1.25 times faster)",
        "             malloc: 2.00x (1.67 to 2.50): a gain (best so far about 2.50 times faster)",
        # tried again with all that was kept, bf16 is not counted twice
        "             bf16: 1.25x (1.22 to 1.28): a gain in combination "
        "(best so far about 2.50 times faster)",
    ]


def test_what_an_earlier_tune_has_measured_is_told_as_such() -> None:
    stream = io.StringIO()
    Lines(150, stream).tried(replace(GAIN, earlier=True))
    assert "a gain (from an earlier tune) (best so far about " in stream.getvalue()


def test_a_shorter_start_makes_no_training_faster() -> None:
    stream = io.StringIO()
    lines = Lines(100, stream)
    for name, parts in (("bf16", ()), ("lazy_dynamo", ("start",))):
        ratio = Ratio(0.5, 0.4, 0.6, 3, "pairs")
        lines.tried(Tried(name, {}, ratio, BASELINE, True, Reason("gain", parts=parts), "pairs", parts=parts))
    assert stream.getvalue().count("(best so far about 2.00 times faster)") == 2


def test_a_budget_that_is_a_part_of_a_run_is_told_and_counted_down() -> None:
    stream = io.StringIO()
    lines = Lines(200, stream)
    lines.begin()
    lines.budget_of_run(30.0, 0.05, 600.0)
    lines.stage("next")
    told, after = stream.getvalue().splitlines()
    assert told.strip() == "a run takes about 600 s, as far as was seen: the budget is 30 s, 5% of that"
    assert after.startswith(("[ 30 s left]", "[ 29 s left]"))


@pytest.mark.parametrize(
    ("nothing_found", "why"),
    [(False, "an honest answer takes longer here"), (True, "nothing was found yet, so the search goes on")],
)
def test_a_budget_that_has_grown_is_told_and_counted_down(nothing_found: bool, why: str) -> None:
    stream = io.StringIO()
    lines = Lines(100, stream)
    lines.begin()
    lines.grown(390.0, nothing_found)
    lines.stage("next")
    told, after = stream.getvalue().splitlines()
    assert told.strip() == f"{why}: the budget is 390 s (--budget sets another)"
    assert after.startswith(("[390 s left]", "[389 s left]"))


def test_better_settings_take_the_place_of_those_before_them() -> None:
    stream = io.StringIO()
    lines = Lines(100, stream)
    first, second = Plan({"a": {}}), Plan({"a": {}, "workers": {}})
    for value, against in ((0.8, first), (0.5, first), (0.5, second)):
        ratio = Ratio(value, value, value, 4, "pairs")
        lines.tried(Tried("workers", {}, ratio, against, True, Reason("gain"), "pairs"))
    said = [line.rsplit("about ", 1)[1] for line in stream.getvalue().splitlines()]
    assert said == ["1.25 times faster)", "2.00 times faster)", "4.00 times faster)"]


def test_the_time_left_never_falls_below_nothing() -> None:
    stream = io.StringIO()
    Lines(-5, stream).stage("confirming")
    assert stream.getvalue() == "[  0 s left] confirming\n"


def test_lines_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Standard output is for the result."""
    a_tune(progress_for(150, quiet=False))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "trying threads in combination with bf16" in captured.err


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    a_tune(progress_for(150, quiet=True))
    assert capsys.readouterr() == ("", "")


def test_where_the_time_of_a_comparison_went_is_told_where_that_is_asked_for() -> None:
    spent = Spent(starting=4.0, timing=1.23, waiting=0.01)
    row = replace(GAIN, spent=spent)
    for debug, told in ((True, ["  took 5.24 s: 4 s starts, 1.23 s timed steps"]), (False, [])):
        stream = io.StringIO()
        Lines(100, stream, debug).tried(row)
        assert [line[13:] for line in stream.getvalue().splitlines()[1:]] == told
