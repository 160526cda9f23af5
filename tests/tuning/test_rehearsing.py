"""What a rehearsal found is believed as long as nothing changed that it may depend on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from hasten.bench.stage import Stage
from hasten.bench.trials import Trials
from hasten.errors import Refusal
from hasten.launch.ranks_of_plan import Wish
from hasten.machine import this_machine
from hasten.records.ranks import Findings, LoaderKey
from hasten.scripts.sources import Sources
from hasten.scripts.workspace import Script
from hasten.tuning import rehearsing

pytestmark = pytest.mark.attack("truth")

FINDINGS = Findings(LoaderKey("TensorDataset", 50, 8, "RandomSampler"), remarks=("so it is",))
MACHINE = this_machine()
FILES = {
    "train.py": "import losses, models.net\n\n\ndef later():\n    import metrics\n",
    "losses.py": "from more import helper\n",
    "more/__init__.py": "",
    "more/helper.py": "weight = 1\n",
    "models/net.py": "width = 3\n",
    "metrics.py": "k = 1\n",
    "data.py": "told by the worker alone\n",
}


class Project:
    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self._patch = folder, patch
        self.environment: dict[str, str] = {"HOME": "/home/somebody", "OMP_NUM_THREADS": "2"}
        self.arguments: tuple[str, ...] = ("--lr", "0.1")
        self.wish = Wish(2)
        self.rehearsed = 0
        self.during: Callable[[], None] = lambda: None
        self.found = FINDINGS
        for name, text in FILES.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        patch.chdir(folder)
        patch.setattr(rehearsing, "rehearse", self._rehearse)

    def _rehearse(self, trials: Trials, wish: Wish) -> Findings:
        self.rehearsed += 1
        assert trials.sources is not None
        trials.sources.imported([str(self.folder / "data.py")])  # found by a path that the script makes up
        self.during()
        return self.found

    def ask(self) -> Findings:
        script = Script(Path("train.py"), self.arguments)
        stage = Stage(script.argv, MACHINE, self.environment, (str(self.folder),))
        with Trials(stage, sources=Sources(script, "rehearsed")) as trials:
            return rehearsing.findings_for(script, self.wish, trials, lambda text: None)

    def write(self, name: str, text: str = "changed = True\n") -> None:
        (self.folder / name).write_text(text)

    def pretend(self, versions: Mapping[str, str]) -> None:
        self._patch.setattr(rehearsing, "torch_version", lambda: versions["torch"])

    def pretend_hasten(self, version: str) -> None:
        self._patch.setattr(rehearsing, "__version__", version)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    return Project(tmp_path, monkeypatch)


CHANGES: dict[str, Callable[[Project], Any]] = {
    "the script": lambda project: project.write("train.py", FILES["train.py"] + "lr = 2\n"),
    "a module": lambda project: project.write("losses.py", "from more import helper\nweight = 2\n"),
    "a module's own module": lambda project: project.write("more/helper.py"),
    "a package": lambda project: project.write("more/__init__.py"),
    "a module in a folder": lambda project: project.write("models/net.py"),
    "a module that is imported later": lambda project: project.write("metrics.py"),
    "a module that only the worker knew": lambda project: project.write("data.py"),
    "a module that is gone": lambda project: (project.folder / "data.py").unlink(),
    "a module in another's place": lambda project: project.write("more.py"),
    "an argument": lambda project: setattr(project, "arguments", ("--lr", "0.2")),
    "no argument": lambda project: setattr(project, "arguments", ()),
    "a variable": lambda project: project.environment.update(LR="0.2"),
    "a variable's value": lambda project: project.environment.update(OMP_NUM_THREADS="3"),
    "a variable that is gone": lambda project: project.environment.pop("OMP_NUM_THREADS"),
    "torch": lambda project: project.pretend({"torch": "2.99.0"}),
    "hasten": lambda project: project.pretend_hasten("99"),
    "more ranks": lambda project: setattr(project, "wish", Wish(3)),
    "another backend": lambda project: setattr(project, "wish", Wish(2, "gloo")),
    "batch norm that is shared": lambda project: setattr(project, "wish", Wish(2, sync_batch_norm=True)),
    "half a file": lambda project: project.write(".hasten/train/ranks.json", '{"made_for": '),
    "a file of nothing": lambda project: project.write(".hasten/train/ranks.json", ""),
    "a file of another form": lambda project: project.write(".hasten/train/ranks.json", "[1]"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_found_before_a_change_is_not_believed(project: Project, change: str) -> None:
    assert project.ask() == FINDINGS
    assert project.ask() == FINDINGS
    assert project.rehearsed == 1
    CHANGES[change](project)
    assert project.ask() == FINDINGS
    assert project.rehearsed == 2


IDLE: dict[str, Callable[[Project], Any]] = {
    "another terminal": lambda project: project.environment.update(TERM="xterm", SHLVL="3", SSH_TTY="x"),
    "another binding": lambda project: setattr(project, "wish", Wish(2, threads=1, bind="cores")),
    "a file that is saved as it was": lambda project: os.utime(project.folder / "losses.py", (1, 1)),
    "a module that is not imported": lambda project: project.write("other.py"),
}


@pytest.mark.parametrize("change", IDLE)
def test_what_it_does_not_depend_on_may_change(project: Project, change: str) -> None:
    project.ask()
    IDLE[change](project)
    project.ask()
    assert project.rehearsed == 1


def test_a_file_of_an_older_hasten_is_not_believed(project: Project) -> None:
    project.ask()
    path = project.folder / ".hasten/train/ranks.json"
    kept = json.loads(path.read_text())
    del kept["modules"]
    path.write_text(json.dumps(kept))
    project.ask()
    assert project.rehearsed == 2


def test_a_module_that_changes_during_the_rehearsal_is_told(project: Project) -> None:
    project.during = lambda: project.write("data.py")
    with pytest.raises(Refusal, match=r"data\.py changed while"):
        project.ask()
    assert not (project.folder / ".hasten/train/ranks.json").exists()


def test_values_of_variables_are_not_written_down(project: Project) -> None:
    project.environment["API_TOKEN"] = "secret-of-mine"
    project.ask()
    kept = (project.folder / ".hasten/train/ranks.json").read_text()
    assert "secret-of-mine" not in kept
