"""Run the user's script as Python would: as ``__main__``, with its own argv, folder and traceback."""

from __future__ import annotations

import os
import signal
import sys
import types
from collections.abc import Sequence
from types import TracebackType


def become_main(path: str) -> types.ModuleType:
    """A fresh ``__main__`` for the script; ours is kept aside, so that pickles name the script's classes."""
    module = types.ModuleType("__main__")
    module.__file__ = path
    module.__dict__["__builtins__"] = __builtins__
    module.__dict__["__cached__"] = None
    module.__spec__ = None
    sys.modules["__hasten_worker__"] = sys.modules["__main__"]
    sys.modules["__main__"] = module
    return module


def run_script(argv: Sequence[str]) -> None:
    """Execute ``argv[0]`` with ``sys.argv = argv``. What the script raises passes through."""
    path = argv[0]
    sys.argv = list(argv)
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    module = become_main(path)
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    exec(code, module.__dict__)


def script_traceback(error: BaseException) -> TracebackType | None:
    """The error's traceback from the script's first frame on: our own frames are not the user's business."""
    trace = error.__traceback__
    here = os.path.dirname(os.path.abspath(__file__))
    while trace is not None and os.path.abspath(trace.tb_frame.f_code.co_filename).startswith(here):
        trace = trace.tb_next
    return trace


def die_as_python_does(error: BaseException) -> None:
    """Report ``error`` and end the process as the interpreter would have without us. SystemExit is re-
    raised.
    """
    if isinstance(error, SystemExit):
        raise error
    sys.excepthook(type(error), error, script_traceback(error))
    if isinstance(error, KeyboardInterrupt):
        sys.stdout.flush()
        sys.stderr.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    raise SystemExit(1)
