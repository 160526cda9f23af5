"""The JSON that other programs read: its keys are a promise."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hasten.errors import UsageError
from hasten.records.cause import Cause
from hasten.records.caution import Caution
from hasten.records.conclusion import Looks
from hasten.records.result import TuneResult
from hasten.report.machine_readable import profile_json, refusal_json, tune_json, write_json

from ..bench.made_up import observation, step
from .made_up import GAIN, GUARD_FAILED, HELD, NO_GAIN, NOT_CHECKED

PROMISED = {  # keys that other programs rely on
    "outcome", "reason", "speedup", "ratio", "parts", "steps_ratio", "share_of_epochs", "measured",
    "baseline", "plan", "tried", "refused", "causes", "threads", "guard", "setup_seconds", "breakeven_steps",
    "protection", "warnings",
    "tune_seconds", "nproc_per_node", "machine", "versions", "sources", "cpu_flags", "looks", "script_steps",
    "lasting_setup_seconds", "forecast", "run",
}  # fmt: skip


def as_read(content: dict[str, Any]) -> Any:
    """What a reader of the file gets."""
    return json.loads(json.dumps(content, allow_nan=False))


# ---- tune
@pytest.mark.parametrize("result", [GAIN, NO_GAIN, GUARD_FAILED], ids=lambda r: r.reason.code)
def test_the_keys_are_the_same_whatever_came_out(result: TuneResult) -> None:
    assert set(tune_json(result)) == set(refusal_json("too slow")) == PROMISED


def test_a_gain() -> None:
    content = as_read(tune_json(GAIN))
    assert content["outcome"] == "gain"
    assert content["speedup"] == pytest.approx(
        {"value": 1 / 0.8, "low": 1 / 0.85, "high": 1 / 0.75, "processes": 6}
    )
    assert content["ratio"] == {"value": 0.8, "low": 0.75, "high": 0.85, "processes": 6}
    assert content["plan"] == {"threads": {"count": 2}, "bf16": {}}
    assert content["baseline"] == {
        "step_seconds": 0.0142,
        "samples_per_second": 4507.0,
        "cycle": None,
        "step": None,
    }
    assert content["tune_seconds"] == 100.0
    assert content["machine"] == GAIN.machine
    assert content["versions"] == {"hasten": "0.1.0", "torch": "2.13.0", "python": "3.11.7"}


def test_the_processor_as_the_plan_names_it() -> None:
    assert as_read(tune_json(replace(GAIN, cpu_flags=("avx2", "fma"))))["cpu_flags"] == ["avx2", "fma"]
    assert as_read(refusal_json("too slow"))["cpu_flags"] == []


def test_processes_that_were_started_besides_the_pairs() -> None:
    assert as_read(tune_json(replace(GAIN, looks=Looks(20, 1))))["looks"] == {"count": 20, "slow": 1}
    assert as_read(tune_json(GAIN))["looks"] is None


def test_how_many_steps_the_whole_script_takes() -> None:
    assert as_read(tune_json(replace(GAIN, script_steps=400)))["script_steps"] == 400
    assert as_read(tune_json(GAIN))["script_steps"] is None


def test_the_guard() -> None:
    content = as_read(tune_json(GAIN))
    assert content["guard"] == {
        "accuracy": "held",
        "steps": 120,
        "after": 0,
        "invariants": {"compared": list(HELD.invariants.compared), "differing": []},
        "loss_curve": {
            "held": True, "deviation": 0.003, "bias": 0.0, "tolerance": 0.012, "precision": "bfloat16",
        },
        "numerics": {},
        "reasons": [],
        "changes": [],
        "why_not": "",
        "refused": "",
        "cut_short": False,
    }  # fmt: skip
    assert as_read(tune_json(GUARD_FAILED))["guard"]["accuracy"] == "not held"


@pytest.mark.attack("truth")
def test_a_guard_that_could_not_check_says_why() -> None:
    content = as_read(tune_json(NOT_CHECKED))
    assert (content["outcome"], content["speedup"], content["plan"]) == ("not-checked", None, {})
    assert (content["guard"]["accuracy"], content["guard"]["why_not"]) == ("not checked", "killed")


def test_the_curve_of_time_against_threads() -> None:
    assert as_read(tune_json(GAIN))["threads"] == {
        "usual": 4,
        "usual_seconds": 0.01,
        "against": {"bf16": {}},
        "pays_up_to": 2,
        "points": [
            {"threads": 1, "ratio": None, "hyperthreads": False, "missing": "the budget ended before"},
            {
                "threads": 2,
                "ratio": {"value": 0.8, "low": 0.75, "high": 0.85},
                "hyperthreads": False,
                "missing": "",
            },
            {
                "threads": 4,
                "ratio": {"value": 1.0, "low": 1.0, "high": 1.0},
                "hyperthreads": False,
                "missing": "",
            },
        ],
    }
    assert refusal_json("too slow")["threads"] is None


def test_what_was_tried() -> None:
    tried = as_read(tune_json(GAIN))["tried"]
    assert tried[1] == {
        "technique": "threads",
        "settings": {"count": 2},
        "ratio": {"value": 0.8, "low": 0.75, "high": 0.85},
        "against": {"bf16": {}},
        "kept": True,
        "reason": "a gain",
        "method": "pairs",
        "setup_seconds": 0.0,
    }
    assert tried[2]["ratio"] is None


def test_a_row_of_an_earlier_tune_says_so() -> None:
    rows = (replace(GAIN.tried[0], earlier=True), *GAIN.tried[1:])
    first, second, _ = as_read(tune_json(replace(GAIN, tried=rows)))["tried"]
    assert first["earlier"] is True
    assert "earlier" not in second


def test_what_was_tried_together_is_named_with_its_settings() -> None:
    row = replace(GAIN.tried[1], technique="environment", settings={}, together=GAIN.plan)
    (tried,) = as_read(tune_json(replace(GAIN, tried=(row,))))["tried"]
    assert tried["technique"] == "environment"
    assert tried["together"] == {"threads": {"count": 2}, "bf16": {}}


def test_what_was_refused() -> None:
    refused = as_read(tune_json(GAIN))["refused"]
    assert refused == [{"technique": "malloc", "reasons": ["needs glibc, found musl", "and more"]}]


@pytest.mark.parametrize("result", [NO_GAIN, GUARD_FAILED], ids=lambda r: r.reason.code)
def test_without_a_gain_nothing_is_claimed(result: TuneResult) -> None:
    content = as_read(tune_json(result))
    assert content["outcome"] == "no-gain"
    assert content["speedup"] is content["ratio"] is None
    assert content["plan"] == {}


def test_what_was_measured_is_told_apart_from_what_is_claimed() -> None:
    assert as_read(tune_json(NO_GAIN))["measured"] == {"value": 0.99, "low": 0.97, "high": 1.01}


def test_a_refusal() -> None:
    content = as_read(refusal_json("it never trains"))
    assert (content["outcome"], content["reason"]) == ("refused", "it never trains")
    assert content["speedup"] is content["ratio"] is content["measured"] is content["guard"] is None
    assert content["baseline"] == dict.fromkeys(("step_seconds", "samples_per_second", "cycle", "step"))
    assert content["plan"] == {}
    assert content["tried"] == content["refused"] == []


# ---- profile
def test_a_profile() -> None:
    steps = tuple(step(seconds / 1000, losses=(float(seconds),)) for seconds in range(1, 12))
    content = as_read(profile_json(observation(steps=steps), []))
    assert set(content) >= {
        "steps", "warmup_steps", "cycle", "step_seconds", "samples_per_second", "phases", "losses", "roots",
        "loaders", "optimizers", "batch_size", "threads", "uses", "torch",
    }  # fmt: skip
    assert content["steps"] == 11
    assert content["step_seconds"] == pytest.approx({"median": 0.006, "p10": 0.002, "p90": 0.010})
    assert content["samples_per_second"] == pytest.approx(8 / 0.006)
    assert content["losses"] == [float(seconds) for seconds in range(1, 12)]
    assert content["batch_size"] == 8


def test_the_phases_of_a_profile() -> None:
    steps = (step(0.01, shares={"data": 0.5, "forward": 0.2}),) * 3
    assert profile_json(observation(steps=steps), [])["phases"] == pytest.approx(
        {"data": 0.005, "forward": 0.002, "loss": 0, "backward": 0, "optimizer": 0, "other": 0.003}
    )


def test_the_causes_of_a_profile() -> None:
    causes = [Cause("input", 0.6, "60% of a step is waiting for data", ("dataset_in_ram",), 0.8)]
    assert as_read(profile_json(observation(), causes))["causes"] == [
        {
            "name": "input",
            "share": 0.6,
            "evidence": "60% of a step is waiting for data",
            "techniques": ["dataset_in_ram"],
            "bound": 0.8,
            "advice": "",
        }
    ]
    assert as_read(profile_json(observation(), []))["causes"] == []


def test_the_parts_of_a_profile() -> None:
    content = as_read(profile_json(observation(), []))
    assert [root["name"] for root in content["roots"]] == ["__main__.Net"]
    assert [(loader["dataset"], loader["training"]) for loader in content["loaders"]] == [("Pictures", True)]
    assert [(o["name"], o["fused"]) for o in content["optimizers"]] == [("Adam", False)]


def test_a_profile_of_a_script_without_known_batches() -> None:
    content = profile_json(observation(batch_size=None, steps=(step(samples=None),) * 30), [])
    assert content["batch_size"] is content["samples_per_second"] is None


# ---- writing
def test_a_file(tmp_path: Path) -> None:
    write_json({"outcome": "gain"}, str(tmp_path / "result.json"))
    assert json.loads((tmp_path / "result.json").read_text()) == {"outcome": "gain"}


def test_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    write_json({"outcome": "gain"}, "-")
    assert json.loads(capsys.readouterr().out) == {"outcome": "gain"}


def test_a_training_that_ran_into_nan_can_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON has no word for it."""
    steps = (step(losses=(1.5, math.nan)), step(losses=(math.inf, -math.inf)))
    write_json(profile_json(observation(steps=steps), []), "-")
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["losses"] == [
        1.5,
        None,
        None,
        None,
    ]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    target = str(tmp_path / "nowhere" / "result.json")
    with pytest.raises(UsageError, match=f"--json {re.escape(target)} cannot be written: No such file"):
        write_json({}, target)


def test_warnings_are_a_list_of_sentences() -> None:
    content = tune_json(replace(GAIN, warnings=(Caution("not written down", text="no space"),)))
    assert content["warnings"] == ["some results could not be saved: no space"]
