"""Which tensors count that no name leads to."""

from __future__ import annotations

import torch

from hasten.inside.checkpoints.heap import Found
from hasten.inside.checkpoints.unnamed_tensors import digests_of_others
from hasten.inside.samples.columns import Columns


def others() -> list[str]:
    return [about for _, about in digests_of_others(torch, Found(), [])]


def test_samples_that_a_plan_keeps_do_not_count() -> None:
    """How many have been made by then is a matter of time."""
    samples = [(torch.full((3, 17), float(number)), number) for number in range(8)]
    about = f"{torch.float32} (3, 17)"
    assert others().count(about) == 8
    kept = Columns(torch, samples)
    del samples
    assert not [found for found in others() if "17" in found]
    assert kept.batch([1, 2]) is not None


def test_a_tensor_of_a_library_counts() -> None:
    class Library:
        kept = torch.zeros(5, 19)

    assert f"{torch.float32} (5, 19)" in others()
    assert Library.kept.sum() == 0
