"""What several ranks print against what one process prints, line by line."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_UNIT = re.compile(r"\s*(?:s|sec|secs|seconds?|ms|us|min|minutes?|h|hours?|[a-z]+/s(?:ec)?|[KMG]i?B)\b|\s*/s")
_CLOCK = re.compile(r"\d+(?:[-:/]\d+)+(?:[.,]\d+)?")  # dates, times of day, "3/10" of a progress bar
_OF_TIME = re.compile(r"(?:time|took|elapsed|eta|speed|throughput|duration|second)\w*\W*$", re.IGNORECASE)
_RELATIVE, _ABSOLUTE = 0.02, 2e-3  # what rounding grows to in the first steps


def difference(alone: Sequence[str], together: Sequence[str]) -> str:
    """The first line that is not the same in words, or in numbers that are no times; "" where there is none.

    Only lines that both printed are compared: neither was waited for to its end.
    """
    for one, other in zip(alone, together, strict=False):
        if not _alike(one, other):
            return f"ranks print {_short(other)!r} where one process prints {_short(one)!r}"
    return ""


def _alike(one: str, other: str) -> bool:
    one, other = _CLOCK.sub("", one), _CLOCK.sub("", other)
    if _NUMBER.sub("#", one).split() != _NUMBER.sub("#", other).split():
        return False
    pairs = zip(_NUMBER.finditer(one), _NUMBER.finditer(other), strict=True)
    return all(_close(float(a[0]), float(b[0])) or _is_time(one, a) for a, b in pairs)


def _close(a: float, b: float) -> bool:
    return abs(a - b) <= max(_ABSOLUTE, _RELATIVE * max(abs(a), abs(b)))


def _is_time(line: str, found: re.Match[str]) -> bool:
    return bool(_UNIT.match(line, found.end()) or _OF_TIME.search(line[: found.start()]))


def _short(line: str, most: int = 80) -> str:
    return line if len(line) <= most else f"{line[:most]}..."
