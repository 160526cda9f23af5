"""The verdict on whole trainings of both arms: is the quality of the model held?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, median, stdev

from ..bench.comparing.statistics import interval, mean_interval, t_quantile
from ..records.quality import Interval, Metric, Point, QualityVerdict, Reached, Tolerance, WholeRun
from ..records.trial import Ratio

_POWER = 0.8416  # standard deviations: then an interval is as wanted in four of five cases
_MOST_SEEDS = 1000
OWN_SEED = (
    "the script sets its own seed: {count} equal runs count as one, which has no interval. Where it "
    "takes the seed as an argument, write {{seed}} there: --seed {{seed}}"
)
TOO_COARSE = (
    "every baseline run ended with exactly {value:g}, though not by the same training: the metric is too "
    "coarse to distinguish runs, or it is not the intended one"
)
NOT_IN_FORCE = "no technique of the plan had an effect, so two runs of the same were compared"
SAME_TRAINING = "the same training: all values and the last losses equal the baseline's"


def judge(metric: Metric, runs: Sequence[WholeRun], tolerance: Tolerance) -> QualityVerdict:
    """The verdict on the whole runs of both arms, paired by their seeds.

    "held": the 95% t interval of the plan's quality minus the baseline's does not reach beyond the
    tolerance on the bad side. "lost": all of it lies beyond. "cannot tell": neither.
    """
    verdict = QualityVerdict("failed", "", metric, tuple(runs), tolerance)
    for run in runs:
        if run.failure:
            return replace(verdict, reason=f"{run.arm}, seed {run.seed}: {run.failure}")
    arms = [sorted((r for r in runs if r.arm == arm), key=lambda r: r.seed) for arm in ("baseline", "plan")]
    pairs = list(zip(*arms, strict=True))
    finals = [final(run, metric) for run in arms[0]]
    differences = [final(plan, metric) - final(baseline, metric) for baseline, plan in pairs]
    allowed = tolerance.of(fmean(finals))
    verdict = replace(
        verdict,
        allowed=allowed,
        baseline=fmean(finals),
        wall=_ratio([(baseline.seconds, plan.seconds) for baseline, plan in pairs]),
        reached=_reached(metric, pairs, median(finals)),
    )
    if all(run.worked == () for run in arms[1]):
        return replace(verdict, outcome="cannot tell", reason=NOT_IN_FORCE)
    if len(set(finals)) == 1:
        outcome, reason = _without_spread(metric, pairs)
        return replace(verdict, outcome=outcome, reason=reason)
    difference = mean_interval(differences)
    assert difference is not None
    outcome = _outcome(difference, metric, allowed)
    enough = _seeds_enough(differences, metric, allowed) if outcome == "cannot tell" else None
    return replace(verdict, outcome=outcome, difference=difference, seeds_enough=enough)


def final(run: WholeRun, metric: Metric) -> float:
    """The quality at the run's end."""
    return run.courses[metric.name][-1].value


def _without_spread(metric: Metric, pairs: Sequence[tuple[WholeRun, WholeRun]]) -> tuple[str, str]:
    """The outcome and its reason if all baseline runs ended equal, so that no interval can be trusted."""
    baselines = [baseline for baseline, _ in pairs]
    if all(_same_training(baseline, plan, metric) for baseline, plan in pairs):
        return "held", SAME_TRAINING
    if all(_same_training(baselines[0], other, metric) for other in baselines[1:]):
        return "cannot tell", OWN_SEED.format(count=len(pairs))
    return "cannot tell", TOO_COARSE.format(value=final(baselines[0], metric))


def _same_training(a: WholeRun, b: WholeRun, metric: Metric) -> bool:
    """Whether nothing observed distinguishes the two: a loss depends on everything before it."""
    values = [[point.value for point in run.courses[metric.name]] for run in (a, b)]
    return values[0] == values[1] and a.steps == b.steps and a.losses == b.losses != ()


def _outcome(difference: Interval, metric: Metric, allowed: float) -> str:
    gains = (difference.low, difference.high)
    worst, best = (-gains[1], -gains[0]) if metric.lower_is_better else gains
    if worst >= -allowed:
        return "held"
    return "lost" if best < -allowed else "cannot tell"


def _seeds_enough(differences: Sequence[float], metric: Metric, allowed: float) -> int | None:
    """Seeds that would settle it in four of five cases, if mean and spread stay; None for too many."""
    gain = -fmean(differences) if metric.lower_is_better else fmean(differences)
    for count in range(len(differences) + 1, _MOST_SEEDS + 1):
        half = (t_quantile(0.95, count - 1) + _POWER) * stdev(differences) / math.sqrt(count)
        if half <= abs(gain + allowed):
            return count
    return None


def _reached(metric: Metric, pairs: Sequence[tuple[WholeRun, WholeRun]], quality: float) -> Reached:
    came = [(_first(baseline, metric, quality), _first(plan, metric, quality)) for baseline, plan in pairs]
    both = [(a, b) for a, b in came if a is not None and b is not None]
    return Reached(
        quality=quality,
        baseline=tuple(a for a, _ in came),
        plan=tuple(b for _, b in came),
        seconds=_ratio([(a.seconds, b.seconds) for a, b in both]),
        steps=_ratio([(a.step, b.step) for a, b in both]),
    )


def _first(run: WholeRun, metric: Metric, quality: float) -> Point | None:
    """Where the run's course first is at least as good as ``quality``."""
    sign = -1 if metric.lower_is_better else 1
    return next((p for p in run.courses[metric.name] if sign * p.value >= sign * quality), None)


def _ratio(pairs: Sequence[tuple[float, float]]) -> Ratio | None:
    """The second over the first; None for fewer than two pairs, or if there is nothing to divide."""
    if not all(a > 0 and b > 0 for a, b in pairs):
        return None
    return interval([math.log(b / a) for a, b in pairs], "pairs")
