"""An error with its traceback as text, whatever the script has done to Python's modules."""

from __future__ import annotations

import traceback


def trace_of(error: BaseException) -> str:
    """As Python shows it. If the script has removed what that needs (Python 3.13 imports while formatting,
    and fails after ``sys.modules.clear()``), without source lines and without the error's causes.
    """
    try:
        return "".join(traceback.format_exception(error))
    except Exception:
        return _by_hand(error)


def _by_hand(error: BaseException) -> str:
    text, trace = "Traceback (most recent call last):\n", error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        text += f'  File "{code.co_filename}", line {trace.tb_lineno}, in {code.co_name}\n'
        trace = trace.tb_next
    try:
        said = str(error)
    except Exception:
        said = "<exception str() failed>"  # as Python prints it
    return f"{text}{type(error).__name__}: {said}\n" if said else f"{text}{type(error).__name__}\n"
