"""Reads what a worker prints, as it prints it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

from ... import safe_files

Heard = Callable[[bytes], None]


class Tee(threading.Thread):
    """Reads ``pipe`` to its end: everything goes into ``file``, each line also to ``heard``, in this thread.

    A carriage return ends a line, too: progress bars write nothing else.
    """

    def __init__(self, pipe: IO[bytes], file: Path | None, heard: Heard) -> None:
        super().__init__(daemon=True)
        self._pipe = pipe
        self._file = file
        self._heard = heard
        self.start()

    def run(self) -> None:
        rest = b""
        with self._pipe, self._kept() as file:
            while chunk := os.read(self._pipe.fileno(), 2**16):
                file.write(chunk)
                *lines, rest = (rest + chunk).replace(b"\r", b"\n").split(b"\n")
                for line in lines:
                    self._heard(line)
        if rest:
            self._heard(rest)

    def _kept(self) -> IO[bytes]:
        return open(os.devnull, "ab") if self._file is None else safe_files.append(self._file)
