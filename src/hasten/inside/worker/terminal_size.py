"""The size of the user's terminal, for a script whose output goes to files in a trial."""

from __future__ import annotations

import os
from collections.abc import Callable

from ..seams import Seams

_OUTPUT = (1, 2)


def tell_size(size: tuple[int, ...]) -> None:
    """From now on, ``os.get_terminal_size`` returns ``size`` for standard output and error, which are files
    in a trial. An empty one changes nothing.
    """
    if not size:
        return

    def make(original: Callable[[int], os.terminal_size]) -> Callable[..., os.terminal_size]:
        def get_terminal_size(descriptor: int = 1, /) -> os.terminal_size:
            try:
                return original(descriptor)
            except OSError:
                if descriptor not in _OUTPUT:
                    raise
                return os.terminal_size(size)

        return get_terminal_size

    Seams().replace(os, "get_terminal_size", make)
