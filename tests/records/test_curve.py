"""Where more threads stop paying."""

from __future__ import annotations

import pytest

from hasten.records.curve import ThreadCurve, ThreadPoint
from hasten.records.plan import BASELINE
from hasten.records.trial import Ratio


def curve(*points: tuple[int, float | None]) -> ThreadCurve:
    """Threads with the ratio of their step's time, known to 5% up and down; None: not measured."""
    made = (
        ThreadPoint(threads, None if ratio is None else Ratio(ratio, 0.95 * ratio, 1.05 * ratio, 5, "pairs"))
        for threads, ratio in points
    )
    return ThreadCurve(4, BASELINE, tuple(made))


@pytest.mark.parametrize(
    ("points", "certain"),
    [
        pytest.param([(1, 3.2), (2, 1.7), (4, 1.0)], 4, id="each doubling pays"),
        pytest.param([(1, 2.0), (2, 1.05), (4, 1.0)], 2, id="four are not faster beyond doubt"),
        pytest.param([(1, 1.0), (2, 1.02), (4, 1.5)], 1, id="one is the fastest"),
        pytest.param([(1, 2.0), (2, 2.0), (4, 1.0)], 4, id="two do not pay, but four do"),
        pytest.param([(1, 2.0), (2, None), (4, 1.0), (8, None)], 4, id="of those that were measured"),
        pytest.param([(1, None), (4, 1.0)], None, id="one point is no curve"),
    ],
)
def test_up_to_how_many_threads_pay(points: list[tuple[int, float | None]], certain: int | None) -> None:
    assert curve(*points).pays_up_to == certain
