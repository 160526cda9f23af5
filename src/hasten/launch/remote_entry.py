"""Runs on another host, at the far end of ssh: starts one program there, and ends it when we are gone.

What to start comes as one line of JSON on standard input, so that no shell reads it and no list of processes
shows it. Standard input then stays open as long as whoever asked lives; its end is the sign to end.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

_PATIENCE_SECONDS = 10.0  # between SIGTERM and SIGKILL
_MOST_BYTES = 2**22
_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def main() -> int:
    """The program's exit code; 2 if it cannot be started."""
    from hasten.inside.process.orphans import adopt_orphans, end_orphans
    from hasten.saying import say

    told = json.loads(sys.stdin.buffer.readline(_MOST_BYTES))
    adopt_orphans()
    try:
        os.chdir(told["folder"])
        environment = {**os.environ, **told["environment"]}
        process = subprocess.Popen(
            told["argv"], env=environment, stdin=subprocess.DEVNULL, start_new_session=True
        )
    except OSError as error:
        host = os.uname().nodename
        say(
            f"hasten: on {host!r}: {error.strerror}: {error.filename!r}. Every host needs hasten and the "
            "script's folder at the same places, as on a shared file system"
        )
        return 2
    asked = threading.Event()

    def end(number: int = 0, frame: FrameType | None = None) -> None:
        asked.set()
        with suppress(ProcessLookupError):
            process.terminate()

    for number in _ENDING:
        signal.signal(number, end)
    threading.Thread(target=_watch, args=(end,), daemon=True).start()
    code = _waited(process, asked)
    end_orphans()
    return 128 - code if code < 0 else code


def _watch(end: Callable[[], None]) -> None:
    """Calls ``end`` when the other end of standard input is closed."""
    while os.read(0, 2**16):
        pass
    end()


def _waited(process: subprocess.Popen[bytes], asked: threading.Event) -> int:
    """The exit code; where an end was asked for, it is killed after a while."""
    threading.Thread(target=_lose_patience, args=(process, asked), daemon=True).start()
    return process.wait()


def _lose_patience(process: subprocess.Popen[bytes], asked: threading.Event) -> None:
    asked.wait()
    try:
        process.wait(_PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


if __name__ == "__main__":
    from entry import find_ourselves  # type: ignore[import-not-found]

    find_ourselves()
    sys.exit(main())
