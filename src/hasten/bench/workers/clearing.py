"""Delete a temporary folder even if we are killed: a separate process waits for our end.

It is in a session of its own, so that a terminal's signals do not reach it, and runs by path like a worker
does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

_LEAST_SECONDS, _TRIES = 0.01, 12  # each waits twice as long: a process being killed may still be writing


class Clearing:
    """What ``covers`` names is deleted when this process ends, in any way. ``close`` it once that is gone."""

    def __init__(self) -> None:
        waited_for, self._held = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(Path(__file__).resolve())],
                stdin=waited_for, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                start_new_session=True, cwd="/",
            )  # fmt: skip
        finally:
            os.close(waited_for)

    def covers(self, folder: str) -> None:
        """``folder``: an absolute path. Several may be named, one after another."""
        os.write(self._held, os.fsencode(folder) + b"\0")  # far less than a pipe holds

    def close(self) -> None:
        """Returns once the folder is gone, as far as this user may remove it."""
        os.close(self._held)
        self._process.wait()


def _main() -> None:
    with open(0, "rb") as pipe:
        named = os.fsdecode(pipe.read()).split("\0")  # when the process at the other end is gone
    for folder in filter(None, named):
        _clear(folder)


def _clear(folder: str) -> None:
    wait = _LEAST_SECONDS
    for _ in range(_TRIES):
        if not os.path.lexists(folder):
            return
        _remove(folder)
        time.sleep(wait)
        wait *= 2


def _remove(folder: str) -> None:
    package = Path(__file__).resolve().parents[2]
    if str(package.parent) not in sys.path:
        sys.path.append(str(package.parent))
    from hasten.inside.sandbox.overlay_folders import remove_layers

    remove_layers(folder)


if __name__ == "__main__":
    _main()
