"""A process's heartbeat: says that it is alive, hears whether others have failed, and watches its ranks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from ..errors import UsageError
from ..inside.distributed.meeting import Meeting, NoMeeting
from .keeper import Failure, in_background
from .process_states import is_stopped

DEADLINE = "HASTEN_DEADLINE"
_DEADLINE_SECONDS = 60.0
_LEAST_DEADLINE_SECONDS = 2.0


class Pulse:
    """Beats in the background until ``leave``. ``host``: this one's name; ``noticed`` is called once, in
    the background, with what has failed.
    """

    def __init__(
        self,
        meeting: Meeting,
        rank: int,
        host: str,
        deadline_seconds: float,
        noticed: Callable[[Failure], None],
    ) -> None:
        self._meeting, self._rank, self._host = meeting, rank, host
        self._deadline, self._noticed = deadline_seconds, noticed
        self._left = threading.Event()
        self._broken = False  # nobody answers any more
        self._followed: dict[int, int] = {}  # rank -> process
        self._stopped_since: dict[int, float] = {}
        self._beating = in_background(self._beat, "hasten pulse")

    def follow(self, processes: Mapping[int, int]) -> None:
        """Watch these processes, by rank: if one stays stopped for the deadline, all ranks are ended."""
        self._followed = dict(processes)

    def fail(self, failure: Failure) -> None:
        """Tell all others that this process cannot go on."""
        self._tell("fail", why=failure.why, code=failure.code)

    def leave(self) -> None:
        """Tell the others that this process is leaving, so that they do not wait for it."""
        self._left.set()
        self._beating.join(self._deadline)
        self._tell("leave", rank=self._rank)
        self._meeting.close()

    def _tell(self, what: str, **more: object) -> None:
        if not self._broken:  # else it would be waited for once more
            with suppress(NoMeeting):
                self._meeting.ask(what, **more)

    def _beat(self) -> None:
        name = f"rank {self._rank}'s process on host {self._host}"
        while not self._left.is_set():
            try:
                told = self._meeting.ask("beat", rank=self._rank, name=name)
            except NoMeeting as error:
                self._broken = True
                told = {"why": f"rank 0's process cannot be reached from {self._host}: {error}", "code": 1}
            failure = Failure(str(told["why"]), int(told["code"])) if "why" in told else self._stopped()
            if failure is not None and not self._left.is_set():
                if "why" not in told:
                    self.fail(failure)
                self._noticed(failure)
                return
            self._left.wait(min(1.0, self._deadline / 4))

    def _stopped(self) -> Failure | None:
        now = time.monotonic()
        for rank, process in list(self._followed.items()):
            if not is_stopped(process):
                self._stopped_since.pop(rank, None)
            elif now - self._stopped_since.setdefault(rank, now) > self._deadline:
                why = f"rank {rank} on host {self._host} was stopped, and after {self._deadline:g} s nobody"
                return Failure(f"{why} had continued it", 1)
        return None


def deadline_of(environment: Mapping[str, str]) -> float:
    """Seconds of silence after which a process counts as gone. Raises UsageError."""
    text = environment.get(DEADLINE, "")
    try:
        seconds = float(text) if text else _DEADLINE_SECONDS
    except ValueError:
        seconds = 0.0
    if not _LEAST_DEADLINE_SECONDS <= seconds < 1e6:
        raise UsageError(
            f"{DEADLINE} is {text!r}: it is the number of seconds after which a host that is silent counts "
            f"as gone, {_LEAST_DEADLINE_SECONDS:g} or more"
        )
    return seconds
