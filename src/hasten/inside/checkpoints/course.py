"""The course of a training through the seams: who is told of it, recording or playing back, may change."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..seams import Call


class Mode(Protocol):
    """What recording and playing back have in common. Each gets what the script calls, and returns what it
    is to get.
    """

    def fetch(self, original: Call, name: str, given: tuple[Any, ...], more: dict[str, Any]) -> Any: ...

    def forward(self, original: Call, module: Any, given: Any, more: Any) -> Any: ...

    def backward(self, original: Call, given: Any, more: Any) -> Any: ...

    def gradients(self, original: Call, given: Any, more: Any) -> Any: ...

    def step_begins(self, optimizer: Any) -> None: ...

    def step_ends(self, optimizer: Any) -> None: ...

    def batch_asked(self) -> None: ...

    def temporary_folder(self, make: Callable[[], Any]) -> Any: ...

    def clock(self, original: Call) -> Any: ...


class Course:
    """``depth`` is above zero within what is seen as one: a forward pass, an optimizer's step, the making of
    a batch, and whatever we do ourselves.
    """

    def __init__(self, torch: ModuleType | None, mode: Mode) -> None:
        self.torch = torch
        self.mode = mode
        self.depth = 0
        self.off = False
        self.drawn = 0  # a checksum of the samples that loaders have asked for so far
        self._thread = threading.get_ident()
        os.register_at_fork(after_in_child=self._end)

    def _end(self) -> None:
        """A child's course is not ours."""
        self.off = True

    def deaf(self) -> bool:
        """Whether what happens now is of no interest."""
        return self.depth > 0 or self.elsewhere()

    def elsewhere(self) -> bool:
        """Whether what happens now is in no part of the course."""
        return self.off or threading.get_ident() != self._thread

    def aside(self) -> bool:
        """Whether what happens now is in a part of the course that is not looked into."""
        return self.depth > 0 and not self.elsewhere()

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *error: object) -> None:
        self.depth -= 1
