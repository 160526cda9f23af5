"""Which places of a tensor are left is read from markers in it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hasten.inside.techniques.support.slices import kept_of, markers

DIMENSIONS = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@given(st.data())
def test_any_choice_along_the_dimensions_is_read_and_put_back(data: st.DataObject) -> None:
    shape = tuple(data.draw(DIMENSIONS))
    chosen = [
        torch.tensor(sorted(data.draw(st.sets(st.integers(0, size - 1), min_size=1)))) for size in shape
    ]
    full = torch.rand(shape)
    marked, expected = markers(torch, full), full
    for dim, index in enumerate(chosen):
        marked, expected = marked.index_select(dim, index), expected.index_select(dim, index)
    kept = kept_of(torch, shape, marked, fill=-1.0)
    assert kept.small_shape == tuple(expected.shape)
    assert torch.equal(kept.sliced(full), expected)
    again = kept.restored(expected)
    assert again.shape == full.shape
    assert torch.equal(kept.sliced(again), expected)
    assert int(again.ne(-1).sum()) == expected.numel()


@pytest.mark.parametrize(
    "marked",
    [torch.tensor([0.0, 3.0]), torch.tensor([[0.0, 1.0], [2.0, 5.0]]), torch.zeros(0, 3)],
    ids=["another number of dimensions", "no choice along dimensions", "nothing"],
)
def test_what_is_no_choice_along_dimensions_is_refused(marked: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="not cut along its dimensions"):
        kept_of(torch, (2, 3), marked, 0.0)
