"""The first steps after a restart were done before: what the script fetches is compared with what it was.

As far as the script's next look at a clock: from there on it may rightly fetch something else, as where it
prints every few seconds, or averages the times of its steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from . import script_journal
from .cannot import Diverged
from .heap import text_of
from .large_values import Large
from .playing import same
from .script_journal import decoded

_MOST = 1000  # values


class Repeated:
    """``tail``: the journal of these steps, as far as it was written."""

    def __init__(self, tail: bytes, recording: Any, stop: Callable[[Exception], None]) -> None:
        self._values = islice(_values(tail), _MOST)
        self._recording, self._stop = recording, stop

    def check(self, kept: object) -> None:
        for before in self._values:
            if isinstance(kept, Large):
                kept = kept.as_kept(before)
            if not same(kept, before):
                self._stop(
                    Diverged(
                        f"after the restart the script read {text_of(kept)} from a tensor, where it had read "
                        f"{text_of(before)}"
                    )
                )
            return
        self._recording.check = None


def _values(tail: bytes) -> Iterator[Any]:
    at = 0
    while at < len(tail):
        kind = tail[at : at + 1]
        try:
            value, at = decoded(tail, at + 1)
        except Diverged:
            return
        if kind == script_journal.CLOCK:
            return
        if kind == script_journal.VALUE:
            yield value
