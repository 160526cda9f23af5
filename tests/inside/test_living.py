"""What is kept for an object goes when the object does, and not before."""

from __future__ import annotations

import gc

from hasten.inside.living import Living, reference


class Thing:
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = object.__hash__


def test_what_is_kept_goes_with_its_object() -> None:
    gone: list[str] = []
    living = Living[str](gone.append)
    one, other = Thing(), Thing()
    living.put(one, "one")
    living.put(other, "other")
    assert (living.get(one), living.get(other), len(living)) == ("one", "other", 2)
    del one
    gc.collect()
    assert (gone, list(living), living.values()) == (["one"], [other], ["other"])


def test_another_object_at_the_same_place_has_nothing() -> None:
    living = Living[int]()
    for number in range(50):  # places are used again at once
        thing = Thing()
        assert thing not in living
        living.put(thing, number)
        del thing
    assert not living


def test_what_cannot_be_referred_to_weakly_is_held() -> None:
    living = Living[str]()
    living.put([1, 2], "a list")
    gc.collect()
    assert living.values() == ["a list"]
    assert reference([3])() == [3]


def test_a_cleared_one_is_told_of_no_end() -> None:
    gone: list[str] = []
    living, one = Living[str](gone.append), Thing()
    living.put(one, "one")
    living.clear()
    del one
    gc.collect()
    assert not gone
