"""Where a script stands, in words."""

from __future__ import annotations

from hasten.inside.process.stacks import where_it_stands


def test_the_innermost_call_comes_last() -> None:
    lines = where_it_stands().splitlines()
    assert any("in test_the_innermost_call_comes_last" in line for line in lines)
    assert "in where_it_stands" in lines[-2]
