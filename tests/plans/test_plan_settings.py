"""Settings of a wrong type or size, wherever they come from: the key is named, and what was expected."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import hasten
from hasten.errors import PlanError, UsageError
from hasten.plans.files import SavedPlan, changed, read_plan
from hasten.records.plan import BASELINE

pytestmark = pytest.mark.attack("arguments")

NO_SETTINGS = ["[1]", "{a = 1}", "1979-05-27", "1979-05-27T07:32:00Z", "inf", "-inf", "nan"]
"""As TOML writes them."""
NO_COUNTS = [*NO_SETTINGS, "true", "-1", "1.5", "1e30", "'two'", "''", "10000000000000000000000"]
NO_WORDS = [*NO_SETTINGS, "true", "0", "1.5", "'of another kind'", "''"]
NO_FLAGS = [*NO_SETTINGS, "1", "0", "'true'", "1.0"]
KEYS: dict[tuple[str, str], list[str]] = {
    ("threads", "count"): ["0", *NO_COUNTS],
    ("interop_threads", "count"): ["0", *NO_COUNTS],
    ("batch_size", "factor"): ["0", "1", *NO_COUNTS],
    ("batch_size", "rate"): NO_WORDS,
    ("batch_size", "by"): NO_WORDS,
    ("prune", "ratio"): ["0", "1", "0.0", "1.0", "-0.5", "1e30", "true", "'half'", *NO_SETTINGS],
    ("prune", "after"): ["0", *NO_COUNTS],
    ("prune", "criterion"): NO_WORDS,
    ("prune", "scope"): NO_WORDS,
    ("loader_workers", "count"): NO_COUNTS,
    ("loader_workers", "prefetch_factor"): ["0", *NO_COUNTS],
    ("loader_workers", "persistent_workers"): NO_FLAGS,
    ("loader_workers", "context"): NO_WORDS,
    ("processes", "count"): ["0", *NO_COUNTS],
    ("processes", "backend"): NO_WORDS,
    ("processes", "sync_batch_norm"): NO_FLAGS,
    ("compile", "mode"): NO_WORDS,
    ("compile", "backend"): [*NO_SETTINGS, "true", "0", "'not a name'", "''"],
    ("matmul_precision", "precision"): NO_WORDS,
    ("matmul_precision", "convolutions"): NO_FLAGS,
    ("fused_optimizer", "form"): NO_WORDS,
    ("drop_bias", "which"): NO_WORDS,
    ("huge_pages", "by"): NO_WORDS,
    ("malloc", "kind"): NO_WORDS,
    ("affinity", "bind"): NO_WORDS,
    ("openmp_runtime", "kind"): NO_WORDS,
    ("bf16", "level"): ["1", *NO_SETTINGS],
}
BESIDE = {
    "batch_size": {"factor": "2"},
    "prune": {"ratio": "0.3"},
    "loader_workers": {"count": "2"},
    "processes": {"count": "2"},
    "openmp_runtime": {"kind": "'libgomp'", "wait": "'active'"},
}
"""What else such a technique needs."""


@pytest.mark.parametrize(
    ("name", "key", "value"), [(name, key, value) for (name, key), values in KEYS.items() for value in values]
)
def test_a_plan_with_it_is_refused(tmp_path: Path, name: str, key: str, value: str) -> None:
    path = tmp_path / "plan.toml"
    settings = {**BESIDE.get(name, {}), key: value}
    lines = "".join(f"{one} = {other}\n" for one, other in settings.items())
    path.write_text(f"format = 1\n[techniques.{name}]\n{lines}")
    with pytest.raises(PlanError) as refusal:
        read_plan(path)
    said = str(refusal.value)
    assert said.startswith(f"{path}: techniques.{name}: ")
    assert key in said.removeprefix(f"{path}: techniques.{name}: ")
    assert len(said.splitlines()) == 1


BY_HAND = {
    ("threads", "count"): ["inf", "nan", "true", "-1", "1.5", "two", "", "1979-05-27", "[1]", "{a=1}", "0"],
    ("prune", "ratio"): ["inf", "nan", "true", "-1", "1", "0", "half", ""],
    ("huge_pages", "by"): ["inf", "true", "0", "glibc2", ""],
    ("malloc", "kind"): ["nan", "true", "1", "[1]", ""],
    ("matmul_precision", "convolutions"): ["1", "yes", "TRUE", ""],
}


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [(name, key, value) for (name, key), values in BY_HAND.items() for value in values],
)
def test_it_is_refused_by_hand(name: str, key: str, value: str) -> None:
    words = f"{name}:{key}={value}"
    with pytest.raises(UsageError) as refusal:
        changed(SavedPlan(BASELINE), [words], [])
    assert str(refusal.value).startswith(f"--use {words}: ")
    assert key in str(refusal.value).removeprefix(f"--use {words}: ")


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"threads": {"count": None}}, "count must be text, a number, true or false, found nothing"),
        ({"threads": {"count": [1]}}, "count must be text, a number, true or false, found a list"),
        ({"threads": {"count": {1}}}, "count must be text, a number, true or false, found a set"),
        ({"threads": {"count": 1j}}, "count must be text, a number, true or false, found a complex"),
        ({"threads": {1: 2}}, "settings have names, found 1"),
        ({"threads": 2}, "techniques.threads must be a table of its settings"),
        ({"threads": None}, "techniques.threads must be a table of its settings"),
        ({1: {}}, "techniques.1 is not a technique"),
        ({"": {}}, "is not a technique"),
        (["threads"], "the plan must be a file, or techniques with their settings, found a list"),
        (None, "the plan must be a file, or techniques with their settings, found a NoneType"),
        (5, "the plan must be a file, or techniques with their settings, found a int"),
        (b"plan.toml", "the plan must be a file, or techniques with their settings, found a bytes"),
    ],
)
def test_a_running_program_is_not_put_under_it(plan: Any, message: str) -> None:
    with pytest.raises(PlanError) as refusal, hasten.applied(plan):
        raise AssertionError("it was applied")
    assert message in str(refusal.value)


FILES: Mapping[str, str] = {
    "format = true\n": "format is True",
    "format = 1.0\n": "format is 1.0",
    "format = '1'\n": "format is '1'",
    "format = 2\n": "format is 2",
    "format = [1]\n": "format is [1]",
    "": "format is None",
    "format = 1\ntechniques = 5\n": "techniques must be a table",
    "format = 1\ntechniques = ['bf16']\n": "techniques must be a table",
    "format = 1\n[[techniques]]\n": "techniques must be a table",
    "format = 1\nmade_for = 1979-05-27\n": "made_for must be a table",
    "format = 1\nmeasured = inf\n": "measured must be a table",
    "format = 1\nmore = 1\n": "unknown key 'more'",
    "format = 1\n[techniques]\nbf16 = true\n": "techniques.bf16 must be a table",
    "format = 1\n[techniques]\nbf16 = []\n": "techniques.bf16 must be a table",
    "format = 1\n[[techniques.bf16]]\n": "techniques.bf16 must be a table",
    "format = 1\n[techniques.fp4]\n": "techniques.fp4 is not a technique",
    "format = 1\n[techniques.'']\n": "techniques. is not a technique",
    "format = 1\nformat = 1\n": "is not TOML",
    "format = 1\n[techniques.bf16]\n[techniques.bf16]\n": "is not TOML",
    f"format = {'9' * 5000}\n": "",
    f"format = 1\n[techniques.threads]\ncount = {'9' * 5000}\n": "",
    f"format = {'[' * 20000}\n": "nested too deeply",
    f"format = 1\n{'a.' * 5000}a = 1\n": "",
    "format = 1\n\0": "is not TOML",
    "hasten": "is not TOML",
}


@pytest.mark.parametrize("text", FILES, ids=lambda text: repr(text)[:40])
def test_a_file_that_is_no_plan(tmp_path: Path, text: str) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    with pytest.raises(PlanError) as refusal:
        read_plan(path)
    assert str(refusal.value).startswith(str(path))
    assert FILES[text] in str(refusal.value)
