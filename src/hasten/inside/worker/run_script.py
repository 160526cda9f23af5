"""Run the user's script as Python would: as ``__main__``, with its own argv, folder and traceback."""

from __future__ import annotations

import builtins
import os
import runpy
import signal
import sys
import threading
import traceback
import types
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType

from ...saying import say
from ..package import INSIDE
from .names import give_way
from .notebook import run_notebook


def become_main(path: str) -> types.ModuleType:
    """A fresh ``__main__`` for the script; ours is set aside, so that pickles name the script's classes."""
    module = types.ModuleType("__main__")
    module.__file__ = path
    module.__dict__["__builtins__"] = builtins
    module.__dict__["__cached__"] = None
    module.__spec__ = None
    sys.modules["__hasten_worker__"] = sys.modules["__main__"]
    sys.modules["__main__"] = module
    return module


def run(argv: Sequence[str], module: bool = False) -> None:
    """Execute ``argv[0]`` - a script, a notebook or with ``module`` a module's name - with ``argv[1:]``
    as its arguments. What it raises passes through.
    """
    if module:
        run_module(argv)
    else:
        run_script(argv)


def run_to_the_end(argv: Sequence[str], module: bool, finish: Callable[[], None]) -> None:
    """``run``, until all threads have ended that Python waits for. ``finish`` is called last, if the script
    ended by itself, and may still fail it.
    """
    try:
        run(argv, module)
        wait_for_threads()
    except SystemExit:
        finish()
        raise
    finish()


def run_module(argv: Sequence[str]) -> None:
    """Like ``python -m argv[0]``."""
    sys.argv = list(argv)
    sys.path.insert(0, os.getcwd())
    give_way()
    runpy.run_module(argv[0], {"__builtins__": builtins}, run_name="__main__", alter_sys=True)


def run_script(argv: Sequence[str]) -> None:
    """Like ``python argv[0]``."""
    path = os.path.join(os.getcwd(), argv[0])  # like Python's own __file__: still valid after a chdir
    sys.argv = list(argv)
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    give_way()
    module = become_main(path)
    if path.endswith(".ipynb"):
        run_notebook(path, module)
        return
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    exec(code, module.__dict__)


def wait_for_threads() -> None:
    """Return when all threads that Python waits for at exit have ended. Those of a pool wait for more work:
    what ``threading`` calls first tells them to end.
    """
    asked: list[Callable[[], object]] = getattr(threading, "_threading_atexits", [])
    while asked:
        try:
            asked.pop()()
        except Exception:
            say(traceback.format_exc())  # Python goes on, too
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.current_thread():
            thread.join()


def hide_our_frames(error: BaseException) -> None:
    """Remove our own frames from the tracebacks of ``error`` and its causes: they are not the user's
    business.
    """
    cleaned: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        error_now = waiting.pop()
        if error_now is not None and id(error_now) not in cleaned:
            cleaned.add(id(error_now))
            error_now.__traceback__ = _without_our_frames(error_now.__traceback__)
            waiting += [error_now.__cause__, error_now.__context__]


def _without_our_frames(trace: TracebackType | None) -> TracebackType | None:
    """Without the frames that led to the script, and without any of ours if the error is the script's. An
    error in our own code keeps them.
    """
    while trace is not None and _is_ours(trace):
        trace = trace.tb_next
    entries = []
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    if not entries or _is_ours(entries[-1]):
        return entries[0] if entries else None
    kept: TracebackType | None = None
    for entry in reversed(entries):
        if not _is_ours(entry):
            kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept


def _is_ours(entry: TracebackType) -> bool:
    return os.path.abspath(entry.tb_frame.f_code.co_filename).startswith(INSIDE + os.sep)


def show_as_python_does(error: BaseException) -> None:
    """Report ``error`` as the interpreter would without us. Reports nothing for SystemExit."""
    if isinstance(error, SystemExit):
        return
    hide_our_frames(error)
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except Exception:  # the script's own hook fails, too
        sys.__excepthook__(type(error), error, error.__traceback__)
    with suppress(Exception):  # the script may have replaced it
        sys.stderr.flush()


def die_as_python_does(error: BaseException) -> None:
    """End the process as the interpreter would after showing ``error``."""
    if isinstance(error, SystemExit):
        raise error
    if isinstance(error, KeyboardInterrupt):
        sys.stdout.flush()
        sys.stderr.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    raise SystemExit(1)
