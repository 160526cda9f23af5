"""What a plan means for a whole run, in words."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from hasten.records.codec import from_json
from hasten.records.run_forecast import Assumed, ForecastPart, RunForecast, Span
from hasten.report.console import open_console
from hasten.report.forecast import forecast_lines, span_words
from hasten.report.machine_readable import tune_json
from hasten.report.terminal import print_tune

from .made_up import GAIN, NO_GAIN

NOTHING = Span(0.0, 0.0, 0.0)
RUN = RunForecast(
    of="run",
    steps=625,
    before=Span(20.2, 19.5, 20.9),
    after=Span(7.4, 7.0, 7.9),
    saved=Span(12.8, 12.2, 13.3),
    parts=(
        ForecastPart("start", Span(3.0, 2.9, 3.1), Span(3.1, 3.0, 3.2)),
        ForecastPart("steps", Span(15.7, 15.0, 16.4), Span(3.2, 2.9, 3.5)),
        ForecastPart("epoch ends", Span(1.2, 1.1, 1.3), Span(0.6, 0.5, 0.7)),
        ForecastPart("tail", Span(0.3, 0.2, 0.4), Span(0.15, 0.1, 0.2)),
        ForecastPart("set-up", NOTHING, Span(0.35, 0.2, 0.35)),
    ),
    epochs=5,
    pays_runs=11,
    pays_epochs=57,
    pays_steps=7100,
)


def said(found: RunForecast) -> str:
    return "\n".join(forecast_lines(found, 139.0))


def test_a_run() -> None:
    assert said(RUN).splitlines() == [
        "A run with these arguments (625 steps, 5 epochs): 20.2 s before, about 7.4 s (7.0 to 7.9) under the "
        "plan.",
        "  (start 3.0 s -> 3.1 s; steps 15.7 s -> 3.2 s; evaluations and new epochs 1.2 s -> 600 ms; after "
        "the last step 300 ms -> 150 ms; set-up 350 ms)",
        "This tune (2.3 min) pays off after 11 runs, or in a single run from 57 epochs on.",
    ]


@pytest.mark.parametrize("after", [Span(7.6, 2.6, 770.0), Span(9.5, 1.0, 23.9)])
def test_processes_of_very_different_speeds_foresee_nothing(after: Span) -> None:
    """Both were printed once."""
    vague = replace(RUN, after=after, saved=Span(2.2, -17000.0, 120.0), pays_runs=None)
    (line,) = said(vague).splitlines()
    assert "about 20.2 s before; under the plan it cannot be told." in line
    assert f"{after.value}" not in line


def test_what_may_save_nothing_says_so() -> None:
    lines = said(replace(RUN, after=Span(7.6, 6.0, 15.0), saved=Span(2.2, -3.0, 12.0))).splitlines()
    assert lines[-1] == "  Runs vary by as much anyway: the plan may save nothing in a run of this length."
    assert "about 7.6 s (6.0 to 15.0) under the plan" in lines[0]


def test_what_the_first_run_alone_pays() -> None:
    lines = said(replace(RUN, lasting_seconds=4.0)).splitlines()
    assert "  Only the first run pays 4.0 s of the set-up: later ones read what it made." in lines
    assert "first run's" not in said(RUN)


def test_an_epoch_of_one_step() -> None:
    assert said(replace(RUN, of="epoch", steps=1)).startswith("An epoch (1 step): ")


def test_an_epoch_if_their_number_is_not_known() -> None:
    epoch = replace(RUN, of="epoch", steps=125, epochs=None, pays_runs=None)
    assert said(epoch).startswith(
        "An epoch (125 steps): 20.2 s before, about 7.4 s (7.0 to 7.9) under the plan."
    )
    assert said(epoch).endswith("This tune (2.3 min) pays off in a single run from 57 epochs on.")


def test_what_comes_once_is_told_besides_an_epoch() -> None:
    """A run of few epochs may spend most on it."""
    start, *_, set_up = RUN.parts
    epoch = replace(RUN, of="epoch", steps=125, epochs=None, once=(start, set_up))
    assert "\n  Once per run, in addition: start 3.0 s -> 3.1 s; set-up 350 ms.\n" in said(epoch)
    assert "besides" not in said(RUN)


def test_steps_where_nothing_is_known_of_the_length() -> None:
    steps = replace(RUN, of="steps", steps=1000, epochs=None, pays_runs=None, pays_epochs=None)
    assert said(steps).startswith(
        "1,000 steps: 20.2 s before, about 7.4 s (7.0 to 7.9) under the plan, which saves 12.8 s "
        "(12.2 to 13.3).\n"
    )
    assert said(steps).endswith("This tune (2.3 min) pays off in a single run from 7,100 steps on.")


def test_one_of_each() -> None:
    once = said(replace(RUN, epochs=1, pays_runs=1, pays_epochs=1))
    assert "(625 steps, 1 epoch)" in once
    assert once.endswith("pays off after 1 run, or in a single run from 1 epoch on.")
    assert "(625 steps): " in said(replace(RUN, epochs=None))


def test_a_run_that_may_save_nothing_is_told_so_and_pays_nothing() -> None:
    short = replace(RUN, saved=Span(0.2, -0.5, 0.9), pays_runs=None, pays_epochs=None, pays_steps=None)
    assert "the plan may save nothing in a run of this length" in said(short)
    assert "pays" not in said(short)


def test_a_start_that_takes_longer_is_told_where_it_is_worth_a_word() -> None:
    assert "take 2.1 s longer to start; that is included" in said(replace(RUN, slower_start=2.1))
    assert "longer to start" not in said(replace(RUN, slower_start=0.4))


@pytest.mark.parametrize("code", get_args(Assumed))
def test_each_assumption_has_words_of_its_own(code: Assumed) -> None:
    words = {said(replace(RUN, assumed=(one,))).splitlines()[-1] for one in get_args(Assumed)}
    assert len(words) == len(get_args(Assumed))
    assert said(replace(RUN, assumed=(code,))).splitlines()[-1].startswith("  This assumes that ")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "0.0 ms"),
        (0.83, "830 ms"),
        (20.21, "20.2 s"),
        (119.0, "119 s"),
        (2040.0, "34.0 min"),
        (18720.0, "5.2 h"),
    ],
)
def test_times_are_told_as_people_tell_them(seconds: float, words: str) -> None:
    assert span_words(seconds) == words


def test_both_ends_of_an_interval_are_told_in_one_unit() -> None:
    long = replace(RUN, after=Span(125.0, 110.0, 140.0))
    assert "about 2.1 min (1.8 to 2.3)" in said(long)


# ---- with the rest of a tune
def test_a_tune_tells_it_after_the_claim_and_before_the_plan() -> None:
    stream = io.StringIO()
    print_tune(replace(GAIN, forecast=RUN), open_console(stream, 200), "train.py", Path("plan.toml"))
    lines = stream.getvalue().splitlines()
    claim, run, plan = (
        next(number for number, line in enumerate(lines) if line.startswith(words))
        for words in ("The whole plan trains", "A run with these arguments", "Plan: ")
    )
    assert claim + 1 == run < plan


def test_other_programs_get_all_of_it_as_numbers() -> None:
    content = json.loads(json.dumps(tune_json(replace(GAIN, forecast=RUN))))
    assert from_json(RunForecast, content["forecast"]) == RUN
    assert tune_json(NO_GAIN)["forecast"] is None


def test_a_length_by_loops_is_an_assumption() -> None:
    *_, line = said(replace(RUN, assumed=("length by loops",))).splitlines()
    assert line == (
        "  This assumes that training goes on to the end of the loops around its steps, and no other follows."
    )


def test_so_is_one_by_epochs_that_were_seen() -> None:
    *_, line = said(replace(RUN, assumed=("length by epochs",))).splitlines()
    assert line == "  This assumes that every epoch has as many steps as those that ended."


def test_the_ends_of_epochs_are_named_once() -> None:
    assumed: tuple[Assumed, ...] = ("length by loader", "ends seen once", "ends as plain", "rehearsed")
    *_, line = said(replace(RUN, assumed=assumed)).splitlines()
    assert line == (
        "  This assumes that an epoch is one pass over its loader; that evaluation and everything else "
        "between epochs takes as long each time (it was seen once), as long under the plan as plain (no "
        "process under it was seen to do it twice); that its ranks were rehearsed, which the first run under "
        "the plan does."
    )
