"""``hasten tune --budget``: seconds, or a part of the training where its length is known or said."""

from __future__ import annotations

import click
import pytest

from hasten.cli import tune
from hasten.cli.values import ShareOfRun, seconds_or_share
from hasten.scripts.workspace import Script, find_script
from hasten.tuning import known_here

from .asked import asked_by


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("90", 90.0),
        ("5%", ShareOfRun(0.05)),
        ("0.5%", ShareOfRun(0.005)),
        ("5% of 2h", ShareOfRun(0.05, 7200.0)),
        ("5%of90min", ShareOfRun(0.05, 5400.0)),
        ("10% of 3 d", ShareOfRun(0.1, 259_200.0)),
        ("10% of 600", ShareOfRun(0.1, 600.0)),
    ],
)
def test_it_is_seconds_or_a_part_of_the_training(text: str, budget: float | ShareOfRun) -> None:
    assert seconds_or_share(text) == budget


@pytest.mark.parametrize(
    "text", ["%", "0%", "101%", "-5%", "5% of", "5% of 0h", "5% of 9999999h", "5%%", "five%"]
)
def test_what_makes_no_sense_is_told(text: str) -> None:
    with pytest.raises(click.BadParameter, match="a part of the training such as 5% or '5% of 2h'"):
        seconds_or_share(text)


@pytest.fixture
def script(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Script:
    folder = tmp_path_factory.mktemp("project")
    (folder / "train.py").write_text("print('training')")
    monkeypatch.chdir(folder)
    return find_script("train.py", [])


def test_of_a_training_whose_length_is_said(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune.budget_seconds(ShareOfRun(0.05, 7200.0), script) == pytest.approx(360.0)
    assert capsys.readouterr().err == "hasten: the budget is 360 s, 5% of 7200 s\n"


def test_of_a_training_whose_length_an_earlier_tune_has_seen(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_here, "run_seconds", lambda script: 4000.0)
    assert tune.budget_seconds(ShareOfRun(0.05), script) == pytest.approx(200.0)


def test_if_the_length_is_not_known_the_tune_finds_it_out(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tune.budget_seconds(ShareOfRun(0.05), script) is None
    asked = asked_by(monkeypatch, "--budget", "5%")
    assert (asked.budget, asked.share_of_run, asked.budget_most) == (tune.DEFAULT_BUDGET, 0.05, 0.0)
    assert asked_by(monkeypatch, "--budget", "5% of 2h").share_of_run is None


@pytest.mark.parametrize(
    ("words", "most"), [((), 600.0), (("--budget", "200"), 0.0), (("--budget", "5% of 2h"), 0.0)]
)
def test_only_a_budget_that_was_not_named_may_grow(
    words: tuple[str, ...], most: float, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asked_by(monkeypatch, *words).budget_most == most
