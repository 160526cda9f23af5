"""A training under the seams, in the process of the test."""

from __future__ import annotations

import torch

from hasten.inside.observing.hooks import Hooks
from hasten.inside.observing.observer import Observer
from hasten.inside.observing.raw_step import RawStep
from hasten.inside.seams import Seams
from hasten.inside.training import Training

MODULE_CALL = torch.nn.Module.__call__


class Watch:
    """A training under the seams, and what was seen of it."""

    def __init__(self, seams: Seams, evaluations: bool | None = False) -> None:
        """``evaluations``: as in ``Observer``."""
        self.steps: list[RawStep] = []
        self.found = 0
        self.training = Training(torch, seams, available_bytes=2**32)
        self.observer = Observer(self.steps.append, evaluations=evaluations)
        self.hooks = Hooks(self.training, self.observer, self._root_found)
        self.hooks.install()

    def _root_found(self) -> None:
        self.found += 1

    @property
    def looking(self) -> bool:
        return torch.nn.Module.__call__ is not MODULE_CALL
