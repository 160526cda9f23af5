"""What a pass over a data set will read next."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hasten.inside.samples.samples_ahead import InOrder

LENGTH = 10_000


def ahead(reads: Sequence[Sequence[int]], length: int = LENGTH) -> list[tuple[int, int]]:
    """(batch's number, samples to make before it) where there are any."""
    found, reading = [], InOrder()
    for number, indices in enumerate(reads):
        coming = reading.before(indices, length)
        found += [(number, len(coming))] if coming else []
    return found


def in_order(until: int, each: int = 128) -> list[range]:
    return [range(first, first + each) for first in range(0, until, each)]


def test_the_further_a_pass_has_come_the_more_is_made() -> None:
    assert ahead(in_order(LENGTH)) == [(2, 1024), (10, 5120), (50, 3600)]


def test_it_begins_with_the_batch_that_is_read() -> None:
    reading = InOrder()
    for indices in in_order(256):
        assert not reading.before(indices, LENGTH)
    assert reading.before(range(256, 384), LENGTH) == range(256, 1280)


@pytest.mark.parametrize(
    "reads",
    [
        in_order(256),
        [range(5, 10)] * 100,
        [[3, 1, 2]] * 200,
        [*in_order(256), range(300, 400), *in_order(256)],  # another pass begins
        [range(0, 600), range(600, 1200, 2)],
    ],
)
def test_short_passes_and_other_orders_are_left_alone(reads: Sequence[Sequence[int]]) -> None:
    assert ahead(reads) == []


def test_each_pass_begins_anew() -> None:
    assert ahead([*in_order(512), *in_order(512)]) == [(2, 1024), (6, 1024)]


def test_once_it_is_off_nothing_is_made() -> None:
    reading = InOrder()
    reading.off = True
    assert not any(reading.before(indices, LENGTH) for indices in in_order(LENGTH))
