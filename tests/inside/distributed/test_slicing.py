"""Which part of a batch is a rank's."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, TensorDataset

from hasten.inside.distributed.slicing import Slicer, key_of, slice_of
from hasten.records.ranks import Findings, LoaderKey


@given(st.integers(1, 300), st.integers(1, 17), st.integers(1, 4))
def test_slices_are_the_batch_and_as_even_as_can_be(whole: int, size: int, least: int) -> None:
    slices = [slice_of(whole, rank, size, least) for rank in range(size)]
    counting = [one for one in slices if one.counts]
    assert [n for one in counting for n in range(one.start, one.stop)] == list(range(whole))
    lengths = [one.stop - one.start for one in counting]
    assert max(lengths) - min(lengths) <= 1
    assert min(lengths) >= min(least, whole)
    assert sum(one.share for one in slices) == pytest.approx(1.0)
    for one in slices[len(counting) :]:
        assert (one.start, one.stop, one.share) == (0, min(least, whole), 0.0)


KEY = LoaderKey("TensorDataset", 20, 6, "SequentialSampler")


def made(rank: int = 1, key: LoaderKey | None = KEY) -> Slicer:
    return Slicer(rank, 2, Findings(key))


def test_only_the_loader_that_was_found_is_cut_and_only_to_train() -> None:
    iterator = iter(DataLoader(TensorDataset(torch.zeros(20)), batch_size=6))
    assert key_of(iterator) == KEY
    assert made().cuts(iterator, training=True)
    assert not made().cuts(iterator, training=False)
    other = iter(DataLoader(TensorDataset(torch.zeros(20)), batch_size=5))
    assert not made().cuts(other, training=True)
    assert made(key=None).cuts(other, training=True)
    without_batches = iter(DataLoader(TensorDataset(torch.zeros(20)), batch_size=None))
    assert not made(key=None).cuts(without_batches, training=True)


def test_the_weight_is_of_the_batch_at_hand_though_another_was_fetched_ahead() -> None:
    slicer = made(rank=0)
    iterator = iter(DataLoader(TensorDataset(torch.zeros(20)), batch_size=6))
    assert slicer.weight("mean") == slicer.weight("sum") == 0.5  # no batch yet: all compute the same
    whole, rest = [torch.zeros(3), torch.zeros(3)], [torch.zeros(2), torch.zeros(2)]
    slicer.cut(iterator, [0, 1, 2, 3, 4, 5])
    slicer.cut(iterator, [6, 7, 8, 9, 10])
    slicer.batch_came(whole, iterator)
    slicer.batch_came(rest, iterator)
    slicer.forward_begins((whole[0],))
    assert slicer.weight("mean") == 0.5
    slicer.forward_begins((rest[0].view(2, 1),))
    assert slicer.weight("mean") == 0.4
    slicer.forward_begins((whole[1].clone(),))  # moved to a GPU, say: told by its length
    assert slicer.weight("mean") == 0.5
    assert slicer.weight("sum") == 1.0


def test_another_role_cuts_other_parts_unless_a_batch_was_fetched_ahead() -> None:
    slicer = made(rank=0)
    iterator = iter(DataLoader(TensorDataset(torch.zeros(20)), batch_size=6))
    batch = [torch.zeros(3), torch.zeros(3)]
    assert slicer.cut(iterator, [0, 1, 2, 3, 4, 5]) == [0, 1, 2]
    assert "fetches batches ahead" in slicer.take_role(1, 2)  # it was ordered, and has not come
    assert slicer.take_role(0, 2) != ""
    slicer.batch_came(batch, iterator)
    assert "fetches batches ahead" in slicer.take_role(1, 2)  # it has come, and was not trained on
    assert slicer.take_role(1, 2) == ""  # it is that rank already
    slicer.forward_begins((batch[0],))
    assert slicer.take_role(2, 3) == ""
    assert slicer.cut(iterator, [6, 7, 8, 9, 10, 11]) == [10, 11]
