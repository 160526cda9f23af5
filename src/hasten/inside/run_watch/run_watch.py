"""Watches a run under a plan as it goes: reads the system if steps have become slower, and says so once.

Whatever fails here ends the watch and nothing else.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from ...machine.run_facts import run_facts
from ...records.run_facts import RunFacts
from ...records.run_pace import WatchedRun
from ...saying import say
from .. import script_side
from ..job import Job
from ..observing.observer import clock
from ..observing.raw_step import RawStep
from ..observing.tiny_numbers import PRODUCTS, extra_seconds, tiny_averages
from ..training import Training
from .causes import Spell, causes, straggler, where
from .message import slower_words
from .rules import Pace, Slower
from .step_blocks import Block, Blocks

if TYPE_CHECKING:
    from ..distributed.own_time import OwnTime


class RunWatch:
    """Gets every step. ``process``: it and all processes below it are the run, such as a launcher's ranks."""

    def __init__(
        self,
        watched: WatchedRun,
        training: Training,
        process: int,
        read: Callable[[int], RunFacts] = run_facts,
    ) -> None:
        self._training, self._process, self._read = training, process, read
        self._blocks = Blocks(watched.block_seconds, self._on_gpu)
        self._pace = Pace(watched)
        self._waited_when_tuned = watched.tuned.data_seconds if watched.tuned is not None else None
        self._here = os.getpid()
        self._is_over = False
        self._steps = self._parts = self._trained = 0
        self._began: RunFacts | None = None  # start of the current spell; None: there is none
        self._phases: list[Mapping[str, float]] = []  # of its blocks
        self._first: Spell | None = None
        self._collections = Collections()

    def step_ended(self, step: RawStep) -> None:
        if self._is_over:
            return
        try:
            block = self._blocks.step_ended(step)
            if block is not None:
                self._block(block)
        except Exception as error:  # any error: the training matters more than the watch
            self._ends()
            say(f"hasten: stopped watching whether steps become slower: {type(error).__name__}: {error}")

    # ---- blocks
    def _block(self, block: Block) -> None:
        if os.getpid() != self._here:  # one of the script's children that trains on its own
            self._ends()
            return
        self._steps += block.steps
        if self._training.parts_added != self._parts:
            self._parts = self._training.parts_added
            self._another()
            return
        event = self._pace.block(block)
        if event in ("learns", "suspects"):
            self._phases.clear()
            self._began = self._read(self._process)
            if (ranks := self._own_time) is not None:
                ranks.begin()
            if event == "suspects":
                self._collections.begin()
            return
        if self._began is not None:
            self._phases.append(block.phases)
        if event == "learnt":
            self._first, self._trained = self._spell(), self._trained_parameters()
        elif event == "calm":
            self._stop_looking()
        elif event == "slower":
            self._is_slower(self._pace.finding())

    def _is_slower(self, found: Slower) -> None:
        if self._trained_parameters() != self._trained:  # layers were unfrozen, for example: steps differ
            self._another()
            return
        first, slow = None if found.from_start else self._first, self._spell(self._collections.end())
        tiny, seconds = tiny_in(self._training)
        slow = replace(slow, tiny=tiny, tiny_seconds=seconds)
        waited = self._waited_when_tuned if first is None else first.phases["data"]
        # a GPU's time shows where it is waited for, and a slow rank's in the others
        elsewhere = self._on_gpu() or straggler(first, slow, found.longer)
        place = "" if elsewhere else where(first, slow, found.longer)
        say(f"hasten: {slower_words(found, causes(first, slow, found.longer, waited), place)}")
        self._ends()

    def _another(self) -> None:
        """Another training begins, or the same one goes on with different parts."""
        self._stop_looking()
        self._pace.another_training()

    def _spell(self, collecting: float | None = None) -> Spell:
        """The spell that ends now."""
        assert self._began is not None
        names = self._phases[0]
        phases = {name: median(one[name] for one in self._phases) for name in names}
        own = self._own_time.usual() if self._own_time is not None else {}
        spell = Spell(self._began, self._read(self._process), phases, self._steps, collecting, own)
        self._stop_looking()
        return spell

    def _stop_looking(self) -> None:
        self._collections.end()
        self._phases.clear()
        self._began = None

    def _ends(self) -> None:
        self._is_over = True
        with suppress(Exception):
            self._stop_looking()

    # ---- the training
    @property
    def _own_time(self) -> OwnTime | None:
        """Of all ranks, if there are several."""
        rank = self._training.this_rank
        return rank.watch.own_time if rank is not None else None

    def _on_gpu(self) -> bool:
        firsts = (next(root.parameters(), None) for root in self._training.roots)
        return any(one is not None and one.device.type != "cpu" for one in firsts)

    def _trained_parameters(self) -> int:
        return sum(p.numel() for r in self._training.roots for p in r.parameters() if p.requires_grad)


def watch_of(job: Job, training: Training) -> RunWatch | None:
    """For a run that is to be watched; with several ranks, only rank 0 watches."""
    if job.watched is None or (job.ranks is not None and job.ranks.rank):
        return None
    if job.own_group is not None and not script_side.is_main():
        return None
    several = job.ranks is not None or job.own_group is not None
    return RunWatch(job.watched, training, os.getppid() if several else os.getpid())


def tiny_in(training: Training) -> tuple[int, float]:
    """How many averages of gradients are below 1.2e-38, and what a step takes longer for them, at most."""
    torch = training.torch
    count = sum(int(places.sum()) for _, _, places in tiny_averages(torch, training.optimizers))
    return count, count * PRODUCTS * extra_seconds(torch) / torch.get_num_threads()


class Collections:
    """Counts seconds of Python's garbage collector."""

    def __init__(self) -> None:
        self._since, self._began, self._seconds = 0.0, 0.0, 0.0

    def begin(self) -> None:
        self._since, self._began, self._seconds = clock(), 0.0, 0.0
        gc.callbacks.append(self._collected)

    def end(self) -> float | None:
        """Their share of the time since ``begin``; None if they were not counted."""
        if self._collected not in gc.callbacks:
            return None
        gc.callbacks.remove(self._collected)
        return self._seconds / max(1e-9, clock() - self._since)

    def _collected(self, phase: str, info: Mapping[str, int]) -> None:
        now = clock()
        if phase == "start":
            self._began = now
        elif self._began:
            self._seconds += now - self._began
