"""Files that are opened to read and write, while none is written: the script gets a copy without a name."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from .cannot import Diverged

_PREFIX = "hasten-copy-"
_MOST = 2**30  # bytes
_MAPS = Path("/proc/self/maps")


class UnnamedCopies:
    def __init__(self) -> None:
        self._copied: dict[str, str] = {}  # paths by the names that the copies had

    def opened(self, opening: Any, path: str, mode: str, given: Any, more: Any) -> Any:
        """In place of ``opening(path, mode, ...)``. Raises Diverged."""
        folder = os.path.dirname(path)
        descriptor, name = tempfile.mkstemp(
            prefix=_PREFIX, dir=folder if os.access(folder, os.W_OK) else None
        )
        os.unlink(name)
        self._copied[name] = path
        if "w" not in mode and os.path.exists(path):
            if os.path.getsize(path) > _MOST:
                raise Diverged(f"the script opens {path} to change it in place, and it is too large to copy")
            with opening(path, "rb") as file, opening(descriptor, "wb", closefd=False) as copy:
                shutil.copyfileobj(file, copy)
            os.lseek(descriptor, 0, os.SEEK_SET)
        return opening(descriptor, mode.replace("x", "w"), *given, **more)

    def check(self) -> None:
        """What is still mapped into memory would get what is written from here on. Raises Diverged."""
        if not self._copied:
            return
        maps = _MAPS.read_text(errors="surrogateescape")
        for name, path in self._copied.items():
            if name in maps:
                raise Diverged(
                    f"{path} is mapped into memory to be written to (as by numpy.memmap with the mode r+ or "
                    "w+), which cannot be gone on with: map it with the mode r where it is only read"
                )
