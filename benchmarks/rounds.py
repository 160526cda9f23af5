"""Times of two kinds, each measured several times in each of several rounds, and the ratio of the two."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from hasten.bench.comparing.statistics import interval
from hasten.records.trial import Ratio

Rows = Sequence[Mapping[str, Any]]
"""Each with its ``round`` and ``kind``, and seconds."""


def of_rounds(rows: Rows, kind: str, seconds: str) -> list[float]:
    """The mean of each round. ``seconds``: the name under which a row has them."""
    numbers = dict.fromkeys(row["round"] for row in rows)
    return [fmean(r[seconds] for r in rows if r["round"] == n and r["kind"] == kind) for n in numbers]


def ratio_of(rows: Rows, kind: str, other: str, seconds: str) -> Ratio | None:
    """Times that ``kind`` takes as long as ``other``, and the interval over rounds; None after one round."""
    pairs = zip(of_rounds(rows, kind, seconds), of_rounds(rows, other, seconds), strict=True)
    return interval([math.log(one / two) for one, two in pairs], "rounds")
