"""Slurm: a batch script whose srun starts the ranks, or torchrun on each host if ranks may be restarted.

Sources: sbatch(1), srun(1), squeue(1), scontrol(1).
"""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from ...errors import WorkerError
from ...records.launch_job import LaunchJob
from ..programs import path_of
from .engine import FOLDER, Does, LaunchEngine, Rendered, Start, Submission
from .torchrun import ENTRY, words

_PROGRAMS = ("sbatch", "srun", "squeue", "scontrol", "scancel")
_POLL_SECONDS = 1.0  # at least between two questions to a controller that serves a whole cluster
_OVER = {
    *("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "BOOT_FAIL"),
    *("DEADLINE", "REVOKED"),
}
_MASTER = '"$MASTER_ADDR"'


class Slurm(LaunchEngine):
    """Knows its hosts, and finds where ranks meet."""

    name = "slurm"
    does = Does(restarts=True, hosts=True, submits=True)

    def available(self) -> str | None:
        missing = [name for name in _PROGRAMS if not path_of(name)]
        if missing:
            return f"there is no {missing[0]} on PATH: log in to a host of the cluster that submits jobs"
        return None

    def render(self, job: LaunchJob) -> Rendered:
        self.check(job)
        script = str(Path(job.folder) / FOLDER / f"{job.name}.sbatch")
        output = f"{script.removesuffix('.sbatch')}.out"
        literal = output.replace("%", "%%")  # %j and others would be filled in
        argv = (
            *("sbatch", "--parsable", "--export=ALL", f"--chdir={job.folder}", f"--output={literal}"),
            *(*job.options, script),
        )
        hidden = {name: value for name, value in job.environment.items() if name in job.secrets}
        text = "\n".join(_lines(job)) + "\n"
        return Rendered((Start(argv, hidden),), {script: text}, output)

    def submit(self, job: LaunchJob, rendered: Rendered) -> Submission:
        (start,) = rendered.starts
        done = subprocess.run(
            [path_of(start.argv[0]), *start.argv[1:]],
            env={**os.environ, **start.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        number = done.stdout.strip().partition(";")[0]
        if done.returncode or not number.isdecimal():
            raise WorkerError(f"sbatch did not accept the job: {done.stderr.strip() or done.stdout.strip()}")
        return SlurmJob(number)


class SlurmJob(Submission):
    """One that is in the queue."""

    def __init__(self, number: str) -> None:
        self._number = number
        self._asked = 0.0

    @property
    def label(self) -> str:
        return f"job {self._number}"

    def poll(self) -> int | None:
        """Asks at most once a second; in between, nothing is known to have changed."""
        now = time.monotonic()
        if now < self._asked + _POLL_SECONDS:
            return None
        self._asked = now
        state = _asked(
            "squeue", "--noheader", "--states=all", f"--jobs={self._number}", "--format=%T"
        ).strip()
        if state and state not in _OVER:
            return None
        return _exit_code(_asked("scontrol", "--oneliner", "show", "job", self._number))

    def cancel(self) -> None:
        _asked("scancel", self._number)


def _lines(job: LaunchJob) -> Iterator[str]:
    """The lines of the batch script. All that is not ours is quoted for the shell that reads it."""
    by_torchrun = job.max_restarts > 0
    yield "#!/bin/bash"
    yield f"#SBATCH --job-name={job.name}"
    yield f"#SBATCH --nodes={job.nodes}"
    yield f"#SBATCH --ntasks-per-node={1 if by_torchrun else job.nproc_per_node}"
    yield "#SBATCH --no-requeue"
    yield "set -eu"
    for name, value in job.environment.items():
        if name not in job.secrets:
            yield f"export {name}={shlex.quote(value)}"
    if job.address:
        yield f"export MASTER_ADDR={shlex.quote(job.address)} MASTER_PORT={job.port}"
    else:
        yield 'MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"'
        yield "MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))"
        yield "export MASTER_ADDR MASTER_PORT"
    # from 22.05 on srun does not take it from sbatch by itself
    yield 'if [ -n "${SLURM_CPUS_PER_TASK:-}" ]; then export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"; fi'
    command = _torchrun(job) if by_torchrun else shlex.join(job.command)
    yield f"exec srun --kill-on-bad-exit=1 --cpu-bind=none -- {command}"


def _torchrun(job: LaunchJob) -> str:
    """One on each host, which know their place by the batch script's variables."""
    several = job.nodes.most > 1
    told = list(words(job, "MASTER_ADDR", None))
    if several:
        told[told.index("--rdzv-endpoint") + 1] = ""
    quoted = [shlex.quote(word) for word in told]
    if several:
        quoted[told.index("--rdzv-endpoint") + 1] = '"$MASTER_ADDR:$MASTER_PORT"'
    towards = [_MASTER, shlex.quote(job.interface)] if several else ["''", "''"]
    return " ".join([shlex.quote(job.python), shlex.quote(str(ENTRY)), *towards, *quoted])


def _exit_code(text: str) -> int:
    """The exit code of a job that is over: ``scontrol`` says "ExitCode=2:0", a code and a signal. If it does
    not know the job any more, or the job did not reach its end, the job has failed.
    """
    pairs = [word.partition("=") for word in text.split()]
    told = {name: value for name, _, value in reversed(pairs)}  # the first counts: paths come later
    code, _, signal = told.get("ExitCode", "").partition(":")
    if not code.isdecimal() or not signal.isdecimal():
        return 1
    found = int(code) or (128 + int(signal) if int(signal) else 0)
    return found if found or told.get("JobState") == "COMPLETED" else 1


def _asked(*words: str) -> str:
    done = subprocess.run(
        [path_of(words[0]), *words[1:]], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    return done.stdout
