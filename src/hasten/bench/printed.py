"""What several ranks print against what one process prints, line by line."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_UNIT = re.compile(r"\s*(?:s|sec|secs|seconds?|ms|us|min|minutes?|h|hours?|[a-z]+/s(?:ec)?|[KMG]i?B)\b|\s*/s")
_CLOCK = re.compile(r"\d+(?:[-:/]\d+)+(?:[.,]\d+)?")  # dates, times of day, "3/10" of a progress bar
_OF_TIME = re.compile(r"(?:time|took|elapsed|eta|speed|throughput|duration|second)\w*\W*$", re.IGNORECASE)
_ABSOLUTE = 2e-3  # what is printed is rounded, too
_ROUNDED = 0.01  # relative
_ANOTHER = 0.1


def difference(alone: Sequence[str], together: Sequence[str]) -> str:
    """The first line that is not the same in words, or in numbers that are no times; "" where there is none.

    Only lines that both printed are compared: neither was waited for to its end. Trainings that differ by
    rounding drift apart in the end, by and by; a number that is another by its meaning is so at once. So the
    first that has drifted by a little ends the comparison.
    """
    for one, other in zip(alone, together, strict=False):
        apart = _apart(one, other)
        if apart > _ANOTHER:
            return f"ranks print {_short(other)!r} where one process prints {_short(one)!r}"
        if apart > _ROUNDED:
            break
    return ""


def _apart(one: str, other: str) -> float:
    """The largest relative difference of two lines' numbers; infinite where their words differ."""
    one, other = _CLOCK.sub("", one), _CLOCK.sub("", other)
    if _NUMBER.sub("#", one).split() != _NUMBER.sub("#", other).split():
        return math.inf
    pairs = zip(_NUMBER.finditer(one), _NUMBER.finditer(other), strict=True)
    return max((_difference(float(a[0]), float(b[0])) for a, b in pairs if not _is_time(one, a)), default=0.0)


def _difference(a: float, b: float) -> float:
    return abs(a - b) / max(abs(a), abs(b)) if abs(a - b) > _ABSOLUTE else 0.0


def _is_time(line: str, found: re.Match[str]) -> bool:
    return bool(_UNIT.match(line, found.end()) or _OF_TIME.search(line[: found.start()]))


def _short(line: str, most: int = 80) -> str:
    return line if len(line) <= most else f"{line[:most]}..."
