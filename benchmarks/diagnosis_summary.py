"""What the rows of ``benchmarks.diagnosis`` say: which first causes are right, and which bounds hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]

LEAST_SHARE = 0.25  # of an epoch, that a plant must truly take to be judged
ENOUGH = 0.95  # of the first causes that must be right
NOISE = 0.05  # of an epoch, by which a bound may be less than the measured share


def summary(rows: Sequence[Row]) -> str:
    """A table in Markdown, of the newest row of each script."""
    judged = newest(rows)
    if not judged:
        return "None have been measured yet: `python -m benchmarks.diagnosis` does."
    lines = [
        "| planted | true share of an epoch | first cause reported | its bound | right | bound holds |",
        "|---|---|---|---|---|---|",
        *map(_line, judged),
        "",
        _in_words(judged),
    ]
    return "\n".join(lines)


def newest(rows: Sequence[Row]) -> list[Row]:
    """The last row of each script, in the order in which the scripts came first."""
    return list({row["case"]: row for row in rows}.values())


def right_enough(rows: Sequence[Row]) -> bool:
    """Of the plants that truly take a large share."""
    judged = [row for row in newest(rows) if counts(row)]
    right = sum(is_right(row) for row in judged)
    return right >= ENOUGH * len(judged)


def counts(row: Row) -> bool:
    return bool(row["true_share"] >= LEAST_SHARE)


def is_right(row: Row) -> bool:
    first = row["causes"][0]["name"] if row["causes"] else ""
    return first in list[str](row["right"])


def holds(row: Row) -> bool:
    """No cure of the planted cause can give more than is said."""
    return bound(row) >= float(row["true_share"]) - NOISE


def bound(row: Row) -> float:
    """That is told of the planted cause; 0 where it is not told of."""
    return max((_most(cause) for cause in row["causes"] if cause["name"] in row["right"]), default=0.0)


def _most(cause: Row) -> float:
    """Rows of before a cause had a bound of its own have its share."""
    told = cause.get("bound")
    return float(cause["share"] if told is None else told)


def _line(row: Row) -> str:
    first = row["causes"][0]["name"] if row["causes"] else "none"
    if not counts(row):
        return f"| {_words(row)} | {row['true_share']:.0%} | {first} | {bound(row):.0%} | too small here | |"
    answers = [f"**{word}**" if word == "no" else word for word in map(_yes, (is_right(row), holds(row)))]
    return f"| {_words(row)} | {row['true_share']:.0%} | {first} | {bound(row):.0%} | {' | '.join(answers)} |"


def _words(row: Row) -> str:
    return str(row["case"]).replace("_", " ")


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


def _in_words(rows: Sequence[Row]) -> str:
    judged = [row for row in rows if counts(row)]
    right, held = sum(map(is_right, judged)), sum(map(holds, judged))
    made = sorted({f"{row['machine']}, torch {row['torch']}" for row in rows})
    return (
        f"Of {len(judged)} plants that take {LEAST_SHARE:.0%} of an epoch or more, {right} are the first "
        f"cause reported, and the bound of {held} holds (to {NOISE:.0%} of an epoch). "
        f"Measured on {'; '.join(made)}."
    )
