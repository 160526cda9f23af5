"""A script's reading of its data in the test's own process, under the seams that a worker installs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from hasten.inside.observing.hooks import Hooks
from hasten.inside.observing.observer import Observer
from hasten.inside.seams import Seams
from hasten.inside.switch import Switchboard
from hasten.inside.training import Training
from hasten.records.plan import BASELINE, Plan
from hasten.records.trial import Proof


class Reading:
    """A script's reading of its data, and the techniques that are switched on and off meanwhile."""

    def __init__(self, seams: Seams, available_bytes: int = 2**32) -> None:
        self.training = Training(torch, seams, available_bytes)
        self.board = Switchboard(self.training)
        self.hooks = Hooks(self.training, Observer(lambda step: None), lambda: None)
        self.hooks.install()

    def epoch(self, dataset: Any, **options: Any) -> list[Any]:
        batches = []
        for batch in DataLoader(dataset, **{"batch_size": 5, **options}):
            self.hooks.loaders.batch_trained()
            batches.append(batch)
        return batches

    def under(self, plan: Plan, dataset: Any, **options: Any) -> tuple[list[Any], list[Any]]:
        """Two shuffled epochs as without hasten, and the same two under the plan."""
        self.board.switch(BASELINE)
        epochs = []
        for switched in (BASELINE, plan):
            self.board.switch(switched, prepare=True)
            torch.manual_seed(11)
            twice: list[Any] = [self.epoch(dataset, **{"shuffle": True, **options}) for _ in range(2)]
            epochs.append([*twice, torch.get_rng_state()])
        return epochs[0], epochs[1]

    def proof(self, name: str = "") -> Proof:
        """Of the technique with this name, or of the first."""
        return next(proof for proof in self.board.proofs() if name in ("", proof.technique))


class Started(Reading):
    """Under a plan from a process' start."""

    def __init__(self, seams: Seams, plan: Plan, available_bytes: int = 2**32) -> None:
        super().__init__(seams, available_bytes)
        self.seams = seams
        self.board.start(plan)
        self.board.switch(plan)

    @property
    def counted(self) -> int:
        """The number that the proof begins with."""
        return int(self.proof().evidence.split()[0])


StartUnder = Callable[..., Started]
"""Takes the plan, and ``available_bytes`` where they matter."""


class HeldLists(Dataset[Any]):
    """Its samples are lists that it holds itself."""

    def __init__(self, size: int) -> None:
        self.lists = [[float(index)] for index in range(size)]

    def __len__(self) -> int:
        return len(self.lists)

    def __getitem__(self, index: int) -> Any:
        return self.lists[index]
