"""Everything that watches one training, and the switchboard of its techniques."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING

from ...records.observation import Observation, Optimizer, Root
from ...records.plan import BASELINE
from ...records.ranks import Findings
from ...records.whole_run import WatchedRun
from ..guarding.one_step import Numerics
from ..guarding.perturber import Perturber
from ..guarding.recorder import Recorder
from ..job import Job
from ..observing.gpu_memory import gpu_memory
from ..observing.hooks import Hooks
from ..observing.identify import compile_backends, describe_optimizer, describe_root, without_parts
from ..observing.leftovers import Leftovers, Waits
from ..observing.observer import Observer
from ..observing.place import Place
from ..observing.planned_loops import Reading, loops_around, planned_steps, steps_at_this_rate
from ..observing.processors import ProcessorsUsed
from ..observing.raw_step import RawStep
from ..observing.remembered import Remembered
from ..observing.run_parts import watch_parts
from ..observing.saves import count_saves
from ..observing.timeline import Timeline
from ..observing.tiny_numbers import extra_seconds
from ..observing.trainings import Trainings
from ..observing.uses import Uses
from ..seams import Seams
from ..switch import Switchboard
from ..techniques.support.larger_batches import LargerBatches
from ..training import Training
from . import run_script
from .short_passes import ShortPasses

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.optim import Optimizer as TorchOptimizer

    from ..distributed.this_rank import ThisRank
    from ..source_files import SourceFiles

_SAMPLE_SECONDS_IN_TRIALS = 60.0  # the workers of later trials continue
_LOOK_AFTER = 1  # steps; doubles each time
_READ_AFTER = 2  # steps: the first may come late, once there is something to learn from


@dataclass(frozen=True)
class Mark:
    """How many models and optimizers had appeared, and passes over loaders, at some moment."""

    roots: int
    optimizers: int
    passes: int


class Instruments:
    """Created as soon as the script has imported torch. ``on_root`` is called when a root was found, before
    its first forward pass runs; ``on_step`` at the end of each step. ``sources``: the script's files.
    """

    def __init__(
        self,
        torch: ModuleType,
        job: Job,
        seams: Seams,
        on_step: Callable[[RawStep], None],
        on_root: Callable[[], None],
        began: float,
        sources: SourceFiles | None = None,
    ) -> None:
        """``began``: when the script started, by ``observer.clock``."""
        self.training = training = Training(torch, seams, job.machine.available_bytes)
        self._place = Place(torch)
        self.timeline = Timeline(began, self._place.of_caller) if job.closely else None
        if self.timeline is not None:
            watch_parts(training, self.timeline)
        self.observer = Observer(on_step, self.timeline, job.evaluations)
        training.steps_within_updates = job.evaluations is True
        if job.timed:
            count_saves(training, self.observer.save_begins)
            training.sample_seconds = _SAMPLE_SECONDS_IN_TRIALS
        if job.seed is not None:
            torch.manual_seed(job.seed)
        if sources is not None:
            training.sample_folder, training.made_of = job.samples, partial(sources.made_of, job)
            training.own_files = partial(sources.own, job)
        training.own_cpus = frozenset(job.ranks.cores) if job.ranks is not None else frozenset()
        training.samples_for_later = job.descriptor is None
        training.in_a_trial = job.descriptor is not None and job.timed
        self.switchboard = Switchboard(training)
        self.hooks = Hooks(training, self.observer, on_root, job.timed, job.closely)
        self.hooks.install()
        if job.share_of_epochs < 1:
            ShortPasses(job.share_of_epochs).install(seams)
        self.switchboard.start(job.plan)
        if job.batch_divisor > 1:
            LargerBatches(Fraction(1, job.batch_divisor)).build(training)
        self._uses = Uses(lambda: self.observer.in_backward)
        self._uses.watch(training, job.closely)
        self._owned: set[int] = set()  # ids of parameters, as of the last look
        self._roots = Remembered(self._trained_roots, self._describe_root)
        self._optimizers = Remembered(lambda: training.optimizers, self._describe_optimizer)
        self._steps, self._look_at, self._looked_at_parts, self._early = 0, _LOOK_AFTER, 0, Reading(0, ())
        self._trainings, self._models = Trainings(), 0
        self._leftovers = Leftovers(training)
        self._waits = Waits(training, self.timeline) if job.closely else None
        self._processors = ProcessorsUsed() if job.closely else None
        self.recorder: Recorder | None = None
        self.numerics: Numerics | None = None
        if job.traced:
            self.recorder = Recorder(training)
            self.hooks.on_batch.append(self.recorder.batch_came)
            self.numerics = Numerics(training)
        if job.perturbation is not None:
            noise = job.perturbation
            perturber = Perturber(training, noise.relative, noise.redraw, noise.seed, noise.after)
            self.hooks.before_samples.append(perturber.samples_come)
            if self.numerics is not None:
                self.numerics.on_load = perturber.draw_anew
        if job.doubled:
            from ..guarding.doubled import train_in_float64  # it imports torch

            train_in_float64(training.seams)
        self.this_rank = self._join(job)

    def _join(self, job: Job) -> ThisRank | None:
        """Become one of the ranks, if there are several."""
        ranks = job.ranks
        if ranks is None:
            return None
        from ..distributed.parting import fail_as  # these import torch
        from ..distributed.rehearsal import Rehearsal
        from ..distributed.this_rank import ThisRank

        parts, fail = (self.training, self.hooks, self.observer, ranks), fail_as(ranks)
        if job.rehearsal:
            this_rank: ThisRank = Rehearsal(*parts, job.rehearsal, fail)
        else:
            assert ranks.findings is not None
            this_rank = ThisRank(*parts, ranks.findings, fail, checked=job.descriptor is None)
        this_rank.install()
        self.training.this_rank = this_rank
        return this_rank

    @contextmanager
    def setting_up(self) -> Iterator[None]:
        """Techniques are being set up: that does not count as the script's time, and is not followed."""
        entered = self.timeline.enter("set-up") if self.timeline is not None else None
        with self.training.aside():
            yield
        if self.timeline is not None and entered is not None:
            self.timeline.leave("set-up", entered)

    def rehearsed(self) -> Findings:
        """What a rehearsal of ranks has found so far."""
        from ..distributed.rehearsal import Rehearsal

        assert isinstance(self.this_rank, Rehearsal)
        return self.this_rank.found(self._uses.names(evaluations=True))

    def training_begins(self) -> None:
        """The first step has ended."""
        self._leftovers.training_begins()
        if self._waits is not None:
            self._waits.training_begins()

    def step_ended(self, step: RawStep) -> None:
        """Keep what is seen of roots and optimizers: after its last step a script may free them."""
        self._steps += 1
        if self._processors is not None:
            self._processors.step_ended()
        if self._steps == _READ_AFTER and self.timeline is not None:
            self._early = self._reading(self._steps)
        first = self._trainings.step_ended(self.training.serial_of(step.optimizer))
        step.new_model = self.training.roots_added != self._models
        self._models = self.training.roots_added
        step.set_up = min(step.seconds, self.switchboard.latest_seconds_in_steps())
        stale = first or self._roots.stale or self._optimizers.stale
        if stale or self._steps >= self._look_at or self.training.parts_added != self._looked_at_parts:
            self._look_at, self._looked_at_parts = 2 * self._steps, self.training.parts_added
            self._owned = self.training.owned()
            self._roots.look()
            self._optimizers.look()
            self._uses.look()

    def _trained_roots(self) -> list[Module]:
        """Before there is an optimizer, a called module may look like a root although it is not trained, such
        as a copy with averaged weights. It has neither an optimizer nor gradients, and is no helper.
        """
        owned, roots = self._owned | self.training.owned(), self.training.roots
        seen = {id(r) for r in roots if any(id(p) in owned or p.grad is not None for p in r.parameters())}
        seen |= {id(root) for root in roots if self.training.is_helper(root)}
        return without_parts([root for root in roots if id(root) in seen] or roots)

    def _describe_root(self, root: Module) -> Root:
        return describe_root(self.training.torch, root, self._owned | self.training.owned())

    def _describe_optimizer(self, one: TorchOptimizer) -> Optimizer:
        return describe_optimizer(self.training.torch, one, one in self.training.stepped)

    def mark(self) -> Mark:
        """What has appeared so far."""
        training = self.training
        return Mark(training.roots_added, training.optimizers_added, self.hooks.loaders.begun)

    def living(self, seen: Observation) -> Observation:
        """``seen``, with only those models and optimizers that the script still holds."""
        roots = tuple(map(self._describe_root, self._trained_roots()))
        optimizers = tuple(map(self._describe_optimizer, self.training.optimizers))
        return replace(seen, roots=roots, optimizers=optimizers)

    def only_since(self, mark: Mark, seen: Observation) -> Observation | None:
        """``seen``, with only those models, optimizers and loaders that appeared, or were read, since then.
        None if no model or no optimizer did: then what appeared has joined the others.
        """
        roots, optimizers = self.training.came_since(mark.roots, mark.optimizers)
        if not (roots and optimizers):
            return None
        return replace(
            seen,
            roots=tuple(map(self._describe_root, without_parts(roots))),
            optimizers=tuple(map(self._describe_optimizer, optimizers)),
            loaders=self.hooks.loaders.records(since=mark.passes),
        )

    def lose(self) -> None:
        """Drop everything except seams, which are undone elsewhere."""
        with suppress(Exception):
            self.switchboard.switch(BASELINE)
        self.training.forget()

    def _planned(self, steps: int, run: WatchedRun) -> int | None:
        """Steps of the whole run, as the loops that we are in say."""
        reading, evaluations = self._reading(steps), self.observer.evaluations
        if evaluations.are_steps:
            return evaluations.steps_of(planned_steps(reading.around, evaluations.updates, None, 0))
        planned = planned_steps(reading.around, steps, run.epoch_steps, run.epochs, run.epoch_seen)
        return planned or steps_at_this_rate(self._early, reading)

    def _reading(self, steps: int) -> Reading:
        """Of the loops that we are in; of none if an object of the script's that is looked at raises."""
        with suppress(Exception):
            loader = self.training.torch.utils.data.DataLoader
            passed = self._place.is_passed_over
            return Reading(steps, loops_around(sys._getframe(1), passed, loader, run_script.__file__))
        return Reading(steps, ())

    def observation(
        self, steps: int, start_seconds: float, metrics: Mapping[str, float], over: str = ""
    ) -> Observation:
        """What was seen so far, except the steps. ``steps``: how many have ended; ``start_seconds``: from the
        start of the process to the end of the first step; ``over``: how the script ended, as in ``exits``.
        """
        run = self.timeline.watched(ended=over == "completed") if self.timeline is not None else None
        if run is not None and not over:
            run = replace(run, planned_steps=self._planned(steps, run))
        if over and self._waits is not None:
            self.hooks.loaders.look_at_sampling()
        torch, training = self.training.torch, self.training
        roots, optimizers = self._roots.records(), self._optimizers.records()
        devices = {name for root in roots for name in root.devices}
        devices |= {name for optimizer in optimizers for name in optimizer.devices}
        return Observation(
            steps=(),
            warmup_steps=0,
            cycle=1,
            roots=roots,
            loaders=self.hooks.loaders.records(),
            optimizers=optimizers,
            batch_size=None,
            threads=torch.get_num_threads(),
            torch=str(torch.__version__),
            start_seconds=start_seconds,
            uses=self._uses.names(),
            autocast=self._uses.autocast(),
            metrics=dict(metrics),
            step_said=self.observer.said,
            steps_are_evaluations=self.observer.evaluations.are_steps is True,
            leftovers=self._leftovers.found(),
            waits=self._waits.found(steps - 1) if self._waits is not None else (),
            run=run,
            backends=compile_backends(),
            obstacles=tuple(training.obstacles),
            trainings=self._trainings.steps(),
            padding=self.hooks.padding.share(),
            **self.hooks.operators.found(),
            processors=self._processors.found() if self._processors is not None else None,
            tiny_seconds=extra_seconds(torch) if "cpu" in devices else None,
            gpu_memory=gpu_memory(torch, (torch.device(name) for root in roots for name in root.devices)),
        )
