"""A stretch of a run, from one thing that was seen to the next: the timeline gives it to a part."""

from __future__ import annotations

from dataclasses import dataclass

GAP, FIRST, REST, EVALUATION = "gap", "first", "rest", "evaluation"
"""Kinds of stretch: after a step or an evaluation; from a loader's beginning to its first batch; with a batch
or a forward pass; an evaluation.
"""


WaitsSeen = dict[tuple[str, str], list[float]]
"""(what, where) -> calls, seconds. One entry a line: objects that are kept for each call would make Python
collect garbage, which would be told of the script.
"""


@dataclass(slots=True)
class Stretch:
    kind: str
    seconds: float
    where: str = ""
    batches: int | None = None  # that the loader which began will give
    source: int = 0  # its pass
    samples: int = 0
    trained: bool = False  # a backward pass ran in it
    over: bool = False  # an evaluation whose loader had none left
    gradients: bool = False  # an evaluation that computed them
    waits: WaitsSeen | None = None
