"""What a job prints into a file, shown as it comes."""

from __future__ import annotations

import os
import sys
from contextlib import suppress


class Followed:
    """``path`` "" for none. The file may come later, or never."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._shown = 0

    def more(self) -> None:
        """Write what has come since to standard output, as it is: it is the script's own."""
        if not self._path:
            return
        with suppress(OSError):
            with open(self._path, "rb") as file:
                file.seek(self._shown)
                text = file.read()
            while text:
                written = os.write(sys.stdout.fileno(), text)
                self._shown, text = self._shown + written, text[written:]
