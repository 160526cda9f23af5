"""Hosts that rehearse together go the same way at every turn."""

from __future__ import annotations

from typing import Any, cast

import pytest

from hasten.bench.other_hosts import OtherHosts
from hasten.launch.world import World


class Told:
    """A world in which the others say what the test wants. None: the same as this host, which is h1."""

    def __init__(self, *others: Any) -> None:
        self._others = others
        self.here = 0
        self.names = tuple(f"h{number + 1}" for number in range(len(others) + 1))

    def share(self, value: Any) -> list[Any]:
        return [value, *(value if one is None else one for one in self._others)]


def among(*others: Any) -> OtherHosts:
    return OtherHosts(cast(World, Told(*others)))


@pytest.mark.parametrize(
    ("mine", "others", "found"),
    [("", ("",), ""), ("", ("over",), "over"), ("over", ("failed",), "failed"), ("failed", ("",), "failed")],
)
def test_the_worst_counts(mine: str, others: tuple[str, ...], found: str) -> None:
    assert among(*others).worst(mine) == found


def test_refusals_of_all_are_told_once_and_others_with_their_host() -> None:
    assert among(["it has no loader"]).refusals(["it has no loader"]) == ("it has no loader",)
    assert among(["too few samples"], []).refusals([]) == ("on host h2: too few samples",)


def test_steps_are_as_many_as_all_can_take() -> None:
    assert among(40, 70).least(60) == 40


def test_a_host_with_other_data_is_named() -> None:
    facts = {"trains on other samples": "ab"}
    assert among("ab", "cd").odd(facts) == "host h3 trains on other samples than the others"
    assert among("cd").odd(facts) == "host h2 trains on other samples than h1"
    assert among(None, None).odd(facts) == ""


def test_the_first_that_says_anything_is_heard() -> None:
    assert among("", "b", "c").first("") == "b"
    assert among("b").of_rank_0("a") == "a"


def test_without_others_everything_is_as_it_is() -> None:
    alone = OtherHosts(None)
    assert alone.has_rank_0
    assert (alone.worst("over"), alone.least(7), alone.refusals(["a"])) == ("over", 7, ("a",))
    assert (alone.first("x"), alone.of_rank_0("y"), alone.odd({"z": "1"})) == ("x", "y", "")
