"""A launcher's processes on several machines as one company: they find each other, agree, and end together.

Each process that a launcher has started joins. The first of a host leads it: that one starts the host's ranks.
The others wait for the end. All say now and then that they are there, and hear from that whether somebody failed.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import UsageError, WorkerError
from ..inside.distributed.meeting import Meeting, NoMeeting, OtherKey
from ..inside.job import Hosts
from ..records.codec import from_json, to_json
from .job_key import VARIABLE, job_key
from .keeper import Failure, Keeper, in_background
from .launched_rank import LaunchedRank
from .own_address import listening_address, master_of, ports_from
from .seats import Seat, hosts_of, names_of, told

DEADLINE = "HASTEN_DEADLINE"
_DEADLINE_SECONDS = 60.0
_LEAST_DEADLINE_SECONDS = 2.0
_RETRY_SECONDS = 0.2
_LEAVING_SECONDS = 10.0
_CAUSE_SECONDS = 2.0


class ElsewhereFailed(WorkerError):
    """Another process of the company cannot go on; the message says which, and why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.why)
        self.exit_code = failure.code


class Company:
    """As a context: joins at its beginning, and leaves at its end. Raises UsageError where not all come.

    ``hosts``: of all; ``leads``: whether this process starts its host's ranks. ``facts``: what the others are
    told of this process.
    """

    def __init__(
        self, launched: LaunchedRank, environment: Mapping[str, str], facts: Mapping[str, Any]
    ) -> None:
        self.launched, self._environment, self._facts = launched, environment, facts
        self.deadline_seconds = deadline_of(environment)
        self.seats: list[Seat] = []
        self.by_host: list[list[Seat]] = []
        self.failure: Failure | None = None
        self.on_failure: Callable[[], None] | None = None  # called in another thread
        self._keeper: Keeper | None = None
        self._said = self._launches = 0
        self._left = threading.Event()
        self._followed: dict[int, int] = {}  # rank -> process
        self._stopped_since: dict[int, float] = {}

    # ---- coming
    def __enter__(self) -> Company:
        launched = self.launched
        host, port = master_of(self._environment)
        ports = ports_from(port, self._environment)
        self._key = job_key(self._environment, f"{host}:{port} {launched.job} {launched.size}")
        if launched.rank == 0:
            address = listening_address(host, launched.local_size == launched.size)
            self._keeper = self._keep(address, ports)
            where = [self._keeper.address]
        else:
            where = [f"{host}:{one}" for one in ports]
        try:
            self._meeting = self._reach(where)
            self._pulse = Meeting(self._meeting_address, self._key, self.deadline_seconds)
            in_background(self._beat, "hasten pulse")
            self._sit_down()
        except BaseException:
            self._close()
            raise
        return self

    def _keep(self, address: str, ports: Sequence[int]) -> Keeper:
        try:
            return Keeper(address, ports, self._key, self.deadline_seconds)
        except OSError as error:
            raise UsageError(
                f"rank 0 cannot listen at {address}, ports {ports[0]} to {ports[-1]}: {error}. Set MASTER_PORT "
                "to one that is free, on all hosts"
            ) from None

    def _reach(self, where: Sequence[str]) -> Meeting:
        """Raises UsageError where nobody of this job is there for twice the deadline."""
        until = time.monotonic() + 2 * self.deadline_seconds
        other = False
        while True:
            for address in where:
                try:
                    made = Meeting(address, self._key, self.deadline_seconds)
                    self._meeting_address = address
                    return made
                except OtherKey:
                    other = True
                except NoMeeting as error:
                    why = error
            if time.monotonic() > until:
                break
            time.sleep(_RETRY_SECONDS)
        if other:
            raise UsageError(
                f"rank 0 at {where[0]} has another secret, or is of another job: set {VARIABLE} to the same "
                "secret on all hosts (openssl rand -hex 16), and give all the same MASTER_ADDR, MASTER_PORT, "
                "job and number of ranks"
            )
        raise UsageError(
            f"rank {self.launched.rank} on {socket.gethostname()} did not find rank 0 within "
            f"{2 * self.deadline_seconds:g} s: {why}. Is rank 0 started, is MASTER_ADDR its machine, and does a "
            f"firewall let {where[0]} to {where[-1].rpartition(':')[2]} through?"
        )

    def _sit_down(self) -> None:
        """Tell who this is, and return once all have."""
        launched = self.launched
        local = any(name in self._environment for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
        stated = local or launched.launcher != "torchrun"  # by hand these two may be missing
        mine = Seat(
            launched.rank,
            socket.gethostname(),
            self._meeting.own_address,
            launched.local_rank if stated else None,
            launched.local_size if stated else None,
            tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else (),
            self._environment.get("CUDA_VISIBLE_DEVICES"),
            self._facts,
        )
        self._put(f"seat/{launched.rank}", to_json(mine))
        until = time.monotonic() + 2 * self.deadline_seconds
        found: dict[int, Seat] = {}
        while len(found) < launched.size:
            for rank in set(range(launched.size)) - set(found):
                text = self._look(f"seat/{rank}", wait=len(found) == launched.size - 1)
                if text is not None:
                    found[rank] = from_json(Seat, json.loads(text))
            if len(found) < launched.size and time.monotonic() > until:
                self._miss(found)
            time.sleep(0.05)
        self.seats = [found[rank] for rank in sorted(found)]
        self.by_host = hosts_of(self.seats)

    def _miss(self, found: Mapping[int, Seat]) -> None:
        missing = sorted(set(range(self.launched.size)) - set(found))
        raise UsageError(
            f"{len(missing)} of {self.launched.size} ranks have not come within {2 * self.deadline_seconds:g} s: "
            f"{', '.join(map(str, missing))}. There are {told(hosts_of(list(found.values())))}. Start hasten on "
            "all hosts, with the same MASTER_ADDR, MASTER_PORT and number of hosts"
        )

    # ---- who is who
    @property
    def here(self) -> int:
        """The number of this process's host."""
        return next(
            n for n, host in enumerate(self.by_host) if any(s.rank == self.launched.rank for s in host)
        )

    @property
    def leads(self) -> bool:
        return self.by_host[self.here][0].rank == self.launched.rank

    @property
    def name(self) -> str:
        """Of this host."""
        return self.hosts.names[self.here]

    @property
    def hosts(self) -> Hosts:
        """As the ranks of this host are told."""
        return self._hosts(self._launches)

    def launch(self) -> Hosts:
        """As ``hosts``, for new ranks, which must not find what earlier ones told each other. All leaders
        call it in the same order.
        """
        self._launches += 1
        return self._hosts(self._launches)

    def _hosts(self, launch: int) -> Hosts:
        ranks = tuple(tuple(seat.rank for seat in host) for host in self.by_host)
        address = self.by_host[self.here][0].address
        return Hosts(
            ranks, names_of(self.by_host), self.here, address, self._meeting_address, self._key.hex(), launch
        )

    # ---- agreeing
    def share(self, value: Any) -> list[Any]:
        """What all leaders say at this place, by host; all of them come here, in the same order. Raises
        ElsewhereFailed where one cannot.
        """
        self._said += 1
        self._put(f"said/{self._said}/{self.here}", value)
        return [self._heard(f"said/{self._said}/{number}") for number in range(len(self.by_host))]

    def _heard(self, name: str) -> Any:
        while True:
            text = self._look(name)
            if text is not None:
                return json.loads(text)
            if self.failure is not None:
                raise ElsewhereFailed(self.failure)

    def _put(self, name: str, value: Any) -> None:
        with self._speaking():
            self._meeting.put(name, json.dumps(value).encode())

    def _look(self, name: str, wait: bool = True) -> bytes | None:
        with self._speaking():
            return self._meeting.look(name, wait)

    def _speaking(self) -> _Speaking:
        return _Speaking(self)

    # ---- ending
    def fail(self, why: str, code: int) -> None:
        """This process cannot go on, and so nobody can: the others are told why."""
        self._note(Failure(why, code))
        with suppress(NoMeeting):
            self._pulse.ask("fail", why=why, code=code)

    def follow(self, processes: Mapping[int, int]) -> None:
        """Look after these processes, by rank: one that is stopped for the deadline ends all."""
        self._followed = dict(processes)

    def wait_for_end(self) -> int:
        """The exit code of all, once all leaders' ranks have ended."""
        for number in range(len(self.by_host)):
            self._heard(f"ended/{number}")
        return 0

    def ended(self) -> int:
        """This host's ranks have ended well; as ``wait_for_end``."""
        self._put(f"ended/{self.here}", True)
        return self.wait_for_end()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if isinstance(error, WorkerError) and not isinstance(error, ElsewhereFailed):
                self._await_the_cause()
            if error is not None and self.failure is None:
                who = f"host {self.name}" if self.by_host else socket.gethostname()
                why = f"{who}: {str(error) or type(error).__name__}"
                self.fail(why, int(getattr(error, "exit_code", 1)))
            elif isinstance(error, WorkerError) and self.failure is not None:
                raise ElsewhereFailed(self.failure) from None
        finally:
            self._close()

    def _await_the_cause(self) -> None:
        """A worker that misses another host's ends as well: that host tells why, sooner or later."""
        until = time.monotonic() + _CAUSE_SECONDS
        while self.failure is None and time.monotonic() < until:
            time.sleep(0.05)

    def _close(self) -> None:
        self._left.set()
        pulse = getattr(self, "_pulse", None)
        if pulse is not None:
            with suppress(NoMeeting):
                pulse.ask("leave", rank=self.launched.rank)
        if self._keeper is not None:
            self._keeper.wait_until_left(_LEAVING_SECONDS)
            self._keeper.close()

    # ---- the pulse
    def _beat(self) -> None:
        name = f"rank {self.launched.rank}'s process on host {socket.gethostname()}"
        while not self._left.is_set():
            try:
                told = self._pulse.ask("beat", rank=self.launched.rank, name=name)
            except NoMeeting as error:
                told = {
                    "why": f"rank 0's process cannot be reached from {socket.gethostname()}: {error}",
                    "code": 1,
                }
            if "why" in told and not self._left.is_set():
                self._note(Failure(str(told["why"]), int(told["code"])))
                return
            self._look_after_processes()
            self._left.wait(min(1.0, self.deadline_seconds / 4))

    def _note(self, failure: Failure) -> None:
        if self.failure is None:
            self.failure = failure
            act = self.on_failure
            if act is not None:
                act()
            with suppress(ValueError, OSError):  # it may be waiting for signals
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGCHLD)

    def _look_after_processes(self) -> None:
        now = time.monotonic()
        for rank, process in list(self._followed.items()):
            if not _is_stopped(process):
                self._stopped_since.pop(rank, None)
            elif now - self._stopped_since.setdefault(rank, now) > self.deadline_seconds:
                why = f"rank {rank} on host {self.name} was stopped, and for {self.deadline_seconds:g} s"
                self.fail(f"{why} nobody let it go on", 1)


class _Speaking:
    """A meeting that breaks is a failure of all."""

    def __init__(self, company: Company) -> None:
        self._company = company

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, NoMeeting):
            failure = self._company.failure or Failure(f"rank 0's process cannot be reached: {error}", 1)
            raise ElsewhereFailed(failure) from None


def deadline_of(environment: Mapping[str, str]) -> float:
    """In seconds. Raises UsageError."""
    text = environment.get(DEADLINE, "")
    try:
        seconds = float(text) if text else _DEADLINE_SECONDS
    except ValueError:
        seconds = 0.0
    if not _LEAST_DEADLINE_SECONDS <= seconds < 1e6:
        raise UsageError(
            f"{DEADLINE} is {text!r}: it is the number of seconds after which a host that is silent counts as "
            f"gone, {_LEAST_DEADLINE_SECONDS:g} or more"
        )
    return seconds


def _is_stopped(process: int) -> bool:
    """By proc(5): the letter after the name in parentheses."""
    with suppress(OSError):
        text = Path(f"/proc/{process}/stat").read_text()
        return text.rpartition(")")[2].split()[0] in ("T", "t")
    return False
