"""What a script may report, with and without a worker that listens."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import hasten
from hasten.inside import script_side
from hasten.inside.observing.observer import Observer
from hasten.inside.observing.raw_step import RawStep


class Listener:
    def __init__(self) -> None:
        self.heard: list[object] = []

    def step_said(self) -> None:
        self.heard.append("step")

    def metric_said(self, values: dict[str, float]) -> None:
        self.heard.append(values)


def test_without_a_listener() -> None:
    hasten.step()
    hasten.metric(accuracy=0.5)


def test_somebody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Listener()
    monkeypatch.setattr(script_side, "listener", listener)
    hasten.step()
    hasten.metric(accuracy=torch.tensor(0.5), loss=2)
    assert listener.heard == ["step", {"accuracy": 0.5, "loss": 2.0}]


@pytest.mark.parametrize("variable", ["RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"])
def test_rank_0_is_main(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    assert hasten.is_main()
    monkeypatch.setenv(variable, "0")
    assert hasten.is_main()
    monkeypatch.setenv(variable, "1")
    assert not hasten.is_main()


def test_from_the_first_word_on_only_words_end_a_step() -> None:
    steps: list[RawStep] = []
    observer = Observer(steps.append)
    observer.step_ends(0)
    observer.step_said()
    observer.step_ends(0)
    observer.step_said()
    assert [step.optimizer for step in steps] == [0, -1, -1]


def test_no_module_of_ours_hides_what_a_script_calls() -> None:
    """A submodule that is imported becomes an attribute of the package, in place of a function."""
    package = Path(hasten.__file__).parent
    modules = {path.stem for path in package.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert not modules & {"step", "metric", "is_main", "applied"}
