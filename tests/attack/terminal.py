"""hasten at a terminal of its own, as a user has it: what is typed there, and what is shown."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ..cli.conftest import Project, wait_until
from ..patience import PATIENCE_SECONDS

LINES, COLUMNS = 33, 101


class AtTerminal:
    """A program that leads a session at a new terminal. Use it as a context: it is killed at the end."""

    def __init__(self, project: Project, *words: str, stdin: int | None = None) -> None:
        """``words`` are those of a Python; ``stdin`` in place of the terminal."""
        self.ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self.settings = termios.tcgetattr(self.theirs)
        self._said = bytearray()
        environment = {**project.environment, "TERM": "xterm"}
        for name in ("COLUMNS", "LINES"):  # which go before what the terminal says
            environment.pop(name, None)
        self.process = subprocess.Popen(
            [sys.executable, *words],
            cwd=project.folder,
            env=environment,
            stdin=self.theirs if stdin is None else stdin,
            stdout=self.theirs,
            stderr=self.theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(1, termios.TIOCSCTTY, 0),
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def said(self) -> str:
        return self._said.decode(errors="replace").replace("\r\n", "\n")

    def until(self, condition: Callable[[], bool]) -> bool:
        """Wait for that, or for the end; whether it came."""
        wait_until(lambda: condition() or self.process.poll() is not None)
        return condition()

    def until_it_says(self, text: str) -> bool:
        return self.until(lambda: text in self.said)

    def type(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    def hang_up(self) -> None:
        """The terminal's window is closed."""
        ours, self.ours = self.ours, -1
        os.close(ours)

    def end(self) -> int:
        """Its exit code; once all was said."""
        code = self.process.wait(PATIENCE_SECONDS)
        return code

    def settings_now(self) -> list[Any]:
        return termios.tcgetattr(self.theirs)

    def __enter__(self) -> AtTerminal:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        os.close(self.theirs)
        if self.ours >= 0:
            self._reader.join(PATIENCE_SECONDS)
            os.close(self.ours)

    def _read(self) -> None:
        with suppress(OSError):  # no process has it open any more
            while chunk := os.read(self.ours, 2**16):
                self._said += chunk


def at_terminal(project: Project, *words: str, stdin: int | None = None) -> AtTerminal:
    """``hasten`` with these words."""
    return AtTerminal(project, "-m", "hasten.cli.main", *words, stdin=stdin)
