"""All-reduces that share a link: what is known of few of them, and many."""

from __future__ import annotations

import pytest

from hasten.scaling.gloo_overlap import Sending, last_reduced


def test_a_bucket_alone_sends_one_segment_while_the_other_waits() -> None:
    """Of each message, half is on the link while the other half's neighbour is asked."""
    messages, link, wait = 6, 0.010, 0.020
    found = last_reduced([Sending(1.0, messages, link, wait)])
    assert found == pytest.approx(1.0 + messages * (wait + link / 2) + 2 * link / 2)


@pytest.mark.parametrize("messages", [2, 6, 1998])
def test_without_latency_the_link_is_all(messages: int) -> None:
    buckets = [Sending(0.0, messages, 0.001, 0.0) for _ in range(5)]
    assert last_reduced(buckets) == pytest.approx(5 * messages * 0.001)


def test_where_the_link_is_all_of_the_time_the_latency_is_paid_once() -> None:
    buckets = [Sending(0.0, 2, 0.1, 0.001) for _ in range(10)]
    assert last_reduced(buckets) == pytest.approx(10 * 2 * 0.1 + 0.001)


def test_where_latency_is_all_two_buckets_take_as_long_as_one() -> None:
    one, two, three = ([Sending(0.0, 4, 1e-9, 0.01) for _ in range(n)] for n in (1, 2, 3))
    assert last_reduced(one) == pytest.approx(4 * 0.01)
    assert last_reduced(two) == pytest.approx(4 * 0.01)
    assert last_reduced(three) == pytest.approx(2 * 4 * 0.01)


def test_none_begins_before_it_is_ready_and_what_its_host_does_comes_first() -> None:
    late = Sending(5.0, 2, 0.1, 0.0, before_seconds=1.0)
    assert last_reduced([Sending(0.0, 2, 0.1, 0.0), late]) == pytest.approx(5.0 + 1.0 + 0.2)


@pytest.mark.parametrize("wait", [0.0, 1e-5, 1e-4, 1e-3])
def test_a_ring_of_a_thousand_is_played_by_fewer_messages(wait: float) -> None:
    """128 messages of three buckets, and fifteen times as many of a fifteenth of the bytes."""
    few = [Sending(0.1 * n, 128, 15e-5, 15 * wait) for n in range(3)]
    many = [Sending(0.1 * n, 128 * 15, 1e-5, wait) for n in range(3)]
    assert last_reduced(many) == pytest.approx(last_reduced(few), rel=1e-6)
