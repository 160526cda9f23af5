"""What is written to a journal is played back in its order."""

from __future__ import annotations

import math

import pytest

from hasten.inside.checkpoints import script_journal
from hasten.inside.checkpoints.cannot import Diverged
from hasten.inside.checkpoints.script_journal import Reader, Writer

VALUES = (1.5, math.inf, True, False, 3, -(2**62), 2**70, "text", None, b"bytes", [1.0, [2.0]], {"bytes": 1})


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_comes_back(value: object) -> None:
    writer = Writer()
    writer.add(script_journal.VALUE, value)
    reader = Reader(writer.take())
    found = reader.next(script_journal.VALUE)
    assert found == value
    assert type(found) is type(value)
    assert reader.exhausted


def test_another_kind_is_said_in_words() -> None:
    writer = Writer()
    writer.add(script_journal.BACKWARD)
    with pytest.raises(Diverged, match="the script reads a value where it goes backward"):
        Reader(writer.take()).next(script_journal.VALUE)


def test_the_end_is_said_in_words() -> None:
    with pytest.raises(Diverged, match="calls a model where the checkpoint was taken"):
        Reader(b"").next(script_journal.FORWARD)


def test_a_slot_keeps_back_what_follows_until_it_is_settled() -> None:
    writer = Writer()
    writer.add(script_journal.BATCH)
    writer.add(script_journal.FORWARD)
    writer.open_slot()
    writer.add(script_journal.STEP)
    assert writer.take() == script_journal.BATCH + b"0"
    writer.settle(b"state")
    reader = Reader(writer.take())
    assert reader.next(script_journal.FORWARD) == b"state"
    assert reader.next(script_journal.STEP) is None
    assert reader.exhausted


def test_the_size_counts_what_slots_get() -> None:
    writer = Writer()
    writer.add(script_journal.FORWARD)
    writer.open_slot()
    writer.settle(b"state")
    assert writer.bytes == len(writer.take())


def test_a_record_that_was_cut_is_found() -> None:
    writer = Writer()
    writer.add(script_journal.VALUE, 0.5)
    with pytest.raises(Diverged, match="in the middle of a record"):
        Reader(writer.take()[:-3]).next(script_journal.VALUE)
