"""``hasten techniques``: the whole catalogue, on this machine and for a script."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hasten.inside.techniques.catalog import CATALOG

from .conftest import Project

TRAINING = """
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.zeros(64, dtype=torch.long)), batch_size=8)
while True:
    for inputs, labels in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
"""


def listed(project: Project, *words: str) -> tuple[dict[str, Any], str]:
    """The JSON by technique, and what was printed for people."""
    path = project.folder.parent / "listing.json"
    done = project.hasten("techniques", "--json", str(path), *words)
    assert done.returncode == 0, done.stderr
    content = json.loads(path.read_text())
    assert [entry["name"] for entry in content["entries"]] == list(CATALOG)
    return {**content, "entries": {entry["name"]: entry for entry in content["entries"]}}, done.stdout


def test_without_a_script_it_says_what_the_machine_decides(project: Project) -> None:
    project.environment["OMP_NUM_THREADS"] = "1"
    content, printed = listed(project)
    assert content["script"] == ""
    assert content["entries"]["threads"]["reasons"] == ["you set OMP_NUM_THREADS yourself, and that stands"]
    for name, technique in CATALOG.items():
        entry = content["entries"][name]
        assert (entry["layer"], entry["risk"], entry["scope"]) == (
            technique.layer,
            technique.risk,
            technique.scope,
        )
        assert name in printed
    assert "hasten techniques train.py" in printed


def test_with_a_script_each_technique_applies_or_says_why_not(project: Project) -> None:
    project.write("train.py", TRAINING)
    content, printed = listed(project, "--allow-writes", "train.py", "--script's", "--json")
    assert content["script"] == "train.py"
    assert content["entries"]["channels_last"]["reasons"] == ["the model has no 2-d convolutions"]
    assert content["entries"]["fused_optimizer"]["reasons"]
    for entry in content["entries"].values():
        assert bool(entry["options"]) != bool(entry["reasons"])
    assert "hasten techniques train.py" not in printed
    assert project.left_over() == []


@pytest.mark.parametrize(
    ("words", "said"),
    [(("absent.py",), "absent.py"), (("-m", "absent"), "absent"), (("--jsn", "x"), "--jsn")],
)
def test_bad_input_gets_a_clear_error(project: Project, words: tuple[str, ...], said: str) -> None:
    done = project.hasten("techniques", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
