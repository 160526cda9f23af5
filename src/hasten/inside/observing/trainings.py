"""How many trainings a script makes, one after another: derived from when each optimizer stepped."""

from __future__ import annotations

from dataclasses import dataclass

_LEAST_STEPS = 10  # of a separate training: optimizers that take turns may each step a few times in a row


@dataclass(slots=True)
class _Span:
    """From an optimizer's first step to its last, counted in all steps."""

    first: int
    last: int


class Trainings:
    """Optimizers whose steps interleave train together, like those of a GAN; one that first steps after
    another has stepped for the last time began a new training.
    """

    def __init__(self) -> None:
        self._steps = 0
        self._spans: dict[int, _Span] = {}

    def step_ended(self, optimizer: int) -> bool:
        """``optimizer``: its unique number, -1 for none. Returns whether it is its first step."""
        self._steps += 1
        span = self._spans.get(optimizer)
        if span is not None:
            span.last = self._steps
            return False
        self._spans[optimizer] = _Span(self._steps, self._steps)
        return True

    def steps(self) -> tuple[int, ...]:
        """Steps of each training so far."""
        ends: list[int] = []
        begun = 1
        for span in self._spans.values():  # by their first steps
            if (
                ends
                and span.first > ends[-1]
                and min(ends[-1] - begun, span.last - span.first) + 1 >= _LEAST_STEPS
            ):
                begun = span.first
                ends.append(span.last)
            elif ends:
                ends[-1] = max(ends[-1], span.last)
            else:
                ends.append(span.last)
        return tuple(end - before for before, end in zip((0, *ends), ends, strict=False))
