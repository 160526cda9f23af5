"""Numbers in the guard's words."""

from __future__ import annotations

import pytest

from hasten.report.guard import percent


@pytest.mark.parametrize(
    ("share", "digits", "words"),
    [
        (0.00065, 2, "0.065%"),
        (0.00082173, 4, "0.08217%"),
        (0.005, 2, "0.50%"),
        (7.9184, 4, "791.8%"),
        (7.9184, 2, "792%"),
        (1.0, 2, "100%"),
        (0.0, 4, "0%"),
        (-0.0123, 2, "-1.2%"),
        (2.0**-20, 2, "0.000095%"),
    ],
)
def test_a_share_has_so_many_significant_digits(share: float, digits: int, words: str) -> None:
    assert percent(share, digits) == words
