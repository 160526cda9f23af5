"""Whole tunes over paper workers whose script has epochs: a technique for evaluation costs no gain in steps,
and what pairs over whole stretches take is kept within the budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hasten.bench.stage import Stage
from hasten.records.plan import Plan
from hasten.report.conclusion import conclusion_words
from hasten.scripts.sources import Sources
from tests.bench.made_up import loader, machine
from tests.bench.paper_epochs import PaperRun, known
from tests.tuning.test_budget_kept import QUIET, Tuned

BUDGET = 600.0


@dataclass
class Epochs(PaperRun):
    """With all that a tune asks of trials."""

    protection: str = "overlay"
    written_outside: tuple[str, ...] = ()
    sources: Sources | None = None
    start_seconds: float = 3.0
    stage: Stage = field(default_factory=lambda: Stage(("train.py",), machine(), {}, ()))

    def clock(self) -> float:
        return self.now

    def load(self, now: float) -> float:
        return 1.0

    def setup(self, plan: Plan) -> float:
        return 0.0

    def spend(self, seconds: float) -> None:
        self.now += seconds

    def write_to(self, folder: Path) -> None:
        pass

    def __enter__(self) -> Epochs:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def tuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tuned]:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print('training')")
    with known():
        yield Tuned(monkeypatch)


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("evaluation", "quicker", "techniques", "speedup"),
    [
        (8.0, 0.875, {"fused_optimizer", "quick_eval"}, (4 + 8) / (4 * 0.93 + 8 * 0.875)),
        (16.0, 0.96, {"fused_optimizer"}, 1 / 0.93),  # four pairs cannot be sure of 1.05
    ],
)
def test_a_small_gain_in_steps_is_claimed_with_a_technique_for_evaluation(
    tuned: Tuned, evaluation: float, quicker: float, techniques: set[str], speedup: float
) -> None:
    """An epoch has 4 s of steps."""
    tuned.trials = Epochs(  # type: ignore[assignment]
        epoch=400,
        between=evaluation,
        shorter={"quick_eval": quicker},
        effects={"fused_optimizer": 0.93},
    )
    result = tuned.run(BUDGET)
    assert result.outcome == "gain", conclusion_words(result)
    assert set(result.plan.techniques) - {"malloc"} == techniques
    assert result.parts == (("evaluation",) if "quick_eval" in techniques else ())
    assert result.speedup is not None
    assert result.speedup.value == pytest.approx(speedup)
    assert tuned.trials.now <= QUIET * BUDGET


@pytest.mark.parametrize("found_for_steps", [1.0, 0.5])
def test_where_an_epoch_takes_longer_than_the_budget_a_technique_for_evaluation_is_found(
    tuned: Tuned, found_for_steps: float
) -> None:
    """Of an epoch of 200 s, 80 are its evaluation."""
    tuned.epoch_steps = 12_000
    tuned.trials = Epochs(  # type: ignore[assignment]
        epoch=12_000,
        between=80.0,
        saved=False,
        loaders=(loader(samples=96_000), loader(samples=40_000, training=False)),
        shorter={"quick_eval": 0.4},
        effects={"fused_optimizer": found_for_steps},
    )
    result = tuned.run(150.0)
    assert result.outcome == "gain", conclusion_words(result)
    assert "quick_eval" in result.plan.techniques
    assert result.parts == ("evaluation",)
    assert result.shortened == pytest.approx(0.0125)
    assert result.speedup is not None
    after = 120 * (found_for_steps if "fused_optimizer" in result.plan.techniques else 1.0)
    assert result.speedup.value == pytest.approx(200 / (after + 32), rel=0.01)
    assert result.forecast is not None
    assert "epochs cut short" in result.forecast.assumed
    epochs = result.forecast.steps / 12_000
    told = {part.name: (part.before.value, part.after.value) for part in result.forecast.parts}
    assert told["epoch ends"] == pytest.approx((80.0 * epochs, 32.0 * epochs), rel=0.02)
    assert tuned.trials.now <= QUIET * 150.0
