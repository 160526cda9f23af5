"""Where a run's time goes, as it is shown."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hasten.records.whole_run import Part, WatchedRun
from hasten.report.console import open_console
from hasten.report.terminal import print_tune
from hasten.report.whole_run import print_run, run_json

from ..bench.made_up import loader, observation, step, watched_run
from .made_up import GAIN

PARTS = (
    Part("start", 4.0, 1),
    Part("steps", 12.0, 40),
    Part("first batches", 1.0, 2, where=("train.py:20",)),
    Part("evaluation", 6.0, 2, (3.0, 3.0), 500, ("train.py:31",)),
    Part("other", 0.0, 0),
)
EPOCHS = WatchedRun(23.0, False, PARTS, 2, 20, (replace(PARTS[0], seconds=0.0, count=0), *PARTS[1:]))


def lines(run: WatchedRun | None, **seen: Any) -> list[str]:
    stream = io.StringIO()
    print_run(observation(run=run, steps=(step(0.5),) * 30, **seen), open_console(stream, 200))
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_epochs_that_were_seen() -> None:
    assert lines(EPOCHS) == [
        "An epoch takes 9.5 s, the mean of 2:",
        "  steps          6 s     63%  #########################  20 steps",
        "  first batches  500 ms  5%   ##                         1 epoch begun; train.py:20",
        "  evaluation     3 s     32%  #############              1 loop; 250 samples; train.py:31",
        "  The run's start took 4 s, once.",
        "  The number of epochs is not known, so times are for those seen: --whole watches to the end.",
    ]


def test_a_run_that_was_watched_to_its_end() -> None:
    shown = lines(replace(EPOCHS, ended=True))
    assert shown[0] == "The whole run took 23 s:"
    assert shown[1].split() == ["start", "4", "s", "17%", "#######"]
    assert len(shown) == 1 + 4


def test_an_epoch_that_was_seen_to_be_shorter_than_its_loader_is_told_so() -> None:
    run = replace(watched_run(start=4.0, steps=20.0), epoch_steps=15, epoch_seen=True)
    assert "  The epochs that ended had up to 15 steps: about 7.5 s of steps." in lines(run)
    found = run_json(run)
    assert found is not None
    assert found["epoch_seen"] is True


def test_steps_alone_do_not_pretend() -> None:
    run = watched_run(start=4.0, steps=20.0)
    assert lines(run) == [
        "24 s of the run were watched, up to its step 2:",
        "  The run's start took 4 s, once.",
        "  The loader says that an epoch has 100 steps: about 50 s of steps.",
        "  No evaluation or saving, and no end of an epoch, was seen in the first 2 steps: "
        "--seconds N or --whole watches longer.",
    ]
    unknown = lines(replace(run, epoch_steps=None))
    assert unknown[2] == "  No loader reports how long an epoch is."


def test_what_was_seen_among_the_steps_is_told() -> None:
    assert lines(watched_run(steps=20.0, saving=1.0))[-1].startswith(
        "  No evaluation, and no end of an epoch, "
    )
    assert "(saving was)" in lines(watched_run(steps=20.0, saving=1.0))[-1]
    both = lines(watched_run(steps=20.0, saving=1.0, evaluation=1.0))[-1]
    assert both.startswith(
        "  Evaluation and saving were seen in the first 2 steps; how often they come is not "
    )


@pytest.mark.parametrize("epochs", [0, 1])
def test_how_far_the_loops_go_is_told_instead_of_what_is_unknown(epochs: int) -> None:
    run = watched_run(epochs=epochs, start=1.0, steps=9.0)
    said = (
        "  The loops around a step go on to step 2,000: a run takes about 9001 s if all of it is like what "
        "was seen. --whole watches to the end."
    )
    told = lines(replace(run, planned_steps=2000))
    assert said in told
    assert not [line for line in told if "number of epochs is not known" in line]
    assert not [line for line in lines(run) if "loops around" in line]
    assert run_json(replace(run, planned_steps=2000))["planned_steps"] == 2000  # type: ignore[index]


def test_epochs_without_evaluation_say_so() -> None:
    assert "  No evaluation was seen." in lines(watched_run(epochs=1, start=1.0, steps=9.0))


def test_workers_that_start_in_the_first_epoch_alone_are_told() -> None:
    run, loaders = watched_run(epochs=1, start=1.0, steps=9.0), (loader(workers=2, keeps_workers=True),)
    said = "  The loader's worker processes start in the first epoch only: later epochs begin sooner."
    assert said in lines(run, loaders=loaders)
    assert said not in lines(run)
    assert said not in lines(replace(run, epochs=2), loaders=loaders)


def test_a_script_that_failed_is_told() -> None:
    run = replace(watched_run(steps=20.0), failure="the script raised ValueError: too late")
    assert lines(run)[-1] == "Warning: after 2 steps the script raised ValueError: too late."


def test_nothing_is_said_of_a_run_that_was_not_watched() -> None:
    assert lines(None) == []
    assert run_json(None) is None


def test_the_json_has_all_parts_and_what_shares_are_of() -> None:
    content = run_json(EPOCHS)
    assert content is not None
    assert (content["seconds"], content["ended"], content["epochs"], content["epoch_steps"]) == (
        23.0,
        False,
        2,
        20,
    )
    assert [part["name"] for part in content["parts"]] == [part.name for part in PARTS]
    assert content["parts"][1]["share"] == 12.0 / 23.0
    breakdown = content["breakdown"]
    assert (breakdown["basis"], breakdown["seconds"]) == ("epochs", 19.0)
    evaluation = next(part for part in breakdown["parts"] if part["name"] == "evaluation")
    assert evaluation == {
        "name": "evaluation",
        "seconds": 6.0,
        "share": 6.0 / 19.0,
        "count": 2,
        "each": [3.0, 3.0],
        "samples": 500,
        "where": ["train.py:31"],
    }


def test_a_tune_tells_what_the_start_took() -> None:
    stream = io.StringIO()
    result = replace(GAIN, observation=observation(run=EPOCHS))
    print_tune(result, open_console(stream, 200), "train.py", Path("plan.toml"))
    assert "\n  (a run takes 4 s before its first step)\n" in stream.getvalue()
