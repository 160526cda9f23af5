"""A stretch of a run, from one thing that was seen to the next: the timeline gives it to a part."""

from __future__ import annotations

from dataclasses import dataclass

GAP, FIRST, REST, EVALUATION = "gap", "first", "rest", "evaluation"
"""Kinds of stretch: after a step or an evaluation; from a loader's beginning to its first batch; with a batch
or a forward pass; an evaluation.
"""


_MANY_PASSES = 8  # of a rollout
_FEW = 4  # times as many samples go into a training step as into a rollout's pass, at least

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
    passes: int = 0  # forward passes of an evaluation for which no loader began
    most: int = 0  # samples in the largest of these

    def is_rollout(self, trained_on: int) -> bool:
        """Whether it looks like what a training collects to learn from, an evaluation though it may seem:
        many passes over few observations each, or over single ones. ``trained_on``: the samples of the step
        that followed, if no loader gave them; else 0.
        """
        few = 0 < _FEW * self.most <= trained_on
        return few and (self.passes >= _MANY_PASSES or self.most == 1)


def loop_among(stretches: list[Stretch], source: int | None = None) -> int | None:
    """The latest loader's start, or evaluation, if nothing was trained since; that pass's, if named."""
    for at in range(len(stretches) - 1, -1, -1):
        stretch = stretches[at]
        if stretch.trained:
            return None
        if stretch.kind is EVALUATION or (stretch.kind is FIRST and source in (None, stretch.source)):
            return at
    return None


def one_evaluation(taken: list[Stretch], where: str, samples: int, gradients: bool) -> Stretch:
    """These stretches are one evaluation; ``where`` it is, if the first does not say so. ``samples``: that
    came since an earlier part of it.
    """
    first = taken[0]
    return Stretch(
        EVALUATION,
        sum(stretch.seconds for stretch in taken),
        first.where or where,
        samples=first.samples + samples,
        gradients=gradients or first.gradients,
        over=first.over,
        passes=first.passes,
        most=first.most,
    )
