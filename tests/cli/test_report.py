"""``hasten report`` shows the last result again, word by word."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from hasten.cli.main import main
from hasten.records.result import TuneResult
from hasten.report.console import open_console
from hasten.report.machine_readable import tune_json
from hasten.report.terminal import print_tune
from hasten.scripts.workspace import Workspace, find_script
from hasten.tuning.journal import Journal

from ..report.made_up import GAIN, NO_GAIN


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    Path("train.py").write_text("print('training')")
    made = Workspace(find_script("train.py", []))
    made.make()
    return made


def tuned(workspace: Workspace, result: TuneResult | None, state: str = "finished", *arguments: str) -> None:
    identity = {"script": workspace.folder.name, "argv": ["train.py", *(arguments or ("--epochs", "5"))]}
    journal = Journal(workspace.journal_path, identity)
    if result is not None:
        journal.conclude(result)
    journal.close(state)


def as_tune_told_it(workspace: Workspace, result: TuneResult) -> str:
    stream = io.StringIO()
    print_tune(result, open_console(stream), "train.py --epochs 5", workspace.plan_path)
    return stream.getvalue()


def test_it_is_the_report_of_the_tune(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    tuned(workspace, NO_GAIN)
    tuned(workspace, GAIN)
    assert main(["report", "train.py"]) == 0
    first, _, rest = capsys.readouterr().out.partition("\n")
    assert first.startswith("Tune of ")
    assert first.endswith(": train.py --epochs 5")
    assert rest == as_tune_told_it(workspace, GAIN)


def test_it_is_the_json_of_the_tune(workspace: Workspace) -> None:
    tuned(workspace, GAIN)
    assert main(["report", "--json", "report.json", "train.py"]) == 0
    assert json.loads(Path("report.json").read_text()) == json.loads(json.dumps(tune_json(GAIN)))


def test_a_later_tune_without_a_result_is_named(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned(workspace, GAIN)
    tuned(workspace, None, "interrupted")
    assert main(["report", "train.py"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("A later tune, of ")
    assert last.endswith(" was interrupted and has no result.")


@pytest.mark.parametrize("earlier", [True, False])
def test_its_best_plan_is_for_the_arguments_it_had(
    workspace: Workspace, capsys: pytest.CaptureFixture[str], earlier: bool
) -> None:
    if earlier:
        tuned(workspace, GAIN)
    tuned(workspace, None, "interrupted", "--epochs", "9")
    workspace.unconfirmed_path.write_text(
        'format = 1\n[measured]\noutcome = "not-confirmed"\naccuracy = "held"\n[techniques.bf16]\n'
    )
    assert main(["report", "train.py"]) == (0 if earlier else 2)
    told = "".join(capsys.readouterr())
    assert f"hasten run --plan {workspace.unconfirmed_path} train.py --epochs 9" in told


@pytest.mark.parametrize(
    ("state", "said"), [("", "none began"), ("interrupted", "was interrupted"), ("killed", "was killed")]
)
def test_without_a_result_it_says_why(
    workspace: Workspace, capsys: pytest.CaptureFixture[str], state: str, said: str
) -> None:
    if state:
        tuned(workspace, None, state)
    assert main(["report", "train.py"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("hasten: no tune of train.py has reached a result: ")
    assert f"{said}. Tune it: hasten tune train.py\n" in told
