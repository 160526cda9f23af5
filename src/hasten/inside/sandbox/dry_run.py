"""Try in a forked child what cannot be undone, such as leaving a namespace."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

_GRANTED = b"granted"


def rehearse(attempt: Callable[[], object]) -> str:
    """Why ``attempt`` fails, in words, or "" if it works. This process stays as it is."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            attempt()
            os.write(writing, _GRANTED)
        except BaseException as refused:
            os.write(writing, os.fsencode(str(refused)))
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        answer = pipe.read()
    with suppress(ChildProcessError):  # if SIGCHLD is ignored, the kernel has reaped it already
        os.waitpid(child, 0)
    return "" if answer == _GRANTED else os.fsdecode(answer) or "the process that tried it died"
