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


def saved_in_graphs(tensors: Iterable[Any]) -> list[Any]:
    """What the graphs of ``tensors`` keep for a backward pass."""
    found: list[Any] = []
    seen: set[Any] = set()
    waiting = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
    while waiting and len(seen) < _MOST:
        now = waiting.pop()
        if now is not None and now not in seen:
            seen.add(now)
            found += _saved_by(now)
            waiting += [following for following, _ in now.next_functions]
    return found


def _alive(node: Any, seen: set[Any]) -> bool:
    """A node that a backward pass has gone through has freed what it had saved."""
    waiting = [node]
    while waiting and len(seen) < _MOST:
        now = waiting.pop()
        if now is None or now in seen:
            continue
        seen.add(now)
        if _saved_by(now):
            return True
        waiting += [following for following, _ in now.next_functions]
    return False


def _saved_by(node: Any) -> list[Any]:
    """Tensors."""
    found: list[Any] = []
    for name in dir(node):
        if name.startswith("_saved_") or name == "saved_tensors":
            try:
                value = getattr(node, name)
            except (RuntimeError, ValueError):  # freed
                continue
            parts = value if isinstance(value, (list, tuple)) else (value,)
            found += [part for part in parts if hasattr(part, "grad_fn")]
    return found
