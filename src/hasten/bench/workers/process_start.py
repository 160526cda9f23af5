"""Start a worker's process so that nothing can interrupt between its start and recording it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO

from .worker_output import Output, open_output

START_SECONDS = 600.0  # a script may take long to prepare its first step


def start_process(
    argv: Sequence[str], environment: Mapping[str, str], descriptors: Sequence[int], output: Output
) -> subprocess.Popen[bytes]:
    """Starts in its own session. It inherits ``descriptors``."""
    process: subprocess.Popen[bytes] | None = None
    with ExitStack() as files:
        stdout = open_output(output.stdout) if output.heard is None else None
        stderr = open_output(output.stderr)
        for file in filter(None, (stdout, stderr)):
            files.enter_context(file)
        out: IO[bytes] | int | None = sys.stderr.fileno() if output.stdout_to_stderr else stdout
        if output.heard is not None:
            out = subprocess.PIPE
        try:
            with signals_held():
                process = subprocess.Popen(
                    argv, env=environment, pass_fds=descriptors,
                    stdin=output.given.descriptor if output.given else subprocess.DEVNULL,
                    stdout=out, stderr=stderr, start_new_session=True,
                )  # fmt: skip
        except BaseException:
            if process is not None:
                process.kill()
                process.wait()
            raise
        finally:
            if output.given is not None:
                output.given.serve()
    return process


@contextmanager
def signals_held() -> Iterator[None]:
    """Signals that ask for an end wait until the block ends: a process not recorded yet could not be
    stopped.
    """
    came: list[int] = []
    held = {}
    if threading.current_thread() is threading.main_thread():
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
        held = {n: handler for n in numbers if callable(handler := signal.getsignal(n))}
    for number in held:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
        for late in came:
            signal.raise_signal(late)
