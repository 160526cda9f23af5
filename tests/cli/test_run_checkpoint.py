"""``--every``: times and steps."""

from __future__ import annotations

import click
import pytest

from hasten.cli.run_checkpoint import Every, every


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10m", (600.0, 0)),
        ("10min", (600.0, 0)),
        ("600", (600.0, 0)),
        ("600s", (600.0, 0)),
        ("1.5h", (5400.0, 0)),
        ("500steps", (0.0, 500)),
        ("1step", (0.0, 1)),
    ],
)
def test_times_and_steps(text: str, expected: tuple[float, int]) -> None:
    found = every(text)
    assert found == Every(*expected)
    assert every(str(found)) == found


@pytest.mark.parametrize("text", ["", "0", "0steps", "1.5steps", "-3s", "10 weeks", "steps", "999999999h"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="expected a time"):
        every(text)
