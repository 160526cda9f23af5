"""All that a rank's training changes, in the same order in all ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..training import Training

if TYPE_CHECKING:
    import torch


class TrainedParameters:
    """Looked for again when a root or an optimizer comes or grows."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._key: object = ()
        self._found: list[torch.Tensor] = []

    def __call__(self) -> list[torch.Tensor]:
        roots, optimizers = self._training.roots, self._training.optimizers
        counts = [sum(len(group["params"]) for group in optimizer.param_groups) for optimizer in optimizers]
        key = ([id(root) for root in roots], [id(optimizer) for optimizer in optimizers], counts)
        if key != self._key:
            found = {id(p): p for root in roots for p in root.parameters()}
            owned = [p for one in optimizers for group in one.param_groups for p in group["params"]]
            self._key, self._found = key, list({**found, **{id(p): p for p in owned}}.values())
        return self._found
