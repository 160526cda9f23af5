"""The first steps after a restart were done before: what the script fetches is compared with what it was.

As far as the script's next look at a clock: from there on it may rightly fetch something else, as where it
prints every few seconds, or averages the times of its steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import script_journal
from .cannot import Diverged
from .playing import same
from .script_journal import decoded

_MOST = 1000  # values


class Repeated:
    """``tail``: the journal of these steps, as far as it was written."""

    def __init__(self, tail: bytes, recording: Any, stop: Callable[[Exception], None]) -> None:
        self._values = _values(tail)
        self._recording, self._stop = recording, stop
        self._at = 0

    def check(self, kept: object) -> None:
        if self._at >= len(self._values):
            self._recording.check = None
            return
        before = self._values[self._at]
        self._at += 1
        if not same(kept, before):
            self._stop(
                Diverged(
                    f"after the restart the script read {kept} from a tensor, where it had read {before}"
                )
            )


def _values(tail: bytes) -> list[Any]:
    found: list[Any] = []
    at = 0
    while at < len(tail) and len(found) < _MOST:
        kind = tail[at : at + 1]
        try:
            value, at = decoded(tail, at + 1)
        except Diverged:
            break
        if kind == script_journal.CLOCK:
            break
        if kind == script_journal.VALUE:
            found.append(value)
    return found
