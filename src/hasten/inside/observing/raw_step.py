"""What is noted of a step while it is being watched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .gpu_phases import Mark, phases_between

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(slots=True)
class RawStep:
    """Times in seconds; ``losses`` are numbers, or tensors to be read later."""

    optimizer: int = 0  # which optimizer ended it: its index; -1 if there is none
    seconds: float = 0.0
    samples: int = 0  # from a loader; of several read in parallel, the one that gave most
    elements: int = 0  # numbers in the tensors from this loader or, without one, into the modules
    inputs: int = 0  # that went through the modules, if no loader gave any; 0 if unclear
    data: float = 0.0
    forward: float = 0.0
    loss: float = 0.0
    backward: float = 0.0
    update: float = 0.0
    forwards: int = 0
    backwards: int = 0
    evaluations: int = 0
    restarts: int = 0
    saves: int = 0
    last_batches: bool = False  # as in ``records.observation.Step``
    set_up: float = 0.0  # of ``seconds``: techniques' set-up
    new_model: bool = False  # as in ``records.observation.Step``
    losses: list[Tensor | float] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)  # where its phases begin and end on a GPU

    def phases(self) -> dict[str, float]:
        """Seconds of each, on the GPU if there are marks; what no seam sees is "other"."""
        seconds = {
            "data": self.data, "forward": self.forward, "loss": self.loss, "backward": self.backward,
            "optimizer": self.update,
        }  # fmt: skip
        if self.marks:
            seconds = phases_between(self.marks, self.data)
        return {**seconds, "other": max(0.0, self.seconds - sum(seconds.values()))}
