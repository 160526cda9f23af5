"""How wide the user's terminal is, for a script whose output goes into files in a trial."""

from __future__ import annotations

import os
from typing import Any

from ..seams import Seams

_OUTPUT = (1, 2)


def tell_size(size: tuple[int, ...]) -> None:
    """``os.get_terminal_size`` of standard output and error, files in a trial, is ``size`` from now on; as
    it was where there is none.
    """
    if not size:
        return

    def make(original: Any) -> Any:
        def get_terminal_size(descriptor: int = 1, /) -> os.terminal_size:
            try:
                found: os.terminal_size = original(descriptor)
                return found
            except OSError:
                if descriptor not in _OUTPUT:
                    raise
                return os.terminal_size(size)

        return get_terminal_size

    Seams().replace(os, "get_terminal_size", make)
