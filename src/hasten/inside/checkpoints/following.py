"""A training that is followed, so that it can be brought to the same step again."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

from ...saying import say
from . import script_journal
from .course import Course
from .large_values import LARGE, Large
from .random_numbers import torch_state
from .script_journal import Writer

_WITHOUT_LOADER = 3  # steps without a batch from a loader


class Recording:
    """``boundary`` is called between two steps, with how it is to be found again: "batch" or "step"."""

    def __init__(self, course: Callable[[], Course], writer: Writer, boundary: Callable[[str], None]) -> None:
        self._course_of, self._writer, self._boundary = course, writer, boundary
        self.steps = 0
        self.went_backward = False
        self._computed = False  # a forward pass, by this process
        self._too_large: set[tuple[str, int]] = set()  # kinds and sizes of what the journal has not
        self._since_batch = self._since_boundary = 0  # steps
        self._state: bytes | None = None  # after the last forward pass, where any drew numbers
        self.check: Callable[[object], None] | None = None  # a fetched value is the one that it was before
        self.ahead: dict[Any, Any] = {}  # by clock: what it goes on from, less what it shows
        self._failed: Callable[[Exception], None] = lambda error: None

    def torch_came(self, torch: ModuleType) -> None:
        self._torch, self._course = torch, self._course_of()

    def on_failure(self, act: Callable[[Exception], None]) -> None:
        self._failed = act

    def _add(self, kind: bytes, value: object = None) -> None:
        try:
            self._writer.add(kind, value)
        except Exception as error:
            self._failed(error)

    def fetch(self, original: Any, name: str, given: Any, more: Any) -> Any:
        with self._course:
            value = original(*given, **more)
        kept = kept_of(name, value)
        if self.check is not None:
            self.check(kept)
        self._add(script_journal.VALUE, self._fitting(kept) if isinstance(kept, Large) else kept)
        return value

    def _fitting(self, kept: Large) -> object:
        """What the journal gets of it. Before anything was computed, it will be the same again."""
        size = len(kept.data)
        if not self._computed:
            return kept.summed()
        packed = kept.packed() if (kept.kind, size) not in self._too_large else None
        if packed is not None:
            return packed
        if not self._too_large:
            say(
                f"hasten: the script fetches {size:,} bytes at once ({kept.kind}), which the journal has no "
                "room for: if they come from what is trained, this training cannot be continued from a "
                "checkpoint"
            )
        self._too_large.add((kept.kind, size))
        return kept.summed()

    def clock(self, original: Any) -> Any:
        value = original() + self.ahead.get(original, 0)
        self._add(script_journal.CLOCK, value)
        return value

    def temporary_folder(self, make: Callable[[], Any]) -> Any:
        with self._course_of():
            path = make()
        self._add(script_journal.FOLDER, path)
        return path

    def forward(self, original: Any, module: Any, given: Any, more: Any) -> Any:
        self._computed = True
        with self._course:
            before = torch_state(self._torch)
            self.settle(before)
            self._add(script_journal.FORWARD)
            result = original(*given, **more)
            after = torch_state(self._torch)
            if after != before or self._state is not None:
                self._state = after
                self._writer.open_slot()
        return result

    def settle(self, now: bytes | None = None, always: bool = False) -> None:
        """The script has drawn numbers since the last forward pass, or not. ``always``: keep its state."""
        if self._state is None:
            return
        now = torch_state(self._torch) if now is None else now
        if now != self._state or always:
            self._writer.settle(self._state)
            self._state = None
        else:
            self._writer.settle()

    def backward(self, original: Any, given: Any, more: Any) -> Any:
        with self._course:
            self._add(script_journal.BACKWARD, None if self.went_backward else loss_of(given, more))
            self.went_backward = True
            return original(*given, **more)

    def gradients(self, original: Any, given: Any, more: Any) -> Any:
        self._add(script_journal.GRADIENTS)
        with self._course:
            return original(*given, **more)

    def step_begins(self, optimizer: Any) -> None:
        return None

    def step_ends(self, optimizer: Any) -> None:
        self._add(script_journal.STEP)
        self.steps += 1
        self._since_batch += 1
        self._since_boundary += 1
        if self._since_batch > _WITHOUT_LOADER:
            self._since_boundary = 0
            self._boundary("step")

    def batch_asked(self) -> None:
        self._since_batch = 0
        if self._since_boundary:
            self._since_boundary = 0
            self._boundary("batch")
        self._add(script_journal.BATCH)


def loss_of(given: Any, more: Any) -> float | None:
    """What a backward pass begins at, where it is one number."""
    loss = given[0] if given else more.get("tensors", more.get("self"))
    if isinstance(loss, (list, tuple)) and len(loss) == 1:
        loss = loss[0]
    return float(loss.detach()) if hasattr(loss, "numel") and loss.numel() == 1 else None


def kept_of(name: str, value: Any) -> Any:
    """What is written of a fetched value."""
    if name == "numpy":
        data = value.tobytes()
        return data if len(data) <= LARGE else Large(data, f"array of {value.dtype}")
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, complex):
        return [value.real, value.imag]
    text = json.dumps(value, default=str)
    return value if len(text) <= LARGE else Large(text.encode(), "list", is_text=True)
