"""The guard's runs as they are kept: raw numbers, the verdict had again from them, and what they come to."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from hasten.bench.guard.checked_steps import Check, Watched
from hasten.bench.guard.judging import compare_losses
from hasten.bench.guard.single_steps import judge_steps
from hasten.records.codec import from_json, to_json
from hasten.records.trace import StepTrace
from hasten.records.verdict import Difference
from hasten.report.guard import difference_words, loss_reasons, step_reasons


# ---- raw numbers
def raw(watched: Watched) -> dict[str, Any]:
    """Losses, and of the checked steps the sums: of gradients by tensor, of all else in all."""
    checks = [
        {**asdict(check), "update": _together(check.update), "buffers": _together(check.buffers)}
        for check in watched.checks
    ]
    losses = [step.losses for step in watched.trace]
    return {"losses": _rounded(losses), "checks": _rounded(checks), "failed": watched.failed}


def _together(sums: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    return {"all": [math.fsum(column) for column in zip(*sums.values(), strict=True)]} if sums else {}


def _rounded(value: Any) -> Any:
    """To what is no more than float32 knows; what is not a number becomes text."""
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, (list, tuple)) else value


def checks_in(row: Mapping[str, Any], name: str) -> list[Check]:
    """What ``raw`` wrote down of the checked steps."""
    return [Check(**_numbers(check)) for check in row["raw"][name]["checks"]]


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: part if key == "counts" else _numbers(part) for key, part in value.items()}
    return (
        [_numbers(part) for part in value]
        if isinstance(value, list)
        else float(value)
        if isinstance(value, str)
        else value
    )


def judged_anew(row: dict[str, Any], commit: str) -> dict[str, Any]:
    """With the verdict of the guard as it is now, at ``commit``, from losses and sums; what must be equal is
    not asked again.
    """
    if "raw" not in row or any(row["raw"][name]["failed"] for name in row["raw"]):
        return row
    losses = [
        [StepTrace(losses=tuple(_numbers(step))) for step in row["raw"][name]["losses"]]
        for name in ("reference", "perturbed", "candidate")
    ]
    reference, perturbed, candidate = (trace[: row["steps"]] for trace in losses)
    curve = compare_losses(reference, [perturbed], candidate)
    steps = judge_steps(
        checks_in(row, "perturbed"), checks_in(row, "candidate"), row["draws"], row["precision"]
    )
    unrepeatable = ("two runs from one seed differ", "the script does not repeat")  # the latter in older rows
    others = [reason for reason in row["reasons"] if reason.startswith(("only ", *unrepeatable))]
    before = [*others, *map(_in_words, row["invariants"]["differing"])]
    reasons = [*before, *loss_reasons(curve), *step_reasons(steps)]
    return {
        **row,
        "outcome": "stopped" if reasons else "passed",
        "accuracy": "not held" if reasons else "held",
        "loss_curve": to_json(replace(curve, precision=row["precision"])),
        "reasons": reasons,
        "numerics": to_json(steps),
        "judged": commit,
    }


def _in_words(difference: Any) -> str:
    """Older rows hold the words themselves."""
    return difference if isinstance(difference, str) else difference_words(from_json(Difference, difference))


# ---- words
def counted(rows: Sequence[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    """The runs of a kind that came to a verdict."""
    return [row for row in rows if row["kind"] == kind and row["outcome"] in ("passed", "stopped")]


PARTS = ("invariants", "numerics", "loss curve")


def alarms(row: Mapping[str, Any]) -> list[str]:
    """Which parts of the guard did not hold."""
    verdict = {
        "invariants": not row["invariants"]["differing"],
        "numerics": row["numerics"].get("held") is not False,
        "loss curve": row["loss_curve"]["held"],
    }
    return [part for part in PARTS if not verdict[part]]


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    harmless, faults = counted(rows, "harmless"), counted(rows, "fault")
    stopped = [row for row in harmless if row["outcome"] == "stopped"]
    left_out = sum(row["kind"] == "harmless" and row["outcome"] == "not applicable" for row in rows)
    by_part = Counter(part for row in stopped for part in alarms(row))
    lines = [
        f"{len(stopped)} alarms in {len(harmless)} harmless runs, "
        f"at most {upper_bound(len(stopped), len(harmless)):.1%} with 95% confidence; "
        f"{left_out} more cases in which the plan does not apply are not counted",
        *(f"  {part}: {by_part[part]}" for part in PARTS),
        f"{sum(row['outcome'] == 'stopped' for row in faults)} of {len(faults)} planted faults caught",
    ]
    seconds = [row["seconds"] for row in (*harmless, *faults)]
    if seconds:
        lines.append(f"{sum(seconds) / len(seconds):.1f} s a run")
    return "\n".join(lines)


def upper_bound(count: int, of: int, confidence: float = 0.95) -> float:
    """The largest share that would show so few with a probability of 1 - ``confidence``: one side of Clopper
    and Pearson's interval (Biometrika 26, 1934).
    """
    if count >= of:
        return 1.0
    low, high = count / of, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        at_most = sum(math.comb(of, k) * middle**k * (1 - middle) ** (of - k) for k in range(count + 1))
        low, high = (middle, high) if at_most > 1 - confidence else (low, middle)
    return high
