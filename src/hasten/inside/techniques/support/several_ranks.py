"""Whether other processes train together with this one."""

from __future__ import annotations

from ...training import Training


def is_one_of_several(training: Training) -> bool:
    """Whether this process is a rank, of ours or of the script's: the others may wait for what it does."""
    ours = training.torch.distributed
    return bool(
        training.this_rank is not None
        or training.averages_gradients
        or (ours.is_available() and ours.is_initialized() and ours.get_world_size() > 1)
    )
