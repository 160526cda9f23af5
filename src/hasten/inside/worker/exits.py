"""How a script that raised SystemExit ended, as a shell sees it."""

from __future__ import annotations


def exit_of(code: object) -> tuple[str, str]:
    """``code`` of SystemExit as ("completed", ""), ("exit", its number) or ("said", the text that Python
    prints for it).

    The system keeps the last eight bits of a number; anything other than a number or None is printed, and
    the exit code is 1.
    """
    if code is None:
        return "completed", ""
    if isinstance(code, int):
        kept = int(code) & 0xFF if -(2**63) <= code < 2**63 else 0xFF
        return ("exit", str(kept)) if kept else ("completed", "")
    try:
        text = str(code).strip()
    except Exception:
        text = ""
    return ("said", text) if text else ("exit", "1")
