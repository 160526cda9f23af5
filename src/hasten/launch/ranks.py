"""Ranks of one machine: N workers that are started, interrupted and ended as one program.

Rank 0 has the terminal. All ranks are in our process group, so that a shell's Ctrl-Z, or a stop of the whole
group, stops all of them. The kernel ends them with us (prctl(2), PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from ..errors import WorkerError
from ..inside.job import Job
from ..inside.process.orphans import adopt_orphans, end_orphans
from ..inside.sandbox.containment import die_with_parent
from ..machine.vitals import killed_for_memory
from ..saying import say
from .exit_codes import WAITED, how_it_ended
from .one_process import render
from .process_states import ask_where_it_stands, is_stopped, stack_in
from .signals import PASSED_ON, Signals
from .standard_input import Given, terminal_like, terminal_size
from .tail import Tail

GRACE_SECONDS = 3.0  # between SIGTERM and SIGKILL, once a rank has failed
PATIENCE_SECONDS = 30.0  # for an end of their own, once the user has asked for it
CAUSE_SECONDS = 5.0  # for another host to tell why ranks there have ended
CANNOT_GO_ON = 70  # the exit code of a rank that cannot go on with the others
_SHOWN_LINES = 20


@dataclass(frozen=True)
class Rank:
    """A worker to start. ``environment``: the user's, plus this rank's own. ``cpus``: the logical CPUs to
    bind it to; empty for no binding. ``inherits``: descriptors that stay open in it. ``given``: its standard
    input. Without it, rank 0 has ours, and the others have none, or a terminal of the same size as ours.
    """

    job: Job
    environment: Mapping[str, str]
    cpus: tuple[int, ...] = ()
    inherits: tuple[int, ...] = ()
    given: Given | None = None


@dataclass(frozen=True)
class Elsewhere:
    """Ranks of the same training on other machines. ``numbers``: of those that are started here, of ``size``
    in all, on the host called ``name``. ``follow`` is given the processes by rank. ``failure`` tells why the
    others cannot go on, and what code to end with, if it comes within so many seconds; SIGCHLD comes when it
    is there. ``fail`` tells the others.
    """

    numbers: Sequence[int]
    size: int
    name: str
    follow: Callable[[Mapping[int, int]], None]
    failure: Callable[[float], tuple[str, int] | None]
    fail: Callable[[str, int], None]


def run_ranks(
    ranks: Sequence[Rank],
    say: Callable[[str], None],
    *,
    all_speak: bool = False,
    python: str = sys.executable,
    elsewhere: Elsewhere | None = None,
) -> int:
    """Start the ranks and wait for their end. Returns the exit code: rank 0's, or that of the rank that
    failed first, 128 plus the signal's number if one killed it.

    A rank that fails ends the others, and ``say`` is told which it was, how it ended and its last words.
    What ranks other than 0 print is kept, and its end shown where they fail; with ``all_speak`` it is printed
    as it comes, as under torchrun. ``elsewhere``: there are more, whose failure ends these, too. Call it from
    the main thread. Raises WorkerError if one cannot be started.
    """
    with Signals() as signals:
        adopt_orphans()
        launch = _Launch(signals, say, elsewhere.size if elsewhere else len(ranks), elsewhere)
        numbers = elsewhere.numbers if elsewhere else range(len(ranks))
        try:
            for number, rank in zip(numbers, ranks, strict=True):
                launch.start(number, rank, python, all_speak)
            launch.listen()
            return launch.wait()
        finally:
            launch.end_at_once()


class _Launch:
    def __init__(
        self, signals: Signals, say: Callable[[str], None], size: int, elsewhere: Elsewhere | None
    ) -> None:
        self._signals, self._say, self._size, self._elsewhere = signals, say, size, elsewhere
        self._ended_elsewhere: tuple[str, int] | None = None
        self._processes: dict[int, subprocess.Popen[bytes]] = {}  # of all ranks
        self._alive: dict[int, subprocess.Popen[bytes]] = {}
        self._tails: dict[int, Tail] = {}
        self._given: list[Given] = []  # not served yet
        self._sandboxed: set[int] = set()  # signals do not reach these, and their output is not kept
        self._failed: int | None = None  # the rank that failed first
        self._asked = False  # the user asked for an end
        self._killed_before = killed_for_memory()
        self._where = f" on host {elsewhere.name}" if elsewhere is not None else ""

    def start(self, number: int, rank: Rank, python: str, all_speak: bool) -> None:
        job = replace(rank.job, terminal=rank.job.terminal or terminal_size())
        argv, environment = render(job, rank.environment, python)
        kept: int | None = subprocess.PIPE if number else None
        given = rank.given
        if given is None and number and os.isatty(0):
            with suppress(OSError):
                given = terminal_like(0)
        if given is not None:
            self._given.append(given)
        own = () if rank.job.descriptor is None else (rank.job.descriptor,)
        try:
            process = subprocess.Popen(
                argv,
                env=environment,
                pass_fds=(*own, *rank.inherits),
                stdin=given.descriptor if given is not None else subprocess.DEVNULL if number else None,
                stdout=None if all_speak else kept,
                stderr=kept if all_speak or not number else subprocess.STDOUT,
                preexec_fn=partial(_before_exec, os.getpid(), rank.cpus, self._signals.mask_before),
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise WorkerError(
                f"rank {number} of {self._size} could not be started: {error}. Fewer ranks may fit"
            ) from None
        self._processes[number] = self._alive[number] = process
        if rank.job.sandbox is not None:
            self._sandboxed.add(number)
        pipe = process.stderr if all_speak else process.stdout
        if pipe is not None:
            self._tails[number] = Tail(pipe, shown=all_speak)

    def listen(self) -> None:
        """Call after the last fork: a thread holding a lock then would leave it locked in the child."""
        for tail in self._tails.values():
            tail.start()
        while self._given:
            self._given.pop().serve()
        if self._elsewhere is not None:
            self._elsewhere.follow({number: process.pid for number, process in self._processes.items()})

    def wait(self) -> int:
        """The exit code, once all ranks have ended."""
        while self._alive:
            number, from_terminal = self._signals.next()
            if number == signal.SIGALRM:
                self._lose_patience()
            elif number in PASSED_ON:
                self._pass_on(number, from_terminal)
            self._reap()
            self._look_elsewhere()
        if self._elsewhere is not None and self._failed is not None:
            # a rank that cannot go on without others ends because of them, and their host tells why
            missed = self._processes[self._failed].returncode == CANNOT_GO_ON
            self._ended_elsewhere = self._elsewhere.failure(CAUSE_SECONDS if missed else 0.0)
        if self._ended_elsewhere is not None:
            self._say(f"{self._ended_elsewhere[0]}; all ranks were ended")
            return self._ended_elsewhere[1]
        if self._failed is None:
            return _as_exit_code(self._processes[min(self._processes)].returncode)
        self._tell_failure(self._failed)
        return _as_exit_code(self._processes[self._failed].returncode)

    # ---- ranks of other machines
    def _look_elsewhere(self) -> None:
        if self._elsewhere is None or self._failed is not None or self._ended_elsewhere is not None:
            return
        self._ended_elsewhere = self._elsewhere.failure(0.0)
        if self._ended_elsewhere is not None:
            self._asked = True
            self._tell_where_they_stand(hung=self._ended_elsewhere[1] == WAITED)
            self._send(signal.SIGTERM)
            self._signals.alarm(GRACE_SECONDS)

    def end_at_once(self) -> None:
        """Leave nothing behind. After an end without failure nothing of ours is left."""
        failed = bool(self._alive) or self._failed is not None or self._asked
        self._send(signal.SIGKILL)
        for process in self._alive.values():
            process.wait()
        if failed:
            end_orphans()
        for tail in self._tails.values():
            tail.finish()

    def _pass_on(self, number: int, from_terminal: bool) -> None:
        if not from_terminal:  # which signals the whole process group
            self._send(number)
        if self._failed is None and not self._asked:
            self._signals.alarm(PATIENCE_SECONDS)
        self._asked = True

    def _reap(self) -> None:
        ended = [number for number, process in self._alive.items() if process.poll() is not None]
        for number in ended:
            del self._alive[number]
        failed = [number for number in ended if self._processes[number].returncode]
        if failed and self._failed is None and not self._asked:
            # if several are seen at once, a killed one explains those that miss it
            self._failed = min(failed, key=lambda number: (self._processes[number].returncode > 0, number))
            self._tell_where_they_stand(hung=self._processes[self._failed].returncode == WAITED)
            self._send(signal.SIGTERM)
            self._signals.alarm(GRACE_SECONDS)
        if self._asked and self._alive.keys() <= self._sandboxed:
            self._send(signal.SIGKILL)

    def _lose_patience(self) -> None:
        if self._failed is None and self._ended_elsewhere is None:
            names = ", ".join(map(str, self._alive))
            self._say(f"killing what has not ended within {PATIENCE_SECONDS:g} s: rank {names}")
        self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        for process in self._alive.values():
            with suppress(ProcessLookupError):
                process.send_signal(number)

    def _tell_where_they_stand(self, hung: bool) -> None:
        """Of ranks that are to be ended: those that are stopped, and where one has ``hung``, all."""
        standing = {n: one.pid for n, one in self._alive.items() if hung or is_stopped(one.pid)}
        for number, pid in standing.items():
            self._say(f"where rank {number}{self._where} stood:")
            tail = self._tails.get(number)
            if ask_where_it_stands(pid) and tail is not None and not tail.shown:
                say("\n".join(stack_in(tail)), lines=True)

    def _tell_failure(self, number: int) -> None:
        end_orphans()  # they may hold its pipe
        tail, words = self._tails.get(number), ""
        if tail is not None:
            tail.finish()
            lines = tail.lines(_SHOWN_LINES)
            if lines and not tail.shown:
                self._say(f"the last lines of rank {number}:")
                say("\n".join(f"    {line}" for line in lines), lines=True)
            words = next((line.strip() for line in reversed(lines) if line.strip()), "")
        others = "; the other ranks were ended" if self._size > 1 else ""
        for_memory = killed_for_memory() > self._killed_before
        how = how_it_ended(self._processes[number].returncode, for_memory)
        told = f"rank {number} of {self._size}{self._where} {how}"
        self._say(f"{told}{others}{f': {words}' if words else ''}")
        if self._elsewhere is not None:
            code = _as_exit_code(self._processes[number].returncode)
            self._elsewhere.fail(f"{told}{f': {words}' if words else ''}", code)


def _before_exec(parent: int, cpus: tuple[int, ...], mask: set[signal.Signals]) -> None:
    """Runs in the new process, before it becomes a worker."""
    die_with_parent()
    if os.getppid() != parent:  # gone before the kernel knew
        os._exit(1)
    if cpus:
        os.sched_setaffinity(0, cpus)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _as_exit_code(code: int) -> int:
    return 128 - code if code < 0 else code
