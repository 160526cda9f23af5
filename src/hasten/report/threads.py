"""Step time by number of threads, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from ..records.curve import ThreadCurve
from ..units import seconds_words
from .reasons import missing_words
from .words import with_words

_WIDTH = 40  # characters of the longest bar


def thread_lines(curve: ThreadCurve) -> list[str]:
    """A bar for each number of threads, which ones are missing and why, and where more stop helping.

    Empty if there is only the usual number, or no time for more.
    """
    if len(curve.measured) < 2 and not any(point.failed for point in curve.missing):
        return []
    others = f", with {with_words(curve.together_with)}" if curve.together_with else ""
    heading = f"Time of a step by number of threads{others}:"
    return ["", heading, *_bars(curve), *_missing(curve), *_verdict(curve)]


def _bars(curve: ThreadCurve) -> Iterator[str]:
    measured = curve.measured
    slowest = max(ratio.value for _, ratio in measured)
    for point, ratio in measured:
        time = (
            seconds_words(curve.usual_seconds * ratio.value) if curve.usual_seconds else f"{ratio.value:.2f}"
        )
        marks = [
            *(["as torch chooses"] if point.threads == curve.usual else []),
            *(["hyper-threads: more threads than cores"] if point.hyperthreads else []),
        ]
        bar = "#" * max(1, round(_WIDTH * ratio.value / slowest))
        words = f"  ({', '.join(marks)})" if marks else ""
        yield f"  {point.threads:>4}  {time:>8}  {bar}{words}"


def _missing(curve: ThreadCurve) -> Iterator[str]:
    for reason, points in groupby(sorted(curve.missing, key=missing_words), missing_words):
        counts = [str(point.threads) for point in points]
        noun = "thread" if counts == ["1"] else "threads"
        yield f"  Not measured with {', '.join(counts)} {noun}: {reason}."


def _verdict(curve: ThreadCurve) -> Iterator[str]:
    certain = curve.pays_up_to
    if certain is None:
        return
    threads, s = ("1 thread", "s") if certain == 1 else (f"{certain} threads", "")
    if certain == max(point.threads for point, _ in curve.measured):
        yield f"  The largest number, {threads}, is the fastest."
    elif curve.fastest <= certain:
        yield f"  More than {threads} gain{s} nothing."
    else:
        yield f"  More than {threads} seem{s} to help, up to {curve.fastest}, but that is not certain."
