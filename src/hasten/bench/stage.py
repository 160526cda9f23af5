"""Where trials take place: the script with its arguments, its environment, and the folders that must stay
untouched.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..inside.job import Job, Perturbation, Shield
from ..inside.protect import keep, make_layers, remove_layers
from ..records.machine import Machine
from ..records.plan import BASELINE, Plan
from .process import Output, WorkerProcess


@dataclass
class Stage:
    """Starts workers for one script. Use as a context: what protects the user's files is taken down at the
    end.

    ``folders`` are the working directory and the script's folder. ``protect`` False is the user's
    --allow-writes: protection is still tried, but its absence is no reason to stop. ``output`` maps a
    worker's number to where its output goes.
    """

    argv: tuple[str, ...]
    machine: Machine
    environment: Mapping[str, str]
    folders: tuple[str, ...]
    module: bool = False  # argv[0] names a module, as with python -m
    protect: bool = True
    trial_folder: Path | None = None  # None: the workers' output goes where ours goes
    stdout_to_stderr: bool = False  # keep our standard output free of the script's
    protection: str = ""  # "overlay" or "off", known once a worker has started
    _layers: str = field(default="", init=False)
    _prelude: tuple[str, ...] = field(default=(), init=False)
    _count: int = field(default=0, init=False)

    def __enter__(self) -> Stage:
        self._layers = make_layers(self.folders)
        return self

    def __exit__(self, *_: object) -> None:
        remove_layers(self._layers)

    def keep_preparations(self, worker: WorkerProcess) -> None:
        """What the worker's script wrote until now (downloads, caches) is there for all later workers.

        Call it while the worker stands at its first step: what it writes later is thrown away with its trial.
        """
        if not any(os.listdir(upper) for upper in worker.uppers):
            return
        kept = [os.path.join(self._layers, f"prelude-{number}") for number in range(len(worker.uppers))]
        for upper, to in zip(worker.uppers, kept, strict=True):
            keep(upper, to)
        self._prelude = tuple(kept)

    def worker(
        self,
        plan: Plan = BASELINE,
        *,
        seed: int | None = None,
        witness: bool = False,
        perturbation: Perturbation | None = None,
    ) -> WorkerProcess:
        """A new worker that trains under ``plan`` from its first step on."""
        self._count += 1
        job = Job(
            argv=self.argv,
            module=self.module,
            machine=self.machine,
            plan=plan,
            shield=Shield(self.folders, self._layers, self._prelude, required=self.protect),
            seed=seed,
            witness=witness,
            perturbation=perturbation,
        )
        environment = dict(self.environment)
        if seed is not None:
            environment["PYTHONHASHSEED"] = str(seed % 2**32)
        return WorkerProcess(job, environment, self._output())

    def _output(self) -> Output:
        if self.trial_folder is None:
            return Output(stdout_to_stderr=self.stdout_to_stderr)
        self.trial_folder.mkdir(parents=True, exist_ok=True)
        name = f"worker-{self._count:03}"
        return Output(self.trial_folder / f"{name}.stdout", self.trial_folder / f"{name}.stderr")
