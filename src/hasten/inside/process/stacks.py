"""Where the script stands, told to who asks: in words, or by a signal, which a call of C's answers, too.

A rank that is one of several may keep all others waiting. Whoever ends it asks first where it stood.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import traceback
from contextlib import suppress

from ..package import INSIDE

# one that no script uses, and that is not the last, which sandboxes use
SIGNAL = signal.SIGRTMAX - 1 if sys.platform == "linux" else 0
HEADING = "most recent call first"  # in the line that faulthandler begins with


def answer() -> None:
    """From now on the signal has the main thread's stack written to standard error."""
    if SIGNAL:
        with suppress(OSError, RuntimeError, ValueError, AttributeError):  # there is no standard error
            faulthandler.register(SIGNAL, all_threads=False)


def where_it_stands() -> str:
    """The main thread's stack, the innermost call last, without what led to the script."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    calls = traceback.extract_stack(frame)
    ours = [os.path.abspath(call.filename).startswith(INSIDE + os.sep) for call in calls]
    begins = ours.index(False) if False in ours and ours[0] else 0
    while begins < len(calls) and _leads_in(calls[begins].filename):
        begins += 1
    return "".join(traceback.format_list(calls[begins:] or calls)).rstrip()


def _leads_in(path: str) -> bool:
    return path.startswith("<frozen") or os.path.abspath(path).startswith(INSIDE + os.sep)
