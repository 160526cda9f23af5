"""Raises the error of an earlier save after a later one, whose file is complete by then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class ThenRaises:
    """Wraps torch's file writer, and raises an earlier save's error at its end."""

    def __init__(self, own: Any, raise_what_failed: Callable[[], None]) -> None:
        self._own, self._raise = own, raise_what_failed

    def __enter__(self) -> Any:
        return self._own.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._own.__exit__(kind, error, trace)
        if error is None:
            self._raise()
