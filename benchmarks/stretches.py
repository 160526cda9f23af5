"""Are comparisons of whole stretches right? By simulation, where the truth is known.

    python -m benchmarks.stretches

An evaluation takes four fifths of each epoch. hasten's own comparison runs over workers whose steps take
times drawn from the model of noise, and evaluations as long as so many steps together. Counted is how often
the 95% interval holds the true ratio, how often a gain is claimed if there is none - nothing changes, or
what evaluation no longer takes the steps after it do - and how often one is found that is there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np
from tests.bench.made_up import step
from tests.bench.paper_epochs import QUICK, known
from tests.bench.paper_workers import PaperTrials, PaperWorker

from hasten.bench.comparing.decisions import is_gain, margin
from hasten.bench.comparing.statistics import interval
from hasten.bench.comparing.steps import Rhythm
from hasten.bench.comparing.stretches import StretchBench
from hasten.records.observation import Step
from hasten.records.plan import BASELINE, Plan
from hasten.records.trial import Seen

from .noise import DRIFT_SD, STEADY, STEP_SECONDS, TWO_STATES, Floats, Noise, own_part
from .results import write_result

SEED = 20261123
EPOCH, EVALUATION = 50, 200  # steps, and what an evaluation takes in steps
COMPARISONS = 300
COUNTS = (4, 10)  # pairs
RHYTHM = Rhythm(evaluations=0, restarts=0, cycle=1, cycle_seconds=STEP_SECONDS)
MOST_STEPS = 5 * EPOCH  # of a process: its noise is drawn beforehand


@dataclass(frozen=True)
class Effect:
    """Of a plan: factors on evaluations and on the steps."""

    name: str
    what: str
    evaluation: float
    steps: float

    @property
    def truth(self) -> float:
        return math.log((EPOCH * self.steps + EVALUATION * self.evaluation) / (EPOCH + EVALUATION))


NOTHING = Effect("nothing", "nothing changes", 1.0, 1.0)
MOVED = Effect("moved", "half of each evaluation is moved into the steps", 0.5, 1 + 0.5 * EVALUATION / EPOCH)
HALVED = Effect("halved", "evaluations take half", 0.5, 1.0)
TENTH = Effect("tenth", "evaluations take a tenth less", 0.9, 1.0)
EFFECTS = (NOTHING, MOVED, TENTH, HALVED)
NOISES = {"both steady": STEADY, "both in two states, heavy tails": TWO_STATES}


@dataclass
class SimulatedRun(PaperTrials):
    noise: Noise = STEADY
    effect: Effect = NOTHING
    source: np.random.Generator = field(default_factory=np.random.default_rng)
    drift: float = 0.0  # of the machine, up to now

    def worker(self, plan: Plan = BASELINE, **_: object) -> PaperWorker:
        own = own_part(self.noise, (), MOST_STEPS, [], self.source)
        self.workers.append(SimulatedWorker(self, plan, STEP_SECONDS, run=self, own=own))
        return self.workers[-1]


@dataclass
class SimulatedWorker(PaperWorker):
    run: SimulatedRun = field(default_factory=SimulatedRun)
    own: Floats = field(default_factory=lambda: np.zeros(MOST_STEPS))

    def _take(self, count: int) -> list[Step]:
        steps = [self._step() for _ in range(count)]
        self.history += steps
        return steps

    def _step(self) -> Step:
        effect = self.run.effect if self.plan else NOTHING
        number, self.taken = self.taken, self.taken + 1
        seconds = effect.steps * self._seconds(1, self.own[number])
        begins = number > 0 and number % EPOCH == 0
        if begins:  # forward passes vary among each other as steps do
            epoch = float(np.log(np.mean(np.exp(self.own[:EPOCH]))))
            seconds += self._seconds(EVALUATION, epoch) * effect.evaluation
        return step(seconds, restarts=int(begins or not number), evaluations=int(begins))

    def _seconds(self, steps: int, own: float) -> float:
        """The machine drifts meanwhile."""
        self.run.drift += DRIFT_SD * math.sqrt(steps) * float(self.run.source.standard_normal())
        return STEP_SECONDS * steps * math.exp(own + self.run.drift)


def main() -> None:
    began = time.monotonic()
    cases = [simulate(what, noise, effect) for what, noise in NOISES.items() for effect in EFFECTS]
    for case in cases:
        for row in case["points"]:
            print(
                f"{case['noise']}, {case['what']}, {row['pairs']} pairs: covered {row['coverage']:.1%}, "
                f"claimed {row['claimed']:.2%}, by the bound {row['claimed_by_the_bound']:.2%}, off by "
                f"{row['bias']:+.2%}, regular steps off by {row['steps_bias']:+.2%}"
            )
    print(f"{time.monotonic() - began:.0f} s")
    write_result("stretches", {"seed": SEED, "epoch": EPOCH, "evaluation": EVALUATION, "cases": cases})


def simulate(what: str, noise: Noise, effect: Effect, comparisons: int = COMPARISONS) -> dict[str, Any]:
    """All numbers of one case."""
    source = np.random.default_rng([SEED, *map(ord, what[:6] + effect.name)])
    logs, steps = zip(*compared(noise, effect, source, comparisons), strict=True)
    points = []
    for pairs in COUNTS:
        ratios = [interval(row[:pairs], "pairs") for row in logs]
        covered = [r for r in ratios if r is not None and r.low <= math.exp(effect.truth) <= r.high]
        points.append(
            {
                "pairs": pairs,
                "comparisons": comparisons,
                "coverage": len(covered) / comparisons,
                "claimed": sum(is_gain(row[:pairs]) for row in logs) / comparisons,
                "claimed_by_the_bound": sum(margin(row[:pairs]) > 0 for row in logs) / comparisons,
                "bias": fmean(fmean(row[:pairs]) for row in logs) - effect.truth,
                "steps_bias": fmean(fmean(row[:pairs]) for row in steps) - math.log(effect.steps),
            }
        )
    return {
        "noise": what,
        "effect": effect.name,
        "what": effect.what,
        "truth": effect.truth,
        "points": points,
    }


def compared(
    noise: Noise, effect: Effect, source: np.random.Generator, comparisons: int
) -> Iterator[tuple[tuple[float, ...], tuple[float, ...]]]:
    """Log ratios of whole stretches, and of the regular steps in them, of each comparison."""
    with known():
        for _ in range(comparisons):
            run = SimulatedRun(noise=noise, effect=effect, source=source)
            bench = StretchBench(run.as_trials(), RHYTHM)
            bench.early = False  # as in a confirmation
            seen = bench.seek(BASELINE, QUICK, 1e6)
            assert isinstance(seen, Seen), seen
            trial = bench.compare(BASELINE, QUICK, max(COUNTS))
            assert trial.failure is None, trial.failure
            assert len(trial.log_ratios) == len(trial.step_log_ratios) == max(COUNTS), "pairs are missing"
            yield trial.log_ratios, trial.step_log_ratios


if __name__ == "__main__":
    main()
