"""Whether the script holds what it may still go backward through."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_MOST = 20_000  # nodes


def with_graph(tensors: Iterable[tuple[str, Any]]) -> str:
    """The path of a tensor whose graph has not been gone through; "" if there is none."""
    seen: set[Any] = set()
    for path, tensor in tensors:
        if tensor.grad_fn is not None and _alive(tensor.grad_fn, seen):
            return path
    return ""


def _alive(node: Any, seen: set[Any]) -> bool:
    """A node that a backward pass has gone through has freed what it had saved."""
    waiting = [node]
    while waiting and len(seen) < _MOST:
        now = waiting.pop()
        if now is None or now in seen:
            continue
        seen.add(now)
        if _saves(now):
            return True
        waiting += [following for following, _ in now.next_functions]
    return False


def _saves(node: Any) -> bool:
    for name in dir(node):
        if name.startswith("_saved_") or name == "saved_tensors":
            try:
                value = getattr(node, name)
            except (RuntimeError, ValueError):  # freed
                continue
            if hasattr(value, "grad_fn") or (
                isinstance(value, (list, tuple)) and any(map(_is_tensor, value))
            ):
                return True
    return False


def _is_tensor(value: object) -> bool:
    return hasattr(value, "grad_fn")
