"""A launcher's processes on several machines as one world: they find each other, agree, and end together.

Each process that a launcher has started joins. The first of a host leads it: that one starts the host's
ranks. The others wait for the end. All say now and then that they are there, and hear whether others failed.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from ..errors import UsageError, WorkerError
from ..inside.distributed.meeting import Meeting, NoMeeting
from ..inside.job import Hosts
from ..records.codec import from_json, to_json
from .joining import join
from .keeper import Failure
from .launched_rank import LaunchedRank
from .pulse import Pulse, deadline_of
from .seats import Seat, hosts_of, names_of, told

_LEAVING_SECONDS = 10.0
_CAUSE_SECONDS = 2.0


class ElsewhereFailed(WorkerError):
    """Another process of the world cannot go on; the message says which, and why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.why)
        self.exit_code = failure.code


class World:
    """As a context: joins at its beginning, and leaves at its end. Raises UsageError if not all come.

    ``by_host``: all, by host; ``leads``: whether this process starts its host's ranks. ``facts``: what the
    others learn about this process. ``on_failure`` is called in another thread if others cannot go on.
    """

    def __init__(
        self, launched: LaunchedRank, environment: Mapping[str, str], facts: Mapping[str, Any]
    ) -> None:
        self.launched, self._environment, self._facts = launched, environment, facts
        self.deadline_seconds = deadline_of(environment)
        self.by_host: list[list[Seat]] = []
        self.failure: Failure | None = None
        self.on_failure: Callable[[], None] | None = None
        self._said = self._launches = 0

    # ---- coming
    def __enter__(self) -> World:
        launched, seconds = self.launched, self.deadline_seconds
        self._joined = joined = join(launched, self._environment, seconds)
        beating = Meeting(joined.address, joined.key, seconds)
        self._pulse = Pulse(beating, launched.rank, socket.gethostname(), seconds, self._note)
        try:
            self._put(f"seat/{launched.rank}", to_json(self._own_seat()))
            self.by_host = hosts_of(self._all_seats())
        except BaseException:
            self._leave()
            raise
        return self

    def _own_seat(self) -> Seat:
        launched = self.launched
        # by hand these two may be missing
        stated = launched.launcher != "torchrun" or {"LOCAL_RANK", "LOCAL_WORLD_SIZE"} <= {*self._environment}
        return Seat(
            launched.rank,
            socket.gethostname(),
            self._joined.meeting.own_address,
            launched.local_rank if stated else None,
            launched.local_size if stated else None,
            tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else (),
            self._facts,
        )

    def _all_seats(self) -> list[Seat]:
        """All seats, once all have come. Raises UsageError if some do not within twice the deadline."""
        until = time.monotonic() + 2 * self.deadline_seconds
        found: dict[int, Seat] = {}
        while len(found) < self.launched.size:
            missing = sorted(set(range(self.launched.size)) - set(found))
            for rank in missing:
                text = self._look(f"seat/{rank}", wait=rank == missing[0])
                if text is not None:
                    found[rank] = from_json(Seat, json.loads(text))
            if len(found) < self.launched.size and time.monotonic() > until:
                raise UsageError(
                    f"{len(missing)} of {self.launched.size} ranks have not come within "
                    f"{2 * self.deadline_seconds:g} s: {', '.join(map(str, missing))}. Those that came: "
                    f"{told(hosts_of(list(found.values()), all_came=False))}. Start hasten on all hosts, "
                    "with the same MASTER_ADDR, MASTER_PORT and number of hosts"
                )
        return list(found.values())

    # ---- who is who
    @property
    def here(self) -> int:
        """The number of this process's host."""
        mine = self.launched.rank
        return next(n for n, host in enumerate(self.by_host) if any(seat.rank == mine for seat in host))

    @property
    def leads(self) -> bool:
        return self.by_host[self.here][0].rank == self.launched.rank

    @property
    def names(self) -> tuple[str, ...]:
        """The hosts' names."""
        return names_of(self.by_host)

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.launched.size

    @property
    def key(self) -> bytes:
        """The secret that only the processes of this job know."""
        return self._joined.key

    def clock(self) -> float:
        """What the clock of rank 0's machine shows."""
        with self._speaking():
            return float(self._joined.meeting.ask("clock")["time"])

    def launch(self) -> Hosts:
        """What a new group of ranks of this host is told. It has a new number, so that they do not find what
        earlier ones told each other. All leaders call it in the same order.
        """
        self._launches += 1
        ranks = tuple(tuple(seat.rank for seat in host) for host in self.by_host)
        address, joined = self.by_host[self.here][0].address, self._joined
        return Hosts(ranks, self.names, self.here, address, joined.address, joined.key.hex(), self._launches)

    # ---- agreeing
    def share(self, value: Any) -> list[Any]:
        """The values that the leaders of all hosts pass in this call, by host. All leaders make the same
        calls in the same order. Raises ElsewhereFailed if one cannot.
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
            self._joined.meeting.put(name, json.dumps(value).encode())

    def _look(self, name: str, wait: bool = True) -> bytes | None:
        with self._speaking():
            return self._joined.meeting.look(name, wait)

    @contextmanager
    def _speaking(self) -> Iterator[None]:
        """If the connection to rank 0's process breaks, that is a failure of all."""
        try:
            yield
        except NoMeeting as error:
            why = f"rank 0's process cannot be reached from {socket.gethostname()}: {error}"
            raise ElsewhereFailed(self.failure or Failure(why, 1)) from None

    # ---- ending
    def fail(self, why: str, code: int) -> None:
        """Tell the others that this process cannot go on, and why: then they cannot, either."""
        failure = Failure(why, code)
        self._note(failure)
        self._pulse.fail(failure)

    def follow(self, processes: Mapping[int, int]) -> None:
        """Watch these processes, by rank: if one stays stopped for the deadline, all ranks are ended."""
        self._pulse.follow(processes)

    def ended(self, code: int) -> None:
        """This host's part is over, with that exit code; the other hosts go on."""
        self._put(f"ended/{self.here}", code)

    def wait_for_end(self) -> int:
        """The highest exit code of all hosts, once all are over. Raises ElsewhereFailed if some failed."""
        return max(int(self._heard(f"ended/{number}")) for number in range(len(self.by_host)))

    def await_cause(self, seconds: float) -> Failure | None:
        """Ranks that lose another host's ranks fail, too. Wait for that host to report why."""
        until = time.monotonic() + seconds
        while self.failure is None and time.monotonic() < until:
            time.sleep(0.05)
        return self.failure

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            missed = isinstance(error, WorkerError) and not isinstance(error, ElsewhereFailed)
            cause = self.await_cause(_CAUSE_SECONDS) if missed else self.failure
            if missed and cause is not None:
                raise ElsewhereFailed(cause) from None
            if error is not None and cause is None:
                how = getattr(error, "signal_name", "") or str(error) or type(error).__name__
                why = f"host {self.names[self.here]}: {how}"
                self.fail(why, int(getattr(error, "exit_code", 1)))
        finally:
            self._leave()

    def _leave(self) -> None:
        self._pulse.leave()
        self._joined.meeting.close()
        if self._joined.keeper is not None:
            self._joined.keeper.wait_until_left(_LEAVING_SECONDS)
            self._joined.keeper.close()

    def _note(self, failure: Failure) -> None:
        if self.failure is not None:
            return
        self.failure = failure
        if self.on_failure is not None:
            self.on_failure()
        with suppress(ValueError, OSError):  # it may be waiting for signals
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGCHLD)
