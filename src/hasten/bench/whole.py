"""One training from start to end, as ``hasten run`` would do it, and how good its model became on the way."""

from __future__ import annotations

import math
import re
import time
from bisect import bisect_right
from collections.abc import Sequence

from ..errors import UsageError, WorkerError
from ..records.plan import Plan
from ..records.quality import MetricValue, Point, RunSummary, WholeRun
from .trials import Trials


def train_whole(
    trials: Trials,
    plan: Plan,
    seed: int,
    pattern: re.Pattern[str] | None = None,
    name: str = "",
    timeout: float | None = None,
    argv: tuple[str, ...] | None = None,
) -> WholeRun:
    """Train under ``plan`` to the end. If there is a ``pattern``, the metric ``name`` is what its group
    matches in the script's output. ``argv`` replaces the stage's.

    A training that fails, or is silent for ``timeout`` seconds in all, is reported in the run's ``failure``.
    Raises Refusal if the script's files cannot be protected, UsageError if the pattern matches something that
    is not a number.
    """
    reader = _Reader(pattern)
    arm = "plan" if plan else "baseline"
    trials.rehearse(plan)
    began = time.monotonic()
    with trials.worker(plan, seed=seed, whole=True, heard=reader, argv=argv) as worker:
        try:
            ended, failure = worker.finish(timeout)
        except WorkerError as error:
            seconds = time.monotonic() - began
            return WholeRun(arm, seed, seconds, last_line=reader.last_line, failure=str(error))
        seconds = time.monotonic() - began
    summary = ended.summary or RunSummary()
    ends = [end - began for end in summary.step_ends]
    courses = _told(summary.metrics, began)
    if pattern is not None and reader.caught:
        courses[name] = [
            Point(_number(text), at - began, bisect_right(ends, at - began)) for at, text in reader.caught
        ]
    return WholeRun(
        arm=arm,
        seed=seed,
        seconds=seconds,
        steps=len(ends),
        courses={key: tuple(points) for key, points in courses.items()},
        losses=summary.losses,
        remarks=summary.remarks,
        worked=summary.worked,
        last_line=reader.last_line,
        failure=failure or _not_trained(len(ends), summary.losses),
    )


def _not_trained(steps: int, losses: Sequence[float]) -> str:
    if not steps:
        return "no training step was seen"
    return "" if all(map(math.isfinite, losses)) else "the loss at the end is not a number"


def _told(metrics: Sequence[MetricValue], began: float) -> dict[str, list[Point]]:
    courses: dict[str, list[Point]] = {}
    for told in metrics:
        courses.setdefault(told.name, []).append(Point(told.value, told.seconds - began, told.step))
    return courses


def _number(text: str) -> float:
    try:
        return float(text.strip(" .,%"))
    except ValueError:
        raise UsageError(f"the group of --metric caught {text!r}, which is not a number") from None


class _Reader:
    """Reads the script's lines; keeps what the pattern's group matches, with its time."""

    def __init__(self, pattern: re.Pattern[str] | None) -> None:
        self._pattern = pattern
        self.caught: list[tuple[float, str]] = []
        self.last_line = ""

    def __call__(self, line: bytes) -> None:
        now = time.monotonic()
        text = line.decode(errors="replace").strip()
        self.last_line = text or self.last_line
        if self._pattern is not None:
            found = (match[1] for match in self._pattern.finditer(text))
            self.caught += [(now, group) for group in found if group is not None]
