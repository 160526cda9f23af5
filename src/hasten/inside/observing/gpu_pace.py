"""When a step on a GPU is over: the script runs ahead of the GPU, and its clock only times the launches."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import device as Device


class Pace:
    """Called at a step's end, waits for the end of the step before on the devices trained on.

    So the time between two ends is what the GPU takes for a step, while the script can prepare the next step
    as usual. Waiting for each step's own end would prevent that, and add its launch time. At most one step is
    in flight when clocks are read.

    Source: https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution
    """

    def __init__(self, cuda: ModuleType, devices: set[Device]) -> None:
        self._cuda = cuda
        self._ends = {device: (cuda.Event(), cuda.Event()) for device in sorted(devices, key=str)}
        self._steps = 0

    def __call__(self) -> None:
        now = self._steps % 2
        for device, events in self._ends.items():
            events[now].record(self._cuda.current_stream(device))
        if self._steps:
            for events in self._ends.values():
                events[1 - now].synchronize()
        self._steps += 1
