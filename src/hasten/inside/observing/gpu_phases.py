"""A step's phases by the GPU's own clock: the CPU's shows when work was launched, not when it ran."""

from __future__ import annotations

from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import device as Device
    from torch.cuda import Event

Mark = tuple[str, "Event"]
"""("+forward", an event): the phase begins there; "-forward": it ends there; "": the step begins or ends."""

PHASES = ("data", "forward", "loss", "backward", "optimizer")


class Marks:
    """Records timed events on one device's stream where the phases of a step begin and end.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.cuda.Event.html
    """

    def __init__(self, cuda: ModuleType, device: Device) -> None:
        self._cuda = cuda
        self._device = device
        self._marks: list[Mark] = []
        self.begin()

    def __call__(self, name: str) -> None:
        event = self._cuda.Event(enable_timing=True)
        event.record(self._cuda.current_stream(self._device))
        self._marks.append((name, event))

    def begin(self) -> None:
        """A step begins."""
        self._marks = []
        self("")

    def end(self) -> list[Mark]:
        """The step has ended for the script; the GPU may still compute. Returns all of its marks."""
        self("")
        return self._marks


def phases_between(marks: list[Mark], data_seconds: float) -> dict[str, float]:
    """Seconds of data, forward, loss, backward and optimizer. Waits for the last of the marks.

    The time between two marks belongs to the innermost open phase; between a forward and a backward pass it
    is the loss. Before the first forward pass, at most ``data_seconds`` belong to the loader. The
    rest belongs to no phase.
    """
    marks[-1][1].synchronize()
    seconds = dict.fromkeys((*PHASES, "evaluation"), 0.0)
    events = [event for _, event in marks]
    names = _with_evaluations([name for name, _ in marks])
    open_phases: list[str] = []
    for at, (name, following) in enumerate(pairwise(names)):
        if name.startswith("+"):
            open_phases.append(name[1:])
        elif name[1:] in open_phases:
            open_phases.remove(name[1:])
        passed = events[at].elapsed_time(events[at + 1]) / 1e3
        if open_phases:
            seconds[open_phases[-1]] += passed
        elif (name, following) == ("-forward", "+backward"):
            seconds["loss"] += passed
        elif at == 0:
            seconds["data"] += min(passed, data_seconds)
    return {phase: seconds[phase] for phase in PHASES}


def _with_evaluations(names: list[str]) -> list[str]:
    """Only the end of a forward pass shows that it was an evaluation."""
    for at, name in enumerate(names):
        if name == "-evaluation":
            began = max((i for i in range(at) if names[i] == "+forward"), default=at)
            names[began] = "+evaluation"
    return names
