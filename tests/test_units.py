"""Numbers with their units."""

from __future__ import annotations

import pytest

from hasten.units import counted, seconds_words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "0 us"),
        (830e-6, "830 us"),
        (0.0142, "14.2 ms"),
        (0.5, "500 ms"),
        (0.9996, "1 s"),
        (3.14, "3.14 s"),
        (150.0, "150 s"),
        (999.6, "1000 s"),
        (4321.0, "4321 s"),
        (999_999.0, "999999 s"),
        (1.45e8, "1,678 days"),
    ],
)
def test_seconds(seconds: float, words: str) -> None:
    assert seconds_words(seconds) == words


@pytest.mark.parametrize(
    ("count", "what", "words"),
    [(1, "step", "1 step"), (1200, "step", "1,200 steps"), (1, "pass", "1 pass"), (2, "pass", "2 passes")],
)
def test_a_number_of_things(count: int, what: str, words: str) -> None:
    assert counted(count, what) == words
