"""Whether samples are objects that the data set holds itself: what a collate function or a loop writes into
such a sample is there when it is drawn again, and would not be in a copy.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from .sampling_proof import drawn_apart, is_picture, spread

_SECONDS = 0.5  # of drawing samples, after which what was drawn decides


def own_objects(torch: ModuleType, dataset: Any, length: int) -> str:
    """Why copies of its samples cannot stand for them where they are written into; "" if they can. Samples
    are drawn in a separate process.
    """
    name = type(dataset).__name__

    def look() -> tuple[str, int]:
        for index in spread(length, _SECONDS):
            if share_memory(dataset[index], dataset[index]):
                return f"samples of {name} are objects that it holds itself, which batches may write into", 0
        return "", 0

    return drawn_apart(torch, dataset, look)[0]


def share_memory(a: Any, b: Any) -> bool:
    """Whether what is written into one is there in the other. Single numbers, such as labels from a tensor,
    count as never written into.
    """
    if hasattr(a, "element_size"):
        if _is_scattered(a) or _is_scattered(b):
            return a is b
        return bool(a.dim()) and _begins(a) == _begins(b)
    if hasattr(a, "tobytes") and hasattr(a, "dtype"):  # a numpy array or scalar
        return bool(a.ndim) and _begins(a) == _begins(b)
    if isinstance(a, (int, float, str, bytes, type(None))):
        return False
    if isinstance(a, tuple):
        return isinstance(b, tuple) and any(map(share_memory, a, b))
    if isinstance(a, list):
        return a is b or (isinstance(b, list) and any(map(share_memory, a, b)))
    if isinstance(a, dict):
        return a is b or (isinstance(b, dict) and any(share_memory(a[key], b[key]) for key in a if key in b))
    return a is b if is_picture(a) else False


def _is_scattered(tensor: Any) -> bool:
    """Whether it has no single storage."""
    return str(tensor.layout) != "torch.strided"


def _begins(value: Any) -> object:
    """Where its elements begin; a new object if there are none."""
    if hasattr(value, "element_size"):
        return value.data_ptr() if value.numel() else object()
    found = getattr(value, "__array_interface__", None)
    return found["data"][0] if found and value.size else object()
