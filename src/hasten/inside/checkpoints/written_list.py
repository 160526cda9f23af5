"""Which files a run wrote, and after which checkpoint: told at once, as it may be killed at any time."""

from __future__ import annotations

import json
import os
from contextlib import suppress

_NAME = "written"


class WrittenList:
    """Paths in a file beside the checkpoints, a line each. A position in it says when."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, _NAME)
        self._descriptor = -1
        self._told: set[str] = set()  # since the last checkpoint
        self._home = os.getpid()

    def clear(self) -> None:
        """A training begins."""
        with suppress(FileNotFoundError):
            os.unlink(self._path)

    def add(self, path: str) -> None:
        if path in self._told or os.getpid() != self._home:
            return
        self._told.add(path)
        with suppress(OSError):  # that the folder is gone, or the disk full, others say
            if self._descriptor < 0:
                flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
                self._descriptor = os.open(self._path, flags, 0o600)
            os.write(self._descriptor, json.dumps(path).encode() + b"\n")

    def position(self) -> int:
        """What is added from here on was written after a checkpoint that is taken now."""
        self._told.clear()
        try:
            return os.stat(self._path).st_size
        except OSError:
            return 0

    def since(self, position: int) -> set[str]:
        try:
            with open(self._path, "rb") as file:
                file.seek(position)
                lines = file.read().split(b"\n")
        except OSError:
            return set()
        return {json.loads(line) for line in lines[:-1]}  # a line that was cut has no end
