"""Whole runs of both arms: what is run in which order, what is kept, and what the rows say."""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks import runs
from benchmarks.runs import CASES, Ran, keeping, measure, measure_empty, metric_in
from benchmarks.runs_summary import NOTHING, forecast_table, page_words, summary

CASE = CASES["fashion_cnn"]
FORECAST = {
    "of": "run",
    "before": {"value": 20.0, "low": 19.0, "high": 21.0},
    "after": {"value": 7.0, "low": 6.5, "high": 7.5},
}
TUNED = {
    "plan": {"bf16": {}},
    "forecast": FORECAST,
    "speedup": {"value": 3.0, "low": 2.9, "high": 3.1},
    "tune_seconds": 100.0,
    "reason": "the gain is confirmed in fresh processes",
}


class PaperRunner:
    """Plain runs take 20 s, those under hasten 7 s; a tune writes what it should find."""

    def __init__(self, tuned: dict[str, Any] | None = None) -> None:
        self.ran: list[list[str]] = []
        self.tuned = tuned or TUNED

    def __call__(self, words: Sequence[str], folder: Path) -> Ran:
        self.ran.append(list(words))
        if "tune" in words:
            (folder / "tune.json").write_text(json.dumps(self.tuned))
            plan = folder / ".hasten/examples.fashion_cnn/plan.toml"
            plan.parent.mkdir(parents=True)
            plan.touch()
        return Ran(7.0 if "run" in words else 20.0, "epoch 1: ...\naccuracy 0.5\naccuracy 0.86\n")

    @property
    def arms(self) -> list[str]:
        return ["plan" if "run" in words else "plain" for words in self.ran if "tune" not in words]


def asked(**options: Any) -> argparse.Namespace:
    usual: dict[str, Any] = {"epochs": None, "rounds": 2, "plan": None, "use": [], "budget": None}
    return argparse.Namespace(**{**usual, **options})


def test_a_case_is_tuned_and_then_run_in_turns() -> None:
    runner, rows = PaperRunner(), list[dict[str, Any]]()
    measure(CASE, asked(rounds=3), "", runner, rows.append)
    assert runner.arms == ["plain", "plan", "plan", "plain", "plain", "plan"]
    tune, plain, planned, *_ = runner.ran
    assert tune[3:] == [
        *("tune", "--quiet", "--fresh", "--json", "tune.json"),
        *(str(CASE.script), "--epochs", "5"),
    ]
    assert plain == [sys.executable, str(CASE.script), "--epochs", "5", "--seed", "0"]
    assert planned[3:5] == ["run", "--plan"]
    assert planned[6:] == plain[1:]
    assert [row["kind"] for row in rows] == ["tune", *["run"] * 6]
    assert [row["round"] for row in rows[1:]] == [0, 0, 1, 1, 2, 2]
    assert rows[1] == {
        "kind": "run", "case": "fashion_cnn", "epochs": 5, "unit": "epochs", "plan": {"bf16": {}},
        "forecast": FORECAST, "round": 0, "arm": "plain", "seconds": 20.0, "metric": 0.86,
    }  # fmt: skip


def test_both_runs_of_a_round_have_the_same_arguments() -> None:
    runner = PaperRunner()
    measure(CASE, asked(use=["bf16"], rounds=4, epochs=1), "", runner, lambda row: None)
    own = [words[words.index(str(CASE.script)) :] for words in runner.ran]
    assert own[0::2] == own[1::2]
    assert [words[-1] for words in own[0::2]] == ["0", "1", "2", "3"]


def test_a_plan_that_is_named_needs_no_tune() -> None:
    runner, rows = PaperRunner(), list[dict[str, Any]]()
    measure(CASE, asked(use=["bf16", "threads:count=1"], rounds=1), "", runner, rows.append)
    assert runner.ran[1][3:8] == ["run", "--use", "bf16", "--use", "threads:count=1"]
    assert rows[0]["plan"] == "--use bf16 --use threads:count=1"
    assert rows[0]["forecast"] is None
    measure(CASE, asked(plan=Path("/a/plan.toml"), rounds=1), "", runner, rows.append)
    assert runner.ran[-1][3:6] == ["run", "--plan", "/a/plan.toml"]


def test_a_case_that_reads_a_folder_is_told_which() -> None:
    runner = PaperRunner()
    measure(CASES["cifar_cnn"], asked(use=["bf16"], rounds=1), "/data", runner, lambda row: None)
    assert runner.ran[0][1:] == [
        *(str(CASES["cifar_cnn"].script), "--epochs", "1", "--data", "/data", "--seed", "0")
    ]


def test_where_a_tune_finds_nothing_nothing_is_run() -> None:
    runner, rows = PaperRunner({**TUNED, "plan": {}, "forecast": None}), list[dict[str, Any]]()
    with pytest.raises(SystemExit, match="no plan was found for fashion_cnn"):
        measure(CASE, asked(), "", runner, rows.append)
    assert runner.arms == []
    assert [row["kind"] for row in rows] == ["tune"]


def test_scripts_under_an_empty_plan_come_with_one_that_does_nothing(tmp_path: Path) -> None:
    runner, rows = PaperRunner(), list[dict[str, Any]]()
    measure_empty([tmp_path / "train.py"], 2, runner, rows.append)
    assert [row["case"] for row in rows] == [NOTHING] * 4 + ["train.py"] * 4
    assert runner.arms == ["plain", "plan", "plan", "plain"] * 2
    assert runner.ran[1][3:6] == ["run", "--plan", "empty.toml"]


def test_rows_are_appended_with_where_and_when(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    for number in range(2):
        keeping(path)({"kind": "run", "round": number})
    first, second = map(json.loads, path.read_text().splitlines())
    assert (first["round"], second["round"]) == (0, 1)
    assert first["machine"] == second["machine"]
    assert {"session", "ended", "load_average", "torch", "commit"} <= set(first)


def test_a_run_is_timed_whole_and_its_failure_is_no_run(tmp_path: Path) -> None:
    done = runs.run([sys.executable, "-c", "import time; time.sleep(0.2); print('accuracy 0.5')"], tmp_path)
    assert done.seconds >= 0.2
    assert metric_in(done.output, runs.ACCURACY) == 0.5
    with pytest.raises(subprocess.CalledProcessError):
        runs.run([sys.executable, "-c", "raise SystemExit(3)"], tmp_path)


def test_the_metric_is_the_last_that_was_printed() -> None:
    assert metric_in("accuracy 0.1\nx\naccuracy 0.9\nend\n", runs.ACCURACY) == 0.9


def test_a_run_that_prints_no_metric_ends_the_benchmark() -> None:
    with pytest.raises(SystemExit, match="printed no metric"):
        metric_in("test accuracy 0.1\n", runs.ACCURACY)


# ---- what the rows say
def rows(
    plain: Sequence[float],
    planned: Sequence[float],
    plan: Any = None,
    forecast: Any = None,
    session: str = "monday",
) -> list[dict[str, Any]]:
    about = {
        "kind": "run", "case": "fashion_cnn", "epochs": 5, "plan": plan or {"bf16": {}},
        "forecast": forecast, "session": session, "machine": "Pencil and Paper", "torch": "2.13.0",
    }  # fmt: skip
    return [
        {**about, "round": number, "arm": arm, "seconds": one, "metric": 0.86}
        for number, both in enumerate(zip(plain, planned, strict=True))
        for arm, one in zip(runs.ARMS, both, strict=True)
    ]


def cells(text: str, first: str) -> list[str]:
    (line,) = (line for line in text.splitlines() if line.startswith(f"| {first}"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_whole_run_has_its_ratio_over_rounds() -> None:
    found = summary(rows([20.0, 21.0, 19.0], [7.0, 7.35, 6.65]), CASES)
    line = cells(found, "fashion_cnn")
    assert line[1:5] == ["as tuned", "3", "20.0 s", "7.0 s"]
    assert line[5].startswith("2.86x (")
    assert line[7:] == ["0.8600", "+0.0000 (+0.0000 to +0.0000)"]
    assert found.endswith("Measured on Pencil and Paper, torch 2.13.0.")


@pytest.mark.parametrize(
    ("planned", "said"),
    [
        ([7.0, 7.01, 6.99], "2.8x, above 2.6: reached"),
        ([7.4, 7.41, 7.39], "2.8x, above 2.6: missed"),
        ([4.0, 9.0, 7.0], "2.8x, above 2.6: missed"),
        ([7.0], "2.8x, above 2.6"),
    ],
    ids=["well", "too slow", "not sure", "one round"],
)
def test_what_was_promised_is_held_against_what_came(planned: list[float], said: str) -> None:
    found = summary(rows([20.0] * len(planned), planned), CASES)
    assert cells(found, "fashion_cnn")[6] == said


def test_a_case_may_be_judged_by_a_plan_of_its_own() -> None:
    made = [
        {**row, "case": "padded_text"} for row in rows([20.0] * 3, [7.0, 7.1, 6.9], plan="--use pad_trim")
    ]
    assert cells(summary(made, CASES), "padded_text")[6] == "2x: reached"


def test_a_plan_that_somebody_named_promises_nothing() -> None:
    found = summary(rows([20.0] * 3, [7.0, 7.1, 6.9], plan="--use bf16"), CASES)
    assert cells(found, "fashion_cnn")[1] == "--use bf16"
    assert cells(found, "fashion_cnn")[6] == "-"


def test_rounds_of_several_sessions_count_together_and_half_ones_do_not() -> None:
    both = [*rows([20.0, 20.0], [7.0, 7.1]), *rows([20.0, 20.0], [7.0, 7.1], session="tuesday")[:-1]]
    assert cells(summary(both, CASES), "fashion_cnn")[2] == "3"


def test_runs_of_an_older_hasten_do_not_count() -> None:
    older = [{**row, "commit": "old"} for row in rows([20.0, 20.0], [9.0, 9.1])]
    newer = [{**row, "commit": "new"} for row in rows([20.0, 20.0], [7.0, 7.1], session="tuesday")]
    line = cells(summary([*older, *newer], CASES), "fashion_cnn")
    assert (line[2], line[4]) == ("2", "7.0 s")


def test_forecasts_are_held_against_the_runs_that_came() -> None:
    told = rows([20.0, 22.0], [7.0, 7.4], forecast=FORECAST)
    found = forecast_table(told)
    line = cells(found, "fashion_cnn")
    assert line[1:] == [
        *("20.0 s (19.0 to 21.0)", "21.0 s", "1 of 2", "7.0 s (6.5 to 7.5)", "7.2 s", "2 of 2")
    ]
    assert "holds 1 of 2 plain runs and 2 of 2 under the plan." in found
    assert found.endswith("fewer than nine of ten.")


@pytest.mark.parametrize("arm", [0, 1], ids=runs.ARMS)
def test_nine_of_ten_runs_of_either_arm_are_to_be_in_the_interval(arm: int) -> None:
    def of(outside: int) -> str:
        plain, planned = [20.0] * 10, [7.0] * 10
        (plain, planned)[arm][:outside] = [30.0] * outside
        return forecast_table(rows(plain, planned, forecast=FORECAST))

    assert of(1).endswith(": nine of ten.")
    assert of(2).endswith(": fewer than nine of ten.")


def test_the_last_tune_of_each_training_shows_what_forecasts_are_worth_now() -> None:
    older = rows([40.0], [7.0], forecast=FORECAST)
    newer = rows([20.0], [7.0], forecast=FORECAST, session="tuesday")
    other = [{**row, "case": "bn_cnn"} for row in rows([20.0], [7.0], forecast=FORECAST, session="wednesday")]
    found = forecast_table([*older, *newer, *other])
    assert len([line for line in found.splitlines() if line.startswith("| fashion_cnn")]) == 2
    assert "holds 2 of 3 plain runs and 3 of 3 under the plan." in found
    assert found.endswith(
        "Of the last tune of each of these 2 trainings on each machine it holds "
        "2 of 2 plain runs and 2 of 2 under the plan: nine of ten."
    )


def test_a_length_is_told_in_what_the_script_counts() -> None:
    runner, made = PaperRunner(), list[dict[str, Any]]()
    case = dataclasses.replace(CASES["char_gpt"], metric=runs.ACCURACY)
    measure(case, asked(use=["bf16"], rounds=2), "", runner, made.append)
    assert runner.ran[0][2:] == ["--steps", "400", "--seed", "0"]
    placed = [{**row, "session": "monday", "machine": "Pencil and Paper", "torch": "2.13.0"} for row in made]
    assert cells(summary(placed, CASES), "char_gpt")[0] == "char_gpt, 400 steps"


def test_a_training_without_a_seed_gets_none() -> None:
    assert CASES["large_saves"].arguments(40, 3, "") == ["--epochs", "40"]


@pytest.mark.parametrize("forecast", [None, {**FORECAST, "of": "epoch"}], ids=["none", "of an epoch"])
def test_without_a_forecast_of_the_run_there_is_no_table(forecast: Any) -> None:
    assert forecast_table(rows([20.0], [7.0], forecast=forecast)) == ""


def test_an_epoch_and_what_comes_once_foretell_a_run() -> None:
    start = {"name": "start", "before": {"value": 2.0, "low": 1.5, "high": 3.0}, "after": FORECAST["after"]}
    epoch = {**FORECAST, "of": "epoch", "once": [start]}
    line = cells(forecast_table(rows([103.0] * 2, [42.0, 60.0], forecast=epoch)), "fashion_cnn")
    assert line[1] == "102.0 s (96.5 to 108.0)"
    assert line[3:5] == ["2 of 2", "42.0 s (39.0 to 45.0)"]
    assert line[-1] == "1 of 2"


def test_the_start_of_hasten_is_taken_off_what_an_empty_plan_costs() -> None:
    def of(case: str, longer: float) -> list[dict[str, Any]]:
        plain, planned = [1.0, 1.1, 1.2], [1.0 + longer, 1.1 + longer, 1.2 + longer]
        return [{**row, "kind": "empty", "case": case} for row in rows(plain, planned)]

    found = summary([*of(NOTHING, 0.25), *of("train.py", 0.3)], CASES)
    assert cells(found, "train.py")[1:] == ["3", "1.10 s", "+0.30 (+0.30 to +0.30) s", "+0.05 s"]
    assert "Starting hasten takes +0.25 (+0.25 to +0.25) s: a script that does nothing." in found


def test_without_rows_it_says_so() -> None:
    assert summary([], CASES) == "No whole run has been measured yet."
    assert page_words([], CASES).startswith("None has been measured yet")
