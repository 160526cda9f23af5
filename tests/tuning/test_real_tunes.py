"""A whole tune of real trainings. It is run apart from other tests: a busy machine hides what is found."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hasten.inside.techniques.catalog import CATALOG
from hasten.plans.files import read_plan
from hasten.records.plan import BASELINE
from hasten.records.result import TuneResult
from hasten.report.conclusion import conclusion_words
from hasten.report.machine_readable import tune_json
from hasten.report.progress import Silent
from hasten.tuning import costs
from hasten.tuning.pipeline import tune
from tests.bench import idle_technique
from tests.bench.known_techniques import known_to_workers
from tests.bench.real_workers import children, write_script

from .test_pipeline import PLAN_PATH, journal, plan_of, request

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="protection is for Linux")

BUDGET = (
    120.0  # three times what the longest of them needs; parts of it are watched for epochs that never end
)
# No convolution, and RMSprop has no fused form; {batches} says where the data comes from.
REAL = """
    from ground import *

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 64), torch.nn.Linear(64, 4))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4, foreach=False)
    {batches}
        train_step(model, optimizer, pictures, labels)
"""
SLOW_DATA = "for pictures, labels in batches(Pictures(seconds=0.001)):"
IN_MEMORY = (["dataset_in_ram"], ["batched_fetch"], ["dataset_in_ram", "batched_fetch"])
NO_LOADER = "while True:\n        pictures, labels = torch.randn(8, 192), torch.randint(0, 4, (8,))"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to tune in, with as few pairs as a claim needs. What a tune leaves is checked at the end."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(costs, "PAIRS_MOST", 4)
    for name, value in {"OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "8", "CXX": "none"}.items():
        monkeypatch.setenv(name, value)  # set by the user, so malloc, threads and compile are refused
    for technique in CATALOG.values():
        if technique.jointly:  # which of them apply is a matter of the machine
            monkeypatch.setattr(technique, "refuse", classmethod(lambda cls, facts: ["not in this test"]))
    before = children()
    yield tmp_path
    assert children() == before
    assert {path.name for path in tmp_path.iterdir()} == {".hasten", "ground.py", "train.py"}


def tune_real(folder: Path, batches: str) -> TuneResult:
    write_script(folder, REAL.format(batches=batches))
    return tune(request(budget=BUDGET, risk="exact"), Silent())


def test_a_training_that_waits_for_its_data_is_made_faster(folder: Path) -> None:
    """Each sample takes a millisecond to make and nothing to keep, so the outcome is certain."""
    result = tune_real(folder, SLOW_DATA)
    assert result.outcome == "gain", conclusion_words(result)
    of_steps = result.plan.without("lazy_dynamo").without("frozen_imports")
    assert of_steps in [plan_of(*names) for names in IN_MEMORY]
    assert result.causes[0].name == "input"
    assert result.guard is not None
    assert result.guard.passed
    assert result.speedup is not None
    assert result.speedup.count == 4
    assert result.protection == "overlay"
    assert result.setup_seconds > 0
    assert result.breakeven_steps is not None
    assert read_plan(PLAN_PATH).plan == result.plan
    states, trials = journal()
    assert states == ["finished"]
    assert trials[0] == ("search", plan_of("dataset_in_ram").key)
    assert [plan for purpose, plan in trials if purpose == "confirm"] == [result.plan.key]
    json.dumps(tune_json(result), allow_nan=False)


def test_where_no_technique_applies_there_is_no_gain(folder: Path) -> None:
    result = tune_real(folder, NO_LOADER)
    assert (result.outcome, conclusion_words(result)) == ("no-gain", "no technique applies here")
    assert {row.technique for row in result.refused} == set(CATALOG)
    assert result.tried == ()
    assert read_plan(PLAN_PATH).plan == BASELINE
    assert journal() == (["finished"], [])


@pytest.fixture
def idle_alone() -> Iterator[None]:
    """The technique that does nothing is the only one there is, here; workers have the others, too."""
    with known_to_workers(idle_technique.__file__, {"idle": idle_technique.Idle}, alone=True):
        yield


@pytest.mark.usefixtures("idle_alone")
def test_a_technique_that_does_nothing_is_found_to_give_no_gain(folder: Path) -> None:
    result = tune_real(folder, NO_LOADER)
    assert result.outcome == "no-gain"
    assert result.speedup is None
    assert [row.technique for row in result.tried][:1] == ["idle"]
    assert result.tried[0].ratio is not None
    assert result.tried[0].ratio.count >= 5
    assert read_plan(PLAN_PATH).plan == BASELINE
    assert journal()[0] == ["finished"]
