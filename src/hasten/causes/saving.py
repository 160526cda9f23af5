"""The training waits while files are saved."""

from __future__ import annotations

from ..records.cause import Cause
from ..records.facts import Facts
from .of_the_run import breakdown, cause_in_run, lines

_LEAST_SHARE = 0.02
_TECHNIQUES = ("async_save",)


def look(facts: Facts) -> Cause | None:
    seen = breakdown(facts)
    if seen is None:
        return None
    part = seen.part("saving")
    files = f"{part.count} file{'s' if part.count != 1 else ''}"
    text = f"is saving {files}{lines(part)}: save less often, or less"
    return cause_in_run(facts, "saving", "saving", _LEAST_SHARE, text, _TECHNIQUES)
