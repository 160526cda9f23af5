"""What a run may know of its training from earlier tunes: only of the same training."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path

import pytest

from hasten import __version__
from hasten.machine import this_machine
from hasten.machine.torch_build import torch_version
from hasten.records.plan import BASELINE, Plan
from hasten.records.result import TuneResult
from hasten.records.run_forecast import Assumed
from hasten.records.sources import SourceDigests
from hasten.scripts.workspace import Script, Workspace, find_script
from hasten.tuning.journal import Journal
from hasten.tuning.known_here import Known, known_here, run_seconds
from tests.bench.made_up import observation, verdict
from tests.report.made_up import GAIN
from tests.report.test_forecast import RUN

PLAN = Plan({"bf16": {}, "malloc": {"kind": "tcmalloc"}, "prune": {"amount": 0.5}})


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print('training')")
    return find_script("train.py", ["--epochs", "5"])


def here(script: Script) -> TuneResult:
    """A tune that is the same in all."""
    return replace(
        GAIN,
        plan=PLAN,
        guard=verdict(),
        nproc=None,
        script_steps=4000,
        machine=this_machine().identity,
        sources=SourceDigests(script.digest()),
        versions={
            "hasten": __version__,
            "torch": torch_version(),
            "python": platform.python_version(),
        },
    )


def write(script: Script, result: TuneResult) -> None:
    workspace = Workspace(script)
    workspace.make()
    journal = Journal(workspace.journal_path, {"script": workspace.folder.name, "argv": list(script.argv)})
    journal.conclude(result)
    journal.close("finished")


def test_what_the_guard_has_passed_here_may_be_tried(script: Script) -> None:
    """Of live scope, and nothing that changes the training itself, whatever a journal says."""
    write(script, here(script))
    assert known_here(script, this_machine()) == Known(Plan({"bf16": {}}), 4000)


def test_a_length_in_evaluations_is_none_of_a_runs_steps(script: Script) -> None:
    write(script, replace(here(script), observation=observation(steps_are_evaluations=True)))
    assert known_here(script, this_machine()) == Known(Plan({"bf16": {}}), None)


def test_without_a_journal_nothing_is_known(script: Script) -> None:
    assert known_here(script, this_machine()) == Known()
    assert run_seconds(script) is None


@pytest.mark.parametrize(
    "change",
    [
        {"machine": "another machine"},
        {"versions": {"hasten": "0.0.1", "torch": "1.0", "python": "2.7"}},
        {"sources": SourceDigests("of another version")},
        {"sources": None},
    ],
)
def test_of_another_training_nothing_is_known(script: Script, change: dict[str, object]) -> None:
    write(script, replace(here(script), **change))  # type: ignore[arg-type]
    assert known_here(script, this_machine()) == Known()


def test_with_other_arguments_it_is_another_training(script: Script) -> None:
    write(script, here(script))
    assert known_here(find_script("train.py", ["--epochs", "6"]), this_machine()) == Known()


def test_a_local_module_that_changed_makes_it_another(script: Script) -> None:
    Path("model.py").write_text("x = 1\n")
    digests = SourceDigests(script.digest(), {"model.py": "of before"})
    write(script, replace(here(script), sources=digests))
    assert known_here(script, this_machine()) == Known()


@pytest.mark.parametrize(
    "change", [{"guard": None}, {"guard": verdict(passed=False)}, {"outcome": "no-gain"}, {"nproc": 2}]
)
def test_what_the_guard_has_not_passed_is_not_tried(script: Script, change: dict[str, object]) -> None:
    write(script, replace(here(script), **change))  # type: ignore[arg-type]
    assert known_here(script, this_machine()).passed == BASELINE


def test_a_journal_that_is_no_database_is_no_obstacle_to_a_run(script: Script) -> None:
    workspace = Workspace(script)
    workspace.make()
    workspace.journal_path.write_text("what is this?")
    assert known_here(script, this_machine()) == Known()
    assert run_seconds(script) is None


def test_a_run_takes_what_its_steps_take_where_its_end_was_seen(script: Script) -> None:
    write(script, replace(here(script), forecast=None, observation=None, baseline_step_seconds=0.5))
    assert run_seconds(script) == 2000.0
    write(script, replace(here(script), forecast=None, script_steps=None))
    assert run_seconds(script) is None


@pytest.mark.parametrize(("assumed", "known"), [((), True), (("length by loops",), False)])
def test_a_length_that_only_loops_say_is_no_end_that_was_seen(
    script: Script, assumed: tuple[Assumed, ...], known: bool
) -> None:
    """It may be stopped early: 5% of it may be days."""
    assert RUN.of == "run"
    write(script, replace(here(script), forecast=replace(RUN, assumed=assumed), script_steps=None))
    assert run_seconds(script) == (RUN.before.value if known else None)
