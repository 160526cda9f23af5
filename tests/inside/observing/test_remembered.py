"""What was seen of a thing outlives it until another step is done without it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hasten.inside.observing.remembered import Remembered


class Thing:
    def __init__(self, name: str) -> None:
        self.name = name


@pytest.fixture
def things() -> list[Thing]:
    return [Thing("a"), Thing("b")]


@pytest.fixture
def remembered(things: list[Thing]) -> Remembered[Thing, str]:
    return Remembered(lambda: list(things), lambda thing: thing.name)


def test_what_lives_is_told_as_it_is_now(things: list[Thing], remembered: Remembered[Thing, str]) -> None:
    assert remembered.records() == ("a", "b")
    remembered.look()
    things[0].name = "changed"
    things.append(Thing("c"))
    assert remembered.records() == ("changed", "b", "c")


@pytest.mark.parametrize(
    ("free", "left"),
    [
        (lambda things: things.clear(), ("a", "b")),
        (lambda things: things.pop(0), ("a", "b")),
        (lambda things: things.pop(), ("a", "b")),
    ],
    ids=["all", "the first", "the last"],
)
def test_what_died_is_told_as_it_was_in_its_place(
    free: Callable[[list[Thing]], object],
    left: tuple[str, ...],
    things: list[Thing],
    remembered: Remembered[Thing, str],
) -> None:
    remembered.look()
    assert not remembered.stale
    free(things)
    assert remembered.stale
    assert remembered.records() == left
    remembered.look()
    assert not remembered.stale
    assert remembered.records() == tuple(thing.name for thing in things)


def test_what_died_before_anybody_looked_is_not_known(
    things: list[Thing], remembered: Remembered[Thing, str]
) -> None:
    things.clear()
    assert remembered.records() == ()
