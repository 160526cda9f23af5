"""The course of a training as numbers per step, and where two courses differ.

Trainings that differ by rounding drift apart slowly; one that computes something else is far off at once. So
a comparison ends once the numbers have drifted a little, and only a jump before that counts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

DRIFTED = {"float64": 1e-8, "float32": 1e-3}  # relative
ANOTHER = {"float64": 1e-6, "float32": 0.05}
EVALUATED, END = "evaluations", "end"  # kinds of an Event; with ranks, evaluations may differ


@dataclass(frozen=True)
class Event:
    """``kind``: "gradient", as the optimizer gets it; "learning rates"; "metric", given to a scheduler;
    "evaluations", how many calls of a model there were since the last step; "end" of the script.
    """

    kind: str
    step: int
    values: Sequence[float]


def as_line(event: Event) -> str:
    return json.dumps([event.kind, event.step, list(event.values)]) + "\n"


def read_events(path: Path) -> list[Event]:
    """All complete events of a file: the process that wrote it may have been killed."""
    found: list[Event] = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            found.append(Event(*json.loads(line)))
        except (ValueError, TypeError):
            break
    return found


def apart(expected: Event, event: Event) -> float:
    """How far apart the two are, relative to the first; infinite if they are different events."""
    if (expected.kind, len(expected.values)) != (event.kind, len(event.values)):
        return math.inf
    size = math.dist(expected.values, [0.0] * len(expected.values))
    far = math.dist(expected.values, event.values)
    if math.isnan(far):  # both or neither
        alike = [math.isnan(a) == math.isnan(b) for a, b in zip(expected.values, event.values, strict=True)]
        return 0.0 if all(alike) else math.inf
    return far / size if size else (0.0 if far == 0.0 else math.inf)


def parted(expected: Sequence[Event], events: Sequence[Event]) -> tuple[Event, Event] | None:
    """The first pair that differs by more than rounding, in two courses of one process; None if there is
    none as far as both go.
    """
    for one, other in zip(expected, events, strict=False):
        far = apart(one, other)
        if far > ANOTHER["float64"]:
            return one, other
        if far > DRIFTED["float64"]:
            break
    return None
