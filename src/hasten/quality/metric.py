"""Which number says how good a training's model is: one that the script reports, or one that it prints."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import UsageError
from ..records.quality import Metric, WholeRun

LOWER_IS_BETTER = ("loss", "error", "perplexity")  # in a metric's name
_GROUP = re.compile(r"(?<!\\)\((?!\?)|\(\?P<")
_TOLD_NAME = re.compile(r"[\w./@-]+")
_NAMED_PATTERN = re.compile(r"([A-Za-z]\w*)=(?!\()(.+)")


@dataclass(frozen=True)
class Wanted:
    """What --metric asks for: the name of a metric, a pattern for one, or the first one reported."""

    name: str = ""
    pattern: re.Pattern[str] | None = None


def wanted_metric(text: str) -> Wanted:
    """A NAME, a PATTERN with one group, or NAME=PATTERN. Raises UsageError.

    In "acc=([0-9.]+)" all of it is the pattern: the part after "=" alone would match any number.
    """
    whole = _compiled(text, text)
    if not whole.groups:
        if _TOLD_NAME.fullmatch(text):
            return Wanted(text)
        raise UsageError(
            f"--metric {text!r} is not a name, and a pattern needs a group in parentheses around the number: "
            "'accuracy ([0-9.]+)'"
        )
    named = _NAMED_PATTERN.fullmatch(text)
    name, pattern = (named[1], _compiled(named[2], text)) if named else (_name_in(text), whole)
    if pattern.groups != 1:
        raise UsageError(
            f"--metric {text!r} has {pattern.groups} groups, and one must be the number: "
            "write the others as (?:...)"
        )
    return Wanted(name, pattern)


def _compiled(pattern: str, asked: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"--metric {asked!r} is not a regular expression: {error}") from None


def _name_in(pattern: str) -> str:
    """The last word before the group: "accuracy" for "test accuracy ([0-9.]+)"."""
    group = _GROUP.search(pattern)
    before = re.sub(r"\\.|\(\?.", " ", pattern[: group.start()] if group else "")
    words = re.findall(r"[A-Za-z]\w+", before)
    return words[-1] if words else "metric"


def metric_in(run: WholeRun, wanted: Wanted, lower_is_better: bool, script: str) -> Metric:
    """The requested metric, as ``run`` reported it. Raises UsageError if it reported none.

    ``lower_is_better`` is the user's choice; without it, the metric's name decides.
    """
    name = wanted.name or next(iter(run.courses), "")
    if name not in run.courses:
        raise UsageError(_not_found(run, wanted, script))
    lower = lower_is_better or any(word in name.lower() for word in LOWER_IS_BETTER)
    return Metric(name, lower, wanted.pattern.pattern if wanted.pattern else "")


def _not_found(run: WholeRun, wanted: Wanted, script: str) -> str:
    printed = f" The last line that it printed: {run.last_line!r}." if run.last_line else ""
    if wanted.pattern is not None:
        return f"--metric {wanted.pattern.pattern!r} matched nothing that {script} printed.{printed}"
    if wanted.name and run.courses:
        return f"{script} reported no metric {wanted.name!r}; it reported {', '.join(run.courses)}"
    return (
        f"{script} reported no metric.{printed} Either the script says how good its model is,\n"
        "  import hasten\n"
        "  hasten.metric(accuracy=accuracy)\n"
        "or a regular expression with one group finds it in what the script prints:\n"
        f"  hasten verify --metric 'accuracy ([0-9.]+)' {script}"
    )
