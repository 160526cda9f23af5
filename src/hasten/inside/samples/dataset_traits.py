"""What a data set tells of itself."""

from __future__ import annotations

from typing import Any


def length_of(samples: Any) -> int | None:
    """The number of samples in a data set or a sampler; None if it has no length."""
    try:
        return len(samples)
    except TypeError:
        return None


def takes_items_one_by_one(dataset: Any) -> bool:
    """Whether a batch is just ``dataset[i]`` for each index. torch's Subset has ``__getitems__`` too, which
    does the same.
    """
    if not hasattr(dataset, "__getitems__"):
        return True
    if type(dataset).__module__ == "torch.utils.data.dataset" and type(dataset).__name__ == "Subset":
        return takes_items_one_by_one(dataset.dataset)
    return False
