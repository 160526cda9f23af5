"""The repeated blocks of a model: consecutive children of one class, such as a transformer's layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.nn import Module

LEAST = 2  # in a row


def repeated_blocks(root: Module) -> list[Module]:
    """The blocks of the outermost row with the most parameters; [] if nothing repeats.

    A block is more than a single layer: it has children and parameters. All blocks are of one class.
    """
    best: list[Module] = []
    most = 0
    for module in root.modules():
        alike: dict[type, list[Module]] = {}
        for child in module.children():
            if next(child.children(), None) is not None:
                alike.setdefault(type(child), []).append(child)
        for row in alike.values():
            size = sum(p.numel() for block in row for p in block.parameters())
            if len(row) >= LEAST and size > most:
                best, most = row, size
    return best
