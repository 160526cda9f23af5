"""Trials of one script: starts workers for them, and keeps what they leave away from the user's files."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from ..inside.job import Job, Perturbation, Sandbox
from ..launch.chosen import OwnRanks, ranks_of_ours, ranks_of_their_own
from ..launch.ranks import Rank
from ..launch.ranks_of_plan import Wish, wish_of
from ..launch.rendezvous import private_place
from ..launch.standard_input import (
    Given,
    Nothing,
    StandardInput,
    Stream,
    Terminal,
    standard_input,
    terminal_size,
)
from ..lost_writes import check_room
from ..records.plan import BASELINE, Plan
from ..records.ranks import Findings
from ..scripts.sources import Sources
from .rehearsal import SEED, findings_of, foreseen
from .stage import Stage, offline
from .workers.ending import PlanRefused
from .workers.joint_starts import Starts
from .workers.limit import Limit
from .workers.listening import Heard
from .workers.process import WorkerProcess
from .workers.process_start import signals_held
from .workers.sandboxed import start_sandboxed
from .workers.stopwatch import Stopwatch
from .workers.trial_files import TrialFiles
from .workers.worker import Worker
from .workers.worker_group import WorkerGroup
from .workers.worker_output import Output, output_into


class Trials:
    """Starts workers on ``stage``. Use it as a context: protection is taken down at the end.

    ``sources`` are checked before each worker: all must run the same files. ``limit`` bounds every wait for a
    worker. The workers' output goes into ``folder``, or None: to our own output.
    """

    def __init__(
        self,
        stage: Stage,
        folder: Path | None = None,
        sources: Sources | None = None,
        limit: Limit | None = None,
    ) -> None:
        self.stage, self.folder, self.sources = stage, folder, sources
        self.limit = limit or Limit()
        self.stopwatch = Stopwatch(self.limit.clock)
        self.starts = Starts(lambda: self.aside)
        self.evaluations: bool | None = None  # as in ``Job``: ``observe`` finds it out, for all later workers
        self.written_outside: Sequence[str] = ()  # files that the script wrote elsewhere, known at the end
        self._files: TrialFiles | None = None  # within the context
        self._standard_input: StandardInput = Nothing()
        self._started, self._count = list[Worker](), 0
        self._rehearsed: dict[Wish, Findings] = {}
        self._in_full: set[Wish] = set()  # rehearsed in full; the others only for a first step

    def __enter__(self) -> Trials:
        with ExitStack() as starting:
            with signals_held():
                self._files = TrialFiles(self.stage.folders, self.stage.environment)
                starting.callback(self.__exit__)
                self._standard_input = standard_input(self.aside)
            starting.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        with signals_held():
            if self._files is not None:
                self.written_outside = self._files.remove()
                self._files = None

    @property
    def files(self) -> TrialFiles:
        assert self._files is not None, "only within the context"
        return self._files

    @property
    def aside(self) -> str:
        """A folder outside the user's, visible to all workers and deleted at the end."""
        return self.files.aside

    @property
    def samples(self) -> str:
        """Where workers keep samples for each other: with the trials' own files, so that nothing is left
        in the user's folders when a trial is stopped.
        """
        return os.path.join(self.aside, "samples")

    @property
    def protection(self) -> str:
        """ "overlay", "landlock" or "off"; "" until a worker has started."""
        return next((worker.protection for worker in self._started if worker.protection), "")

    def write_to(self, folder: Path) -> None:
        """The output of workers from now on goes there."""
        self.folder = folder

    @property
    def sandbox(self) -> Sandbox:
        """Keeps a worker away from the user's files, and has what earlier ones prepared."""
        return self.files.sandbox(self.stage.folders, self.stage.protect)

    def keep_preparations(self, worker: Worker) -> None:
        """Keep what the worker's script wrote so far (downloads, caches) for all later workers.

        Call it while the worker waits at its first step: what it writes later is thrown away with its trial.
        """
        self.files.keep_preparations(worker)

    def worker(
        self,
        plan: Plan = BASELINE,
        *,
        seed: int | None = None,
        traced: bool = False,
        perturbation: Perturbation | None = None,
        doubled: bool = False,
        closely: bool = False,
        whole: bool = False,
        share_of_epochs: float = 1.0,
        heard: Heard | None = None,
        argv: tuple[str, ...] | None = None,
        turn: str = "",
        at_once: int = 1,
    ) -> Worker:
        """A new worker that trains under ``plan`` from its first step on; if the plan says so, a group of
        them that trains as one, which must have been rehearsed. Raises Refusal if the script's files have
        changed.

        ``whole``: it gets no requests, and ``finish`` waits for its end. ``heard`` is told every line that
        the script prints, in a thread of its own. ``argv`` stands in for the stage's. ``share_of_epochs`` and
        ``turn``: as in ``Job``. ``at_once``: workers that will wait for each other in memory.
        """
        self.check_sources()
        job = Job(
            argv=argv or self.stage.argv,
            module=self.stage.module,
            machine=self.stage.machine,
            plan=plan,
            sandbox=self.sandbox,
            seed=seed,
            traced=traced,
            perturbation=perturbation,
            doubled=doubled,
            frees_gpu=self.starts.room.is_short_for(at_once),
            closely=closely,
            whole=whole,
            share_of_epochs=share_of_epochs,
            batch_divisor=self.stage.batch_divisor,
            samples=self.samples,
            turn=turn,
            evaluations=self.evaluations if closely else self.evaluations is True,
        )
        if self.stage.own_ranks is not None:
            return self._own_group(job, self.stage.own_ranks, heard)
        wish = self._wish(plan)
        if wish is not None:
            assert wish.rehearsed in self._rehearsed, f"{plan.label} was not rehearsed"
            return self._group(job, wish, self._rehearsed[wish.rehearsed], heard)
        return self._start(Rank(job, self._environment()), heard)

    def ranks(self, wish: Wish, folder: str, found: Findings | None, heard: Heard) -> WorkerGroup:
        """New workers to rehearse the first step in ``folder``. ``found``: by the one process before them.
        ``heard`` gets what rank 0 prints, as it comes.
        """
        self.check_sources()
        job = Job(
            argv=self.stage.argv, module=self.stage.module, machine=self.stage.machine,
            sandbox=self.sandbox, seed=SEED, rehearsal=folder, evaluations=self.evaluations is True,
        )  # fmt: skip
        group = self._group(job, wish, found, heard)
        for rank in group.ranks:
            rank.occasion = "the rehearsal"
        return group

    def _group(self, job: Job, wish: Wish, found: Findings | None, heard: Heard | None) -> WorkerGroup:
        environment = self._environment()
        if job.rehearsal:
            environment["PYTHONUNBUFFERED"] = "1"  # output must be read before it is stopped
        with ExitStack() as closing:
            place = closing.enter_context(private_place())
            started: list[WorkerProcess] = []
            with ExitStack() as starting:
                for rank in ranks_of_ours(job, wish, environment, found, place, self.stage.hosts_of(found)):
                    started.append(self._start(rank, None if started else heard))
                    starting.callback(started[-1].stop)
                starting.pop_all()
            return WorkerGroup(started, closing.pop_all())

    def _own_group(self, job: Job, wanted: OwnRanks, heard: Heard | None) -> WorkerGroup:
        """Each launch has its own port: two may run at the same time."""
        self._count += 1
        job = replace(job, terminal=terminal_size())
        environment = self._environment()
        environment.pop("MASTER_PORT", None)
        if job.seed is not None:
            environment["PYTHONHASHSEED"] = str(job.seed % 2**32)
        ranks = ranks_of_their_own(job, replace(wanted, in_trial=True), environment)
        output = replace(self._output(), heard=heard)
        group = start_sandboxed(ranks, job.sandbox, environment, output, self._imported)
        for rank in group.ranks:
            rank.limit = self.limit
        self._watch(group)
        return group

    def _start(self, rank: Rank, heard: Heard | None) -> WorkerProcess:
        self._count += 1
        job = replace(rank.job, terminal=terminal_size())
        seeded = {} if job.seed is None else {"PYTHONHASHSEED": str(job.seed % 2**32)}
        if job.ranks is not None:
            job = replace(job, ranks=replace(job.ranks, cores=rank.cpus))
        environment = {**rank.environment, **seeded}
        output = replace(self._output(), heard=heard)
        worker = WorkerProcess(job, environment, output, rank.inherits, self._imported)
        worker.limit = self.limit
        self._watch(worker)
        return worker

    def _watch(self, worker: Worker) -> None:
        self._started.append(worker)
        self.files.watch(worker)

    def _environment(self) -> dict[str, str]:
        return offline(self.stage.environment, self.aside)

    def check_sources(self) -> None:
        """Raises Refusal if the script, or a module of the user's that it imports, has changed, or what it
        reads was cut.
        """
        self._standard_input.check()
        if self.sources is not None:
            self.sources.check()

    def _imported(self, paths: Sequence[str]) -> None:
        if self.sources is not None:
            self.sources.imported(paths)

    def rehearse(self, plan: Plan, briefly: bool = False) -> None:
        """Call it before starting a worker under ``plan``: if that has several processes, the script is
        rehearsed in that many, once. ``briefly``: as far as needed to time it; what is to be kept is
        rehearsed in full.

        Raises PlanRefused if they do not train what one trains, and what ``findings_of`` raises.
        """
        wish = self._wish(plan)
        if wish is None:
            return
        if wish.rehearsed not in (self._rehearsed if briefly else self._in_full):
            with self.stopwatch.on("rehearsing"):
                self._rehearsed[wish.rehearsed] = findings_of(self, wish.rehearsed, briefly)
            if not briefly:
                self._in_full.add(wish.rehearsed)
        refusals = self._rehearsed[wish.rehearsed].refusals
        if refusals:
            raise PlanRefused("processes", "; ".join(refusals))

    def foreseen_rehearsal(self, plan: Plan, start_seconds: float) -> float:
        """Seconds before the next worker under ``plan`` can be timed: a brief rehearsal, if one is
        needed.
        """
        wish = self._wish(plan)
        return 0.0 if wish is None or wish.rehearsed in self._rehearsed else foreseen(start_seconds)

    def _wish(self, plan: Plan) -> Wish | None:
        """The ranks of ours that ``plan`` asks for; None for one process, and for a script's own ranks."""
        return wish_of(plan) if self.stage.own_ranks is None else None

    def rank_input(self) -> Given | None:
        """The standard input of a rank of a run, which reads all of it, like every other rank. None at a
        terminal, which is rank 0's, and if there is none.
        """
        if isinstance(self._standard_input, Stream):
            self._standard_input.most_bytes = sys.maxsize
        return None if isinstance(self._standard_input, Terminal) else self._standard_input.give()

    def _output(self) -> Output:
        """The output of the next worker, and what it reads."""
        where = Output(stdout_to_stderr=self.stage.stdout_to_stderr)
        if self.folder is not None:
            check_room(self.aside)
            where = output_into(self.folder, f"worker-{self._count:03}")
        given = self._standard_input.give()
        return replace(where, given=given, stands_in=self._standard_input.stands_in)
