"""What an earlier save could not write is raised after a later one, whose file is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class ThenRaises:
    """torch's writer of a file, after whose end it is raised what an earlier save could not write."""

    def __init__(self, own: Any, raise_what_failed: Callable[[], None]) -> None:
        self._own, self._raise = own, raise_what_failed

    def __enter__(self) -> Any:
        return self._own.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._own.__exit__(kind, error, trace)
        if error is None:
            self._raise()
