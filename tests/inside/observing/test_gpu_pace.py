"""Which events are recorded and waited for, with a stand-in for CUDA."""

from types import SimpleNamespace
from typing import Any

from hasten.inside.observing.gpu_pace import Pace


class Cuda:
    """``log`` tells what was asked of it, in order."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self._events = 0

    def Event(self) -> SimpleNamespace:
        self._events += 1
        name = f"event {self._events}"
        return SimpleNamespace(
            record=lambda stream: self.log.append(f"{name} on {stream}"),
            synchronize=lambda: self.log.append(f"wait for {name}"),
        )

    def current_stream(self, device: str) -> str:
        return f"the stream of {device}"


def made(cuda: Any, devices: Any) -> Pace:
    """Of stand-ins."""
    return Pace(cuda, devices)


def test_each_step_waits_for_the_one_before() -> None:
    cuda = Cuda()
    pace = made(cuda, {"cuda:0"})
    for _ in range(3):
        pace()
    stream = "on the stream of cuda:0"
    assert cuda.log == [
        f"event 1 {stream}",
        *(f"event 2 {stream}", "wait for event 1"),
        *(f"event 1 {stream}", "wait for event 2"),
    ]


def test_all_devices_are_waited_for() -> None:
    cuda = Cuda()
    pace = made(cuda, {"cuda:1", "cuda:0"})
    pace()
    pace()
    assert cuda.log[-2:] == ["wait for event 1", "wait for event 3"]
    assert cuda.log.index("event 4 on the stream of cuda:1") < cuda.log.index("wait for event 1")
