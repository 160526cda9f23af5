"""At any moment of a tune the best plan so far is on disk, and what was refuted is not."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from hasten.plans.unconfirmed import kept
from hasten.records.plan import BASELINE, Plan
from hasten.records.reasons import Reason
from hasten.records.result import Tried
from hasten.scripts.workspace import Workspace, find_script
from hasten.tuning.accuracy import Held
from hasten.tuning.keeping import Keeping
from tests.bench.made_up import unchecked, verdict

BF16, THREADS = Plan({"bf16": {}}), Plan({"threads": {"count": 2}})
BOTH = Plan({**BF16.techniques, **THREADS.techniques})


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print('training')")
    return Workspace(find_script("train.py", []))


@pytest.fixture
def keeping(workspace: Workspace) -> Keeping:
    return Keeping(workspace, lambda: {"script": "train.py"})


def row(plan: Plan, kept: bool = True, ablation: bool = False) -> Tried:
    ((name, how),) = plan.techniques.items()
    return Tried(name, how, None, BASELINE, kept, Reason(), "scripted", ablation=ablation)


def stopped(plan: Plan) -> Tried:
    return row(plan, kept=False)


def on_disk(workspace: Workspace) -> Plan:
    saved = kept(workspace)
    return saved.plan if saved is not None else BASELINE


def test_what_is_adopted_is_there_at_once(workspace: Workspace, keeping: Keeping) -> None:
    keeping.adopted(row(BF16), BASELINE)
    assert on_disk(workspace) == BF16
    keeping.adopted(row(THREADS), BF16)
    assert on_disk(workspace) == BOTH


def test_what_steadies_the_steps_alone_is_no_plan(workspace: Workspace, keeping: Keeping) -> None:
    keeping.found(Plan({"malloc": {}}))
    assert on_disk(workspace) == BASELINE
    keeping.adopted(row(BF16), Plan({"malloc": {}}))
    assert on_disk(workspace) == Plan({"malloc": {}, "bf16": {}})


@pytest.mark.parametrize("kept", [True, False])
def test_a_comparison_that_adopts_nothing_changes_nothing(
    workspace: Workspace, keeping: Keeping, kept: bool
) -> None:
    keeping.adopted(row(BF16, kept=kept, ablation=kept), BASELINE)
    assert on_disk(workspace) == BASELINE


def test_while_other_settings_are_tried_the_first_are_kept(workspace: Workspace, keeping: Keeping) -> None:
    """The search takes a technique up once all of its settings were compared."""
    keeping.found(BASELINE)
    keeping.adopted(row(THREADS), BASELINE)
    keeping.found(BASELINE)
    assert on_disk(workspace) == THREADS
    keeping.adopted(row(Plan({"threads": {"count": 1}})), BASELINE)
    assert on_disk(workspace) == Plan({"threads": {"count": 1}})


def test_what_was_tried_together_is_kept_together(workspace: Workspace, keeping: Keeping) -> None:
    together = Tried("environment", {}, None, BASELINE, True, Reason(), "scripted", together=BOTH)
    keeping.adopted(together, Plan({"malloc": {}}))
    assert on_disk(workspace) == Plan({"malloc": {}, **BOTH.techniques})


def test_what_comes_along_with_a_technique_is_kept_with_it(workspace: Workspace, keeping: Keeping) -> None:
    along = Tried("bf16", {}, None, BASELINE, True, Reason(along=THREADS), "scripted")
    keeping.adopted(along, BASELINE)
    assert on_disk(workspace) == BOTH


def test_what_does_not_earn_its_place_goes(workspace: Workspace, keeping: Keeping) -> None:
    keeping.adopted(row(BF16), BASELINE)
    keeping.found(BF16)
    keeping.found(BASELINE)
    assert on_disk(workspace) == BASELINE


def test_what_the_guard_stops_goes(workspace: Workspace, keeping: Keeping) -> None:
    keeping.adopted(row(BF16), THREADS)
    keeping.found(BOTH)
    keeping.checked(Held(THREADS, verdict(), (stopped(BF16),)))
    saved = kept(workspace)
    assert saved is not None
    assert (saved.plan, saved.measured["accuracy"]) == (THREADS, "held")


def test_nothing_is_left_where_the_guard_stops_all(workspace: Workspace, keeping: Keeping) -> None:
    keeping.adopted(row(BF16), BASELINE)
    keeping.found(BF16)
    keeping.checked(Held(BASELINE, verdict(passed=False), (stopped(BF16),)))
    assert on_disk(workspace) == BASELINE


def test_what_could_not_be_checked_stays_but_for_what_was_stopped(
    workspace: Workspace, keeping: Keeping
) -> None:
    keeping.adopted(row(BF16), THREADS)
    keeping.found(BOTH)
    keeping.checked(Held(BASELINE, unchecked("killed"), (stopped(THREADS),)))
    saved = kept(workspace)
    assert saved is not None
    assert (saved.plan, saved.measured["accuracy"]) == (BF16, "not checked")


def test_what_an_earlier_tune_left_stays_until_something_is_adopted(workspace: Workspace) -> None:
    Keeping(workspace, lambda: {}).adopted(row(BF16), BASELINE)
    later = Keeping(workspace, lambda: {})
    later.found(Plan({"malloc": {}}))
    later.found(BASELINE)
    later.checked(Held(BASELINE))
    assert on_disk(workspace) == BF16
    later.adopted(row(THREADS), BASELINE)
    assert on_disk(workspace) == THREADS


@pytest.mark.attack("together")
def test_a_full_disk_ends_no_tune(
    workspace: Workspace, keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeping.adopted(row(BF16), BASELINE)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as broken:
        broken.setattr("hasten.plans.files.safe_files.write", full)
        keeping.adopted(row(THREADS), BF16)
    assert keeping.lost == "the disk is full"
    assert on_disk(workspace) == BF16
    keeping.found(BOTH)  # and is tried again
    assert on_disk(workspace) == BOTH


@pytest.mark.attack("intruders")
def test_a_link_in_its_place_ends_no_tune(workspace: Workspace, keeping: Keeping) -> None:
    workspace.make()
    workspace.unconfirmed_path.symlink_to("elsewhere")
    keeping.adopted(row(BF16), BASELINE)
    assert "is a link" in keeping.lost
