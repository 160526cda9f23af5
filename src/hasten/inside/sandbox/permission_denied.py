"""Names the file if an error only says "Permission denied", as in C++ code (torch.save)."""

from __future__ import annotations

import os
from types import TracebackType

_CALLED = ("name", "path", "filename", "file", "f")  # names of the file variable in functions that write
_BARE = "Permission denied"


def naming_file(detail: str, error: BaseException) -> str:
    """``detail``, the text of ``error``, with the file added the way Python does: the one that the innermost
    function with a variable for a file has.
    """
    if not detail.rstrip().endswith(_BARE):
        return detail
    file = _innermost_file(error.__traceback__)
    return f"{detail.rstrip()}: {file!r}\n" if file else detail


def _innermost_file(step: TracebackType | None) -> str:
    found = ""
    while step is not None:
        for name in _CALLED:
            value = step.tb_frame.f_locals.get(name)
            if isinstance(value, (str, os.PathLike)):
                found = os.fsdecode(value)
                break
        step = step.tb_next
    return found
