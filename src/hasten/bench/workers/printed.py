"""What another training prints against what one prints, line by line: several ranks, or one under a plan."""

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
_OF_GLOO = "[Gloo] Rank "  # so begins what Gloo prints in torch 2.9 where ranks connect
_FINE_DIGITS = 1.5  # of trainings in float64: of the last digit, by which what is rounded may differ
_FINE_ROUNDED = 1e-6  # relative: such numbers drift apart
_FINE_ANOTHER = 1e-5


def difference(
    alone: Sequence[str], together: Sequence[str], again: Sequence[str] = (), *, fine: bool = False
) -> str:
    """The first line that is not the same in words, or in numbers that are no times; "" if there is none.
    ``again``: what one process printed another time; a number that is not the same there counts for nothing.
    ``fine``: both trained in float64, so what is printed is equal but for its last digit.

    Only lines that both printed are compared: neither was waited for to its end. Trainings that differ by
    rounding drift apart in the end, gradually; a number that is another by its meaning is so at once. So the
    first that has drifted by a little ends the comparison.
    """
    together = without_gloo(together)
    rounded, another = (_FINE_ROUNDED, _FINE_ANOTHER) if fine else (_ROUNDED, _ANOTHER)
    for place, (one, other) in enumerate(zip(alone, together, strict=False)):
        found = apart(one, other, again[place] if place < len(again) else one, fine)
        if found > another:
            return f"ranks print {_short(other)!r} where one process prints {_short(one)!r}"
        if found > rounded:
            break
    return ""


def without_gloo(lines: Sequence[str]) -> list[str]:
    """Those that the script printed."""
    return [line for line in lines if not line.startswith(_OF_GLOO)]


def apart(one: str, other: str, again: str, fine: bool = False) -> float:
    """The largest relative difference of two lines' numbers; infinite if their words differ. ``again`` and
    ``fine`` as in ``difference``.
    """
    one, other, again = (_CLOCK.sub("", line) for line in (one, other, again))
    if _words_of(one) != _words_of(other):
        return math.inf if _words_of(one) == _words_of(again) else 0.0
    repeated = [m[0] for m in _NUMBER.finditer(again)] if _words_of(one) == _words_of(again) else []
    farthest = 0.0
    for place, (a, b) in enumerate(zip(_NUMBER.finditer(one), _NUMBER.finditer(other), strict=True)):
        steady = place < len(repeated) and repeated[place] == a[0]
        if steady and not _is_time(one, a):
            farthest = max(farthest, _difference(a[0], b[0], fine))
    return farthest


def _words_of(line: str) -> list[str]:
    return _NUMBER.sub("#", line).split()


def _difference(a: str, b: str, fine: bool) -> float:
    """Relative; 0 if the digits that are printed allow it to be none."""
    apart, largest = abs(float(a) - float(b)), max(abs(float(a)), abs(float(b)))
    least = _FINE_DIGITS * min(_last_digit(a), _last_digit(b)) if fine else _ABSOLUTE
    return apart / largest if apart > least else 0.0


def _last_digit(text: str) -> float:
    """What the last digit of a printed number stands for."""
    mantissa, _, exponent = text.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return float(10.0 ** (int(exponent or 0) - decimals))


def _is_time(line: str, found: re.Match[str]) -> bool:
    return bool(_UNIT.match(line, found.end()) or _OF_TIME.search(line[: found.start()]))


def _short(line: str, most: int = 80) -> str:
    return line if len(line) <= most else f"{line[:most]}..."
