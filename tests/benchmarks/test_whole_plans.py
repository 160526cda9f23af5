"""Plans compared by whole runs: which command runs, in which order, and what a failed run says."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import CalledProcessError

import pytest
from benchmarks.runs import Ran
from benchmarks.whole_plans import WholeRuns

from hasten.bench.comparing.pairs import MeasureFailed
from hasten.plans.files import read_plan
from hasten.records.plan import BASELINE, Plan

BF16 = Plan({"bf16": {}})
WORDS = ("train.py", "--epochs", "3")


class PaperRunner:
    """A run takes 8 s, under bf16 6 s; the third ``fails`` where that is asked for."""

    def __init__(self, fails: bool = False) -> None:
        self.plans: list[Plan] = []
        self.fails = fails

    def __call__(self, command: Sequence[str], folder: Path) -> Ran:
        assert command[0] == sys.executable
        assert tuple(command[-len(WORDS) :]) == WORDS
        is_plain = tuple(command[1:]) == WORDS
        self.plans.append(BASELINE if is_plain else read_plan(folder / "plan.toml").plan)
        if self.fails and len(self.plans) == 3:
            raise CalledProcessError(1, command)
        return Ran(8.0 if is_plain else 6.0, "")


def test_the_baseline_is_plain_python(tmp_path: Path) -> None:
    runner = PaperRunner()
    assert WholeRuns(WORDS, tmp_path, runner).singles([BF16, BASELINE]) == [6.0, 8.0]
    assert runner.plans == [BF16, BASELINE]


def test_pairs_are_run_in_turns(tmp_path: Path) -> None:
    runner = PaperRunner()
    trial = WholeRuns(WORDS, tmp_path, runner).compare(BASELINE, BF16, 2)
    assert runner.plans == [BASELINE, BF16, BF16, BASELINE]
    assert trial.log_ratios == (math.log(6 / 8),) * 2
    assert trial.ratio is not None
    assert trial.ratio.value == pytest.approx(0.75)


def test_a_run_that_fails_is_told(tmp_path: Path) -> None:
    trial = WholeRuns(WORDS, tmp_path, PaperRunner(fails=True)).compare(BASELINE, BF16, 2)
    assert trial.ratio is None
    assert trial.failure is not None
    assert "exit status 1" in trial.failure
    assert BF16.key in trial.failure
    runs = WholeRuns(WORDS, tmp_path, PaperRunner(fails=True))
    with pytest.raises(MeasureFailed, match="exit status 1"):
        runs.singles([BF16, BASELINE, BF16])
