"""When a step on a GPU is over: the script runs ahead of it, and its own clock tells of launches only."""

from __future__ import annotations

from typing import Any


class Pace:
    """Called at a step's end, waits for the end of the step before on the devices trained on.

    So steps end as far apart as the GPU finishes them, while the script prepares one step beside the one that
    the GPU computes, as it does unwatched; waiting for each step's own end would forbid that, and time the
    launches of a step in addition to its work. At most one step is on its way when clocks are read.

    Source: https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution
    """

    def __init__(self, cuda: Any, devices: set[Any]) -> None:
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
