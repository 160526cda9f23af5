"""Compares the output of two trainings line by line: several ranks, or one process under a plan."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_UNIT = re.compile(r"\s*(?:s|sec|secs|seconds?|ms|us|min|minutes?|h|hours?|[a-z]+/s(?:ec)?|[KMG]i?B)\b|\s*/s")
_CLOCK = re.compile(r"\d+(?:(?:/\d+){2,}|[-:]\d+)(?:[-:]\d+)*(?:[.,]\d+)?")  # dates, times of day
_BAR = re.compile(r"(%\|[^|]*\|)\s*\d+/\d+|\d+/\d+(?=[\s\[]+\d+:\d\d)")  # "3/10" of a progress bar
_OF_TIME = re.compile(r"(?:time|took|elapsed|eta|speed|throughput|duration|second)\w*\W*$", re.IGNORECASE)
_ABSOLUTE = 2e-3  # what is printed is rounded, too
_ROUNDED = 0.01  # relative
_ANOTHER = 0.1
_OF_GLOO = "[Gloo] Rank "  # prefix of Gloo's output in torch 2.9 when ranks connect
_FINE_DIGITS = 1.5  # for trainings in float64: units of the last digit by which rounded numbers may differ
_FINE_ROUNDED = 1e-6  # relative: such numbers drift apart
_FINE_ANOTHER = 1e-5


@dataclass(frozen=True)
class Cut:
    """Of a batch's ``whole`` samples, rank 0 trains on ``part``."""

    whole: int
    part: int

    def counts(self, alone: str, together: str) -> bool:
        """Whether two printed numbers can be as many batches: in samples of one process, and of rank 0."""
        digits = alone.isdigit() and together.isdigit()
        return digits and int(alone) * self.part == int(together) * self.whole


def difference(
    alone: Sequence[str],
    together: Sequence[str],
    again: Sequence[str] = (),
    *,
    fine: bool = False,
    cut: Cut | None = None,
) -> str:
    """The first line that differs in words, or in numbers that are not times; "" for none. ``again``: what
    one process printed another time; numbers that differ there do not count. ``fine``: both trained in
    float64, so output is equal except for its last digit. ``cut``: what counts samples is no difference.

    Only lines that both printed are compared: neither was waited for to its end. Trainings that differ by
    rounding drift apart gradually; a number with a different meaning differs at once. So the first number
    that has drifted a little ends the comparison.
    """
    together = without_gloo(together)
    rounded, another = (_FINE_ROUNDED, _FINE_ANOTHER) if fine else (_ROUNDED, _ANOTHER)
    for place, (one, other) in enumerate(zip(alone, together, strict=False)):
        found = apart(one, other, again[place] if place < len(again) else one, fine, cut)
        if found > another:
            return f"ranks print {_short(other)!r} where one process prints {_short(one)!r}"
        if found > rounded:
            break
    return ""


def samples_counted(alone: Sequence[str], together: Sequence[str], cut: Cut) -> str:
    """The first line that counts samples of rank 0's part, in words; "" for none."""
    for one, other in zip(alone, without_gloo(together), strict=False):
        pairs = zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=False)
        if _words_of(one) == _words_of(other) and any(a != b and cut.counts(a, b) for a, b in pairs):
            return f"{_short(other)!r} where one process prints {_short(one)!r}"
    return ""


def without_gloo(lines: Sequence[str]) -> list[str]:
    """The lines that the script printed."""
    return [line for line in lines if not line.startswith(_OF_GLOO)]


def apart(one: str, other: str, again: str, fine: bool = False, cut: Cut | None = None) -> float:
    """The largest relative difference of two lines' numbers; infinite if their words differ. ``again``,
    ``fine`` and ``cut`` as in ``difference``.
    """
    one, other, again = (_CLOCK.sub("", _BAR.sub(r"\1", line)) for line in (one, other, again))
    if _words_of(one) != _words_of(other):
        return math.inf if _words_of(one) == _words_of(again) else 0.0
    repeated = [m[0] for m in _NUMBER.finditer(again)] if _words_of(one) == _words_of(again) else []
    farthest = 0.0
    for place, (a, b) in enumerate(zip(_NUMBER.finditer(one), _NUMBER.finditer(other), strict=True)):
        steady = place < len(repeated) and repeated[place] == a[0]
        if steady and not _is_time(one, a) and not (cut and cut.counts(a[0], b[0])):
            farthest = max(farthest, _difference(a[0], b[0], fine))
    return farthest


def _words_of(line: str) -> list[str]:
    return _NUMBER.sub("#", line).split()


def _difference(a: str, b: str, fine: bool) -> float:
    """Relative; 0 if the printed digits allow them to be equal."""
    apart, largest = abs(float(a) - float(b)), max(abs(float(a)), abs(float(b)))
    least = _FINE_DIGITS * min(_last_digit(a), _last_digit(b)) if fine else _ABSOLUTE
    return apart / largest if apart > least else 0.0


def _last_digit(text: str) -> float:
    """The value of a unit in the last printed digit."""
    mantissa, _, exponent = text.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return float(10.0 ** (int(exponent or 0) - decimals))


def _is_time(line: str, found: re.Match[str]) -> bool:
    return bool(_UNIT.match(line, found.end()) or _OF_TIME.search(line[: found.start()]))


def _short(line: str, most: int = 80) -> str:
    return line if len(line) <= most else f"{line[:most]}..."
