"""Ranks of a script that is distributed itself, in one trial: all in one sandbox, each with its own
conversation.
"""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from ...inside.job import Job, Sandbox
from ...launch.ranks import Rank
from ...launch.sandboxed import render
from .process import Imported, WorkerProcess
from .process_start import start_process
from .worker_group import WorkerGroup
from .worker_output import Output


class _SandboxedRank(WorkerProcess):
    """A rank that ``process`` has started. Rank 0 answers for the process."""

    def __init__(
        self,
        number: int,
        job: Job,
        ours: socket.socket,
        process: subprocess.Popen[bytes],
        output: Output,
        imported: Imported,
    ) -> None:
        self._number = number
        self.begin(job, ours, process, output, imported)

    def stop(self) -> None:
        """Stops all of them with rank 0: afterwards the process id may be reused."""
        if self._number == 0:
            super().stop()
        else:
            self._wire.close()

    def send_signal(self, number: signal.Signals) -> None:
        if self._number == 0:  # it goes to the whole group
            super().send_signal(number)


def start_sandboxed(
    ranks: Sequence[Rank],
    sandbox: Sandbox | None,
    environment: Mapping[str, str],
    output: Output,
    imported: Imported = lambda paths: None,
) -> WorkerGroup:
    """``environment``: of the process that starts them. Rank 0's output goes to ``output``; so does the end
    of the others', in standard error, if one of them fails.

    All of them switch at the end of the same step: they count their steps alike,
    because each waits for the others in every step.
    """
    with ExitStack() as theirs:
        ours, told = [], []
        for rank in ranks:
            end, other = socket.socketpair()
            theirs.enter_context(other)
            ours.append(end)
            told.append(replace(rank, job=replace(rank.job, descriptor=other.fileno(), sandbox=None)))
        start = render(told, sandbox, environment)
        theirs.enter_context(start.told)
        process = start_process(start.argv, start.environment, start.descriptors, output)
    workers = []
    for number, (rank, end) in enumerate(zip(ranks, ours, strict=True)):
        first = number == 0  # the rank that reports the sandbox, and whose output is read
        job = replace(rank.job, sandbox=sandbox if first else None)
        workers.append(_SandboxedRank(number, job, end, process, output if first else Output(), imported))
    return WorkerGroup(workers, ExitStack())
