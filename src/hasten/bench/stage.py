"""Where trials take place: the script with its arguments, its environment, and the folders that must stay
untouched.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from .. import safe_files
from ..inside.job import Job, Perturbation, Sandbox
from ..launch.chosen import OwnRanks, ranks_of_ours, ranks_of_their_own
from ..launch.ranks import Rank
from ..launch.rendezvous import private_place
from ..launch.shares import shares
from ..launch.standard_input import (
    Given,
    Nothing,
    StandardInput,
    Stream,
    Terminal,
    standard_input,
    terminal_size,
)
from ..launch.together import Wish, wish_of
from ..lost_writes import check_room
from ..records.machine import Machine
from ..records.plan import BASELINE, Plan
from ..records.ranks import Findings
from ..scripts.sources import Sources
from .rehearsal import SEED, foreseen, rehearse
from .workers.ending import PlanRefused
from .workers.limit import Limit
from .workers.listening import Heard
from .workers.output import Output
from .workers.process import WorkerProcess
from .workers.sandboxed import start_sandboxed
from .workers.starting import signals_held
from .workers.trial_files import TrialFiles
from .workers.worker import Worker
from .workers.worker_group import WorkerGroup


@dataclass
class Stage:
    """Starts workers for one script. Use as a context: what protects the user's files is taken down at the
    end.

    ``folders``, the working directory and the script's folder, must be protected; all else that the script
    can write is where that is possible. ``protect`` False is the user's --allow-writes: protection is still
    tried, but its absence is no reason to stop. ``output`` maps a worker's number to where its output goes.
    """

    argv: tuple[str, ...]
    machine: Machine
    environment: Mapping[str, str]
    folders: tuple[str, ...]
    module: bool = False  # argv[0] names a module, as with python -m
    protect: bool = True
    trial_folder: Path | None = None  # None: the workers' output goes where ours goes
    own_ranks: OwnRanks | None = None  # the script is one of several by itself; None: it trains alone
    stdout_to_stderr: bool = False  # keep our standard output free of the script's
    sources: Sources | None = None  # looked at before each worker: all must run the same files
    limit: Limit = field(default_factory=Limit)  # how long workers are waited for
    protection: str = ""  # "overlay", "landlock" or "off", known once a worker has started
    written_outside: Sequence[str] = ()  # files that the script wrote elsewhere, known at the end
    _files: TrialFiles | None = field(default=None, init=False)  # while trials take place
    _standard_input: StandardInput = field(default_factory=Nothing, init=False)
    _count: int = field(default=0, init=False)
    _rehearsed: dict[Wish, Findings] = field(default_factory=dict, init=False)

    def __enter__(self) -> Stage:
        with ExitStack() as starting:
            with signals_held():
                self._files = TrialFiles(self.folders, self.environment)
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
        """Only within the context."""
        assert self._files is not None
        return self._files

    @property
    def aside(self) -> str:
        """A folder outside the user's, which all workers see, and which goes with the stage."""
        return self.files.aside

    @property
    def seen(self) -> Machine:
        """What a worker sees of the machine: all of it, or a rank's share."""
        if self.own_ranks is None:
            return self.machine
        return shares(self.machine, self.own_ranks.count)[0].part_of(self.machine)

    @property
    def sandbox(self) -> Sandbox:
        """What keeps a worker from the user's files, with what earlier ones prepared."""
        return self.files.sandbox(self.folders, self.protect)

    def keep_preparations(self, worker: Worker) -> None:
        """What the worker's script wrote until now (downloads, caches) is there for all later workers.

        Call it while the worker stands at its first step: what it writes later is thrown away with its trial.
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
        heard: Heard | None = None,
    ) -> Worker:
        """A new worker that trains under ``plan`` from its first step on; a group of them where the plan says
        so, which trains as one. Raises Refusal where the script's files have changed.

        ``whole``: it is not conversed with, and waited for by ``finish``. ``heard`` is told every line that
        the script prints, in a thread of its own.
        """
        self.check_sources()
        job = Job(
            argv=self.argv,
            module=self.module,
            machine=self.machine,
            plan=plan,
            sandbox=self.sandbox,
            seed=seed,
            traced=traced,
            perturbation=perturbation,
            doubled=doubled,
            closely=closely,
            whole=whole,
        )
        if self.own_ranks is not None:
            return self._own_group(job, self.own_ranks, heard)
        wish = wish_of(plan)
        if wish is not None:
            return self._group(job, wish, self._findings_for(wish), heard)
        return self._start(Rank(job, offline(self.environment, self.aside)), heard)

    def ranks(self, wish: Wish, folder: str, found: Findings | None, heard: Heard) -> WorkerGroup:
        """New workers to rehearse the first step in ``folder``. ``found``: by the one process before them.
        ``heard`` is told what rank 0 prints, as it does.
        """
        self.check_sources()
        job = Job(
            argv=self.argv,
            module=self.module,
            machine=self.machine,
            sandbox=self.sandbox,
            seed=SEED,
            rehearsal=folder,
        )
        group = self._group(job, wish, found, heard)
        for rank in group.ranks:
            rank.occasion = "the rehearsal"
        return group

    def _group(self, job: Job, wish: Wish, found: Findings | None, heard: Heard | None) -> WorkerGroup:
        environment = offline(self.environment, self.aside)
        if job.rehearsal:
            environment["PYTHONUNBUFFERED"] = "1"  # what is printed is to be heard before it is stopped
        with ExitStack() as closing:
            place = closing.enter_context(private_place())
            started: list[WorkerProcess] = []
            with ExitStack() as starting:
                for rank in ranks_of_ours(job, wish, environment, found, place):
                    started.append(self._start(rank, None if started else heard))
                    starting.callback(started[-1].stop)
                starting.pop_all()
            return WorkerGroup(started, closing.pop_all())

    def _own_group(self, job: Job, wanted: OwnRanks, heard: Heard | None) -> WorkerGroup:
        """Each launch at a port of its own: two may stand beside each other."""
        self._count += 1
        job = replace(job, terminal=terminal_size())
        environment = offline(self.environment, self.aside)
        environment.pop("MASTER_PORT", None)
        if job.seed is not None:
            environment["PYTHONHASHSEED"] = str(job.seed % 2**32)
        ranks = ranks_of_their_own(job, replace(wanted, in_trial=True), environment)
        output = replace(self._output(), heard=heard)
        group = start_sandboxed(ranks, job.sandbox, environment, output, self._imported)
        for rank in group.ranks:
            rank.limit = self.limit
        self.files.watch(group)
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
        self.files.watch(worker)
        return worker

    def check_sources(self) -> None:
        """Raises Refusal where the script, or a module of the user's that it imports, has changed, or what it
        reads was cut.
        """
        self._standard_input.check()
        if self.sources is not None:
            self.sources.check()

    def _imported(self, paths: Sequence[str]) -> None:
        if self.sources is not None:
            self.sources.imported(paths)

    def _findings_for(self, wish: Wish) -> Findings:
        """Of the rehearsal for ``wish``; there is one for each stage. Raises PlanRefused."""
        if wish.rehearsed not in self._rehearsed:
            self._rehearsed[wish.rehearsed] = rehearse(self, wish.rehearsed)
        found = self._rehearsed[wish.rehearsed]
        if found.refusals:
            raise PlanRefused("processes", "; ".join(found.refusals))
        return found

    def foreseen_rehearsal(self, plan: Plan, start_seconds: float) -> float:
        """What the next worker under ``plan`` takes beside its own start, in seconds: a rehearsal, if one is
        to come.
        """
        wish = wish_of(plan) if self.own_ranks is None else None
        return foreseen(start_seconds) if wish is not None and wish.rehearsed not in self._rehearsed else 0.0

    def rank_input(self) -> Given | None:
        """The standard input of a rank of a run, which reads all of what every other one does. None at a
        terminal, which is rank 0's, and where there is none.
        """
        if isinstance(self._standard_input, Stream):
            self._standard_input.most_bytes = sys.maxsize
        return None if isinstance(self._standard_input, Terminal) else self._standard_input.give()

    def _output(self) -> Output:
        """Of the next worker, and what it reads."""
        given = self._standard_input.give()
        return replace(self._where(), given=given, stands_in=self._standard_input.stands_in)

    def _where(self) -> Output:
        if self.trial_folder is None:
            return Output(stdout_to_stderr=self.stdout_to_stderr)
        safe_files.make_folder(self.trial_folder)
        for folder in (self.trial_folder, self.aside):
            check_room(folder)
        name = f"worker-{self._count:03}"
        return Output(self.trial_folder / f"{name}.stdout", self.trial_folder / f"{name}.stderr")


def offline(environment: Mapping[str, str], folder: str) -> dict[str, str]:
    """``environment`` for a trial: it asks experiment trackers to log into files instead of to a server.

    Weights & Biases, Comet and Neptune write below the working directory, which is protected; MLflow into
    ``folder``; ClearML into its cache in the home folder. A tracker that the user switched off stays off.
    What the script itself demands in code, such as ``wandb.init(mode="online")`` or
    ``mlflow.set_tracking_uri(...)``, goes before all of this, and Comet's older ``Experiment()`` asks no
    variable.
    """
    made = {key: value for key, value in environment.items() if key not in _SERVERS_OWN}
    made["GIT_DISCOVERY_ACROSS_FILESYSTEM"] = "1"  # an overlay may begin below a repository's root
    for key, value in _OFFLINE.items():
        if made.get(key, "").lower() not in _SWITCHED_OFF:
            made[key] = value
    runs = Path(folder, "mlruns").absolute().as_uri()
    return {**made, "MLFLOW_TRACKING_URI": runs, "MLFLOW_REGISTRY_URI": runs}


# Sources: the trackers' own pages on environment variables; Comet's and MLflow's configuration in code.
_OFFLINE = {
    "WANDB_MODE": "offline",
    "COMET_MODE": "offline",  # asked by the trainer of transformers
    "COMET_START_ONLINE": "0",  # asked by comet_ml.start()
    "NEPTUNE_MODE": "offline",
    "CLEARML_OFFLINE_MODE": "1",
    "MLFLOW_ALLOW_FILE_STORE": "true",  # without, MLflow 3 refuses to log into files
}
_SWITCHED_OFF = ("disabled", "debug")  # "debug" is what Neptune calls it
_SERVERS_OWN = ("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID")  # name what only the user's server knows
