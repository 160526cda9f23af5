"""Plans on disk: what is written can be read, by people and by us; what is broken is named."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hasten.errors import PlanError, UsageError
from hasten.plans import files
from hasten.plans.files import (
    SavedPlan,
    changed,
    read_plan,
    write_plan,
)
from hasten.records.plan import Plan
from hasten.report.words import settings_words

ROOT = Path(__file__).parents[2]
SAVED = SavedPlan(
    plan=Plan({"threads": {"count": 2}, "bf16": {}}),
    made_for={"script": "träin.py", "digest": "c0ffee", "arguments": ["--lr", "0.1"], "torch": "2.13.0"},
    measured={"speedup": 1.25, "low": 1.2, "high": 1.3, "date": "2026-01-31"},
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "plan.toml"


def test_round_trip(path: Path) -> None:
    write_plan(path, SAVED)
    assert read_plan(path) == SAVED


def test_the_order_of_adoption_is_kept(path: Path) -> None:
    write_plan(path, SAVED)
    assert list(read_plan(path).plan.techniques) == ["threads", "bf16"]


def test_the_empty_plan_is_a_plan(path: Path) -> None:
    write_plan(path, SavedPlan(Plan()))
    assert read_plan(path) == SavedPlan(Plan())


def test_a_person_can_read_it(path: Path) -> None:
    write_plan(path, SAVED)
    text = path.read_text("utf-8")
    assert text.startswith("# ")
    assert 'script = "träin.py"' in text
    assert "[techniques.threads]\ncount = 2\n" in text
    assert "[techniques.bf16]" in text
    assert "speedup = 1.25" in text


def test_a_deleted_table_is_a_deleted_technique(path: Path) -> None:
    """As the first lines of the file promise."""
    write_plan(path, SAVED)
    path.write_text(path.read_text("utf-8").replace("[techniques.threads]\ncount = 2\n", ""), "utf-8")
    assert read_plan(path).plan == Plan({"bf16": {}})


def test_what_a_person_writes_may_be_short(path: Path) -> None:
    path.write_text("format = 1\n[techniques.malloc]\n")
    assert read_plan(path) == SavedPlan(Plan({"malloc": {}}))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("format = 1\n[techniques", r"is not TOML: .*end of document"),
        ("format = 1\nformat = 2\n", r"is not TOML: .*overwrite.*line 2"),
        ("format = 1\n[technique.bf16]", r"unknown key 'technique'; expected .*techniques"),
        ("[techniques.bf16]", r"format is None; this hasten reads format 1"),
        ("format = 2", r"format is 2; this hasten reads format 1"),
        ('format = "1"', r"format is '1'; this hasten reads format 1"),
        ("format = 1\ntechniques = ['bf16']", r"techniques must be a table"),
        ("format = 1\nmade_for = 'train.py'", r"made_for must be a table"),
        ("format = 1\nmeasured = 1.3", r"measured must be a table"),
        ("format = 1\n[techniques.fp4]", r"techniques\.fp4 is not a technique; there are .*bf16.*threads"),
        ("format = 1\n[techniques]\nbf16 = true", r"techniques\.bf16 must be a table of its settings"),
        ("format = 1\n[techniques.bf16]\nlevel = 2", r"techniques\.bf16: .*no settings, found level"),
        ("format = 1\n[techniques.threads]", r"techniques\.threads: .*count, a whole number from 1"),
        ("format = 1\n[techniques.threads]\ncount = 0", r"techniques\.threads: .*count, a whole number"),
        ("format = 1\n[techniques.threads]\ncount = true", r"techniques\.threads: .*count, a whole number"),
        ("format = 1\n[techniques.threads]\ncount = '2'", r"techniques\.threads: .*count, a whole number"),
        ("format = 1\n[techniques.threads]\ncount = 1\nx = 1", r"techniques\.threads: .*count, a whole"),
    ],
)
def test_a_broken_plan_is_named(path: Path, content: str, message: str) -> None:
    path.write_text(content)
    with pytest.raises(PlanError, match=f"^{re.escape(str(path))}.*{message}"):
        read_plan(path)


def test_a_missing_plan(path: Path) -> None:
    with pytest.raises(PlanError, match=rf"no plan at {re.escape(str(path))}\. Make one with: hasten tune"):
        read_plan(path)


def test_a_folder_is_no_plan(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=f"^{re.escape(str(tmp_path))} is a folder, not a file"):
        read_plan(tmp_path)


def test_bytes_that_are_no_text(path: Path) -> None:
    path.write_bytes(b"format = 1 # \xff")
    with pytest.raises(PlanError, match="cannot be read"):
        read_plan(path)


def test_it_is_utf8_whatever_the_locale(path: Path) -> None:
    """As TOML must be: a plan written under one locale is read under another."""
    code = "import sys; from tests.plans.test_files import *; write_plan(Path(sys.argv[1]), SAVED)"
    ascii_only = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    subprocess.run([sys.executable, "-c", code, str(path)], env=ascii_only, cwd=ROOT, check=True)
    assert read_plan(path) == SAVED


def test_it_is_replaced_at_once(path: Path) -> None:
    """Who has the old plan open goes on reading the old plan: the file is another one, complete."""
    write_plan(path, SAVED)
    with path.open("rb") as old:
        before = path.read_bytes()
        write_plan(path, SavedPlan(Plan()))
        assert old.read() == before
    assert os.listdir(path.parent) == ["plan.toml"]


def test_a_failure_leaves_the_old_plan(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_plan(path, SAVED)

    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_plan(path, SavedPlan(Plan()))
    assert read_plan(path) == SAVED
    assert os.listdir(path.parent) == ["plan.toml"]


def test_the_format_is_written(path: Path) -> None:
    write_plan(path, SAVED)
    assert f"\nformat = {files.FORMAT}\n" in path.read_text("utf-8")


# ---- by hand
def test_a_technique_put_in_by_hand() -> None:
    found = changed(SAVED, ["malloc", "threads:count=4"], [])
    assert found.plan == Plan({"threads": {"count": 4}, "bf16": {}, "malloc": {}})
    assert (found.made_for, found.measured) == (SAVED.made_for, SAVED.measured)


def test_settings_are_read_as_a_report_shows_them_and_as_python_writes_them() -> None:
    settings = {"count": 2, "persistent_workers": True}
    shown = settings_words(settings).replace(", ", ",")
    for words in (shown, "count=2,persistent_workers=True"):
        assert changed(SAVED, [f"loader_workers:{words}"], []).plan.techniques["loader_workers"] == settings
    with pytest.raises(UsageError, match="persistent_workers, true or false"):
        changed(SAVED, ["loader_workers:count=2,persistent_workers=TRUE"], [])


def test_a_technique_taken_out_by_hand() -> None:
    assert changed(SAVED, [], ["bf16", "malloc"]).plan == Plan({"threads": {"count": 2}})


def test_taking_out_has_the_last_word() -> None:
    assert changed(SAVED, ["malloc"], ["malloc"]).plan == SAVED.plan


@pytest.mark.parametrize(
    ("use", "without", "message"),
    [
        (["fp4"], [], r"--use fp4: there is no technique 'fp4'; there are .*bf16.*threads"),
        ([], ["fp4"], r"--without fp4: there is no technique 'fp4'; there are .*bf16.*threads"),
        (["threads"], [], r"--use threads: threads needs count"),
        (["threads:count"], [], r"--use threads:count: settings are KEY=VALUE, found 'count'"),
        (["threads:count=many"], [], r"--use threads:count=many: threads needs count, a whole number"),
        (["threads:count=1.5"], [], r"--use threads:count=1.5: threads needs count, a whole number"),
        (["threads:count=true"], [], r"--use threads:count=true: threads needs count, a whole number"),
        (["bf16:level=2"], [], r"--use bf16:level=2: bf16 takes no settings, found level"),
    ],
)
def test_what_cannot_be_done_by_hand(use: list[str], without: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=f"^{message}"):
        changed(SAVED, use, without)
