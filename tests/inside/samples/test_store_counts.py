"""What several processes count in memory that they share, and that nothing stays open afterwards."""

from __future__ import annotations

import os
import pickle

import pytest

from hasten.inside.samples.store_counts import Counts

pytestmark = pytest.mark.skipif(
    not hasattr(os, "memfd_create"), reason="memory without a name in the file system is Linux's"
)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_what_another_has_counted_is_in_the_total() -> None:
    counts = Counts()
    other = pickle.loads(pickle.dumps(counts))
    counts.add(counts.take(), 1, 2, 3)
    other.add(counts.take(), 10, 20, 30)
    assert counts.total() == other.total() == (11, 22, 33)


def test_all_learn_why_it_was_given_up_first() -> None:
    counts = Counts()
    other = pickle.loads(pickle.dumps(counts))
    assert other.given_up == ""
    counts.give_up("a sample changed")
    other.give_up("something else")
    assert counts.given_up == other.given_up == "a sample changed"


@pytest.mark.parametrize("closed", [True, False])
def test_no_file_stays_open(closed: bool) -> None:
    before = open_files()
    for _ in range(5):
        counts = Counts()
        copy = pickle.loads(pickle.dumps(counts))
        if closed:
            copy.close()
            counts.close()
        del counts, copy
    assert open_files() == before
