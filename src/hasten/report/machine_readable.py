"""JSON output for scripts: ``--json FILE``, where ``-`` is standard output."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from ..errors import UsageError
from ..records.cause import Cause
from ..records.codec import to_json
from ..records.conclusion import Conclusion
from ..records.curve import ThreadCurve
from ..records.observation import Observation
from ..records.phases import median_phases, samples_per_step, step_seconds
from ..records.plan import BASELINE
from ..records.quality import QualityVerdict
from ..records.result import TuneResult
from ..records.trial import Ratio
from ..records.verdict import GuardVerdict
from .caution import caution_words
from .conclusion import conclusion_words
from .console import Outlet
from .guard import reasons
from .reasons import missing_words, reason_words, why_not_words
from .whole_run import run_json
from .words import step_words


def tune_json(result: TuneResult) -> dict[str, Any]:
    """``speedup`` is the claim and ``ratio`` the same as time over time; both are null without a claim.
    ``measured`` is what confirmation measured, claimed or not. They are of regular steps; if there are
    ``parts``, they are of whole stretches of the run that include these, and ``steps_ratio`` is of regular
    steps alone; if the start is the only part, they are of a whole run with these arguments. Ratios come with
    both ends of their intervals. ``forecast`` is what the claim means for a whole run, in seconds.
    ``script_steps`` is null if the script did not reach its end; ``looks`` are processes under the plan
    started in addition to the pairs, null if there were none.
    """
    return {
        "outcome": result.outcome,
        "reason": conclusion_words(result),
        "speedup": _claim(result.speedup),
        "ratio": _claim(result.ratio),
        "parts": list(result.parts),
        "steps_ratio": _interval(result.steps_ratio),
        "share_of_epochs": result.shortened,
        "measured": _interval(result.measured),
        "baseline": {
            "step_seconds": result.baseline_step_seconds,
            "samples_per_second": result.baseline_samples_per_second,
            "cycle": result.observation.cycle if result.observation is not None else None,
            "step": step_words(result.observation) if result.observation is not None else None,
        },
        "forecast": to_json(result.forecast),
        "plan": result.plan.to_json(),
        "tried": [
            {
                "technique": row.technique,
                "settings": dict(row.settings),
                "ratio": _interval(row.ratio),
                "against": row.against.to_json(),
                "kept": row.kept,
                "reason": reason_words(row.reason),
                "method": row.method,
                "setup_seconds": row.setup_seconds,
                **({"parts": list(row.parts)} if row.parts else {}),
                **({"earlier": True} if row.earlier else {}),
                **({"together": row.together.to_json()} if row.together else {}),
            }
            for row in result.tried
        ],
        "refused": [
            {"technique": row.technique, "reasons": list(map(why_not_words, row.reasons))}
            for row in result.refused
        ],
        "threads": _curve(result.threads),
        "run": run_json(result.observation.run) if result.observation is not None else None,
        "causes": to_json(result.causes),
        "guard": guard_json(result.guard) if result.guard is not None else None,
        "setup_seconds": result.setup_seconds,
        "lasting_setup_seconds": result.lasting_seconds,
        "breakeven_steps": result.breakeven_steps,
        "script_steps": result.script_steps,
        "looks": to_json(result.looks),
        "protection": result.protection,
        "warnings": list(map(caution_words, result.warnings)),
        "tune_seconds": result.tune_seconds,
        "nproc_per_node": result.nproc,
        "sources": to_json(result.sources),
        "machine": result.machine,
        "cpu_flags": list(result.cpu_flags),
        "versions": dict(result.versions),
    }


def guard_json(verdict: GuardVerdict) -> dict[str, Any]:
    """What was compared and the result, also in words."""
    return {
        "accuracy": verdict.accuracy,
        "steps": verdict.steps,
        "after": verdict.after,
        "invariants": to_json(verdict.invariants),
        "loss_curve": to_json(verdict.loss_curve),
        "reasons": reasons(verdict),
        "numerics": to_json(verdict.numerics),
        "changes": list(verdict.changes),
        "why_not": verdict.why_not,
        "refused": verdict.refused,
        "cut_short": verdict.cut_short,
    }


def _curve(curve: ThreadCurve | None) -> dict[str, Any] | None:
    """Times in seconds; a point that was not measured has none and says why."""
    if curve is None:
        return None
    return {
        "usual": curve.usual,
        "usual_seconds": curve.usual_seconds,
        "against": curve.together_with.to_json(),
        "pays_up_to": curve.pays_up_to,
        "points": [
            {
                "threads": point.threads,
                "ratio": _interval(point.ratio),
                "hyperthreads": point.hyperthreads,
                "missing": missing_words(point),
            }
            for point in curve.points
        ],
    }


def refusal_json(reason: str) -> dict[str, Any]:
    """The same keys if nothing was measured."""
    return tune_json(TuneResult("refused", Conclusion("refused", reason), BASELINE))


def profile_json(
    observation: Observation, causes: Sequence[Cause], nproc: int | None = None
) -> dict[str, Any]:
    """``causes``: most expensive first. ``nproc``: number of ranks; rank 0 was observed."""
    seconds = [step.seconds for step in observation.steps]
    samples = samples_per_step(observation)
    tenths = quantiles(seconds, n=10, method="inclusive")
    return {
        "steps": len(seconds),
        "warmup_steps": observation.warmup_steps,
        "cycle": observation.cycle,
        "step": step_words(observation),
        "step_seconds": {"median": median(seconds), "p10": tenths[0], "p90": tenths[-1]},
        "samples_per_second": samples / step_seconds(observation) if samples else None,
        "phases": median_phases(observation),
        "trainings": list(observation.trainings),
        "run": run_json(observation.run),
        "causes": to_json(tuple(causes)),
        "losses": [loss for step in observation.steps for loss in step.losses],
        "roots": to_json(observation.roots),
        "loaders": to_json(observation.loaders),
        "optimizers": to_json(observation.optimizers),
        "batch_size": observation.batch_size,
        "metrics": dict(observation.metrics),
        "threads": observation.threads,
        "uses": list(observation.uses),
        "autocast": list(observation.autocast),
        "obstacles": list(observation.obstacles),
        "torch": observation.torch,
        "nproc_per_node": nproc,
    }


def verify_json(verdict: QualityVerdict) -> dict[str, Any]:
    """Everything: the runs with each raw value of each metric, and what was computed from them."""
    content: dict[str, Any] = to_json(verdict)
    return {**content, "warnings": list(map(caution_words, verdict.warnings))}


def write_json(content: dict[str, Any], target: str) -> None:
    """Raises UsageError if ``target`` cannot be written. A number that is not finite becomes null: JSON has
    no way to write it, and a loss may well be NaN.
    """
    text = json.dumps(_finite(content), indent=2, allow_nan=False, default=str) + "\n"
    if target == "-":
        out = Outlet(sys.stdout)
        out.write(text)
        out.flush()  # a closed pipe shows here and not when Python exits
        return
    try:
        Path(target).write_text(text)
    except OSError as error:
        raise UsageError(f"--json {target} cannot be written: {error.strerror}") from None


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value


def _interval(ratio: Ratio | None) -> dict[str, Any] | None:
    return None if ratio is None else {"value": ratio.value, "low": ratio.low, "high": ratio.high}


def _claim(ratio: Ratio | None) -> dict[str, Any] | None:
    return None if ratio is None else {**(_interval(ratio) or {}), "processes": ratio.count}
