"""Every fault, for scripts of both kinds: what lets it happen, and what must be seen then."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from . import happening
from .bed import OURS, OWN, Bed, Seen

GOES_ON, ANEW, ENDS = "goes on", "begins anew", "ends"


@dataclass(frozen=True)
class Fault:
    """``name``: as the documents call it. ``then``: GOES_ON and ANEW end with what one process ends with;
    ENDS with an exit code that is not 0. ``said``: patterns of lines that must come, the first of which tells
    of the fault; none where nothing is to be said. ``again``: how many steps are done once more; None where
    that is not known beforehand. ``quick``: it is run in every test.
    """

    name: str
    script: str
    happens: Callable[[Bed], Seen]
    then: str
    said: tuple[str, ...] = ()
    again: int | None = 0
    quick: bool = False
    nan: bool = False  # what it ends with is no number, as in one process

    @property
    def key(self) -> str:
        kind = "own ranks" if self.script == OWN else "no ranks"
        return f"{self.happens.__name__.replace('_', ' ')}, {kind}"

    def wrong(self, seen: Seen, expected: list[float]) -> list[str]:
        """What is not as it must be; nothing else is."""
        found = [f"{pattern!r} was not said" for pattern in self.said if seen.notice_seconds(pattern) is None]
        if (seen.code == 0) != (self.then != ENDS):
            found.append(f"it ended with exit code {seen.code}")
        if self.then != ENDS and not self.nan:
            found += [
                f"it ended with {left}" for left in seen.ended if not _near(left["parameters"], expected)
            ]
            found += [] if seen.ended else ["it left nothing"]
        if self.again is not None and seen.again != self.again:
            found.append(f"{seen.again} steps were done again")
        return found


def _near(found: object, expected: list[float]) -> bool:
    assert isinstance(found, list)
    return bool(max(abs(one - other) for one, other in zip(found, expected, strict=True)) <= 1e-12)


RANK_1 = r"rank 1( of 2)? on host h2"
_HUNG = (rf"waited in vain .*({RANK_1}|host h2)", "where rank 1 on host h2 stood:", "in waits_for_a_file")
_STOPPED = (rf"{RANK_1} was stopped", "where rank 1 on host h2 stood:", "in m(eanwhile|ain)")
_KILLED = (rf"{RANK_1} was killed by SIGKILL",)
_NO_MEMORY = (rf"{RANK_1} was killed .*out of memory",)
_RAISED = (rf"{RANK_1} (failed|ended).*: ValueError: no such label",)
_SILENT = (
    rf"{RANK_1} does not answer|rank 1's process on host h2 was not heard from|host h2, or has lost it",
)
_LOST = (
    r"rank 0 on host h1 does not answer|rank 0's .*cannot be reached|store of rank 0|lost rank 0|has lost it",
)
_TAKEN = ("port 29555 on host h1, where ranks are to meet, is not free",)
_NOT_THERE = (
    "data/labels is not there.* on h2",
    "host h2: .* raised an error of its own",
    "FileNotFoundError",
)
_CANNOT_LOAD = (r"rank [01] of 2 on host h[12] (failed|ended)",)
FAULTS = (
    Fault("rank killed", OWN, happening.killed, ENDS, _KILLED),
    Fault("rank killed", OWN, happening.killed_and_begins_anew, ANEW, _KILLED, 2),
    Fault("rank killed", OURS, happening.killed, ENDS, _KILLED),
    Fault("rank killed", OURS, happening.killed_and_begins_anew, ANEW, _KILLED, 20),
    Fault("rank stopped", OWN, happening.stopped, ENDS, _STOPPED, None),
    Fault("rank stopped", OWN, happening.stopped_and_begins_anew, ANEW, _STOPPED, None),
    Fault("rank stopped", OURS, happening.stopped, ENDS, _STOPPED, None),
    Fault("rank hangs", OWN, happening.hangs, ENDS, _HUNG, quick=True),
    Fault("rank hangs", OURS, happening.hangs, ENDS, _HUNG),
    Fault("out of memory", OWN, happening.out_of_memory, ENDS, _NO_MEMORY),
    Fault("out of memory", OURS, happening.out_of_memory, ENDS, _NO_MEMORY),
    Fault("exception in one rank", OWN, happening.raises, ENDS, _RAISED, quick=True),
    Fault("exception in one rank", OWN, happening.raises_and_begins_anew, ANEW, _RAISED, 2),
    Fault(
        "exception in one rank",
        OURS,
        happening.raises,
        ENDS,
        _RAISED,
    ),
    Fault("launcher killed", OWN, happening.launcher_killed, ENDS, (), None),
    Fault("launcher killed", OURS, happening.launcher_killed, ENDS, (), None),
    Fault("host lost", OWN, happening.host_lost, ENDS, _SILENT),
    Fault("host lost", OWN, happening.host_lost_and_goes_on, ANEW, _SILENT, 2),
    Fault("host lost", OURS, happening.host_lost, ENDS, _SILENT),
    Fault("link cut", OWN, happening.link_cut, ENDS, _SILENT),
    Fault("link cut", OURS, happening.link_cut, ENDS, _SILENT),
    Fault("link cut and restored", OWN, happening.link_cut_and_restored, GOES_ON, quick=True),
    Fault("link cut and restored", OURS, happening.link_cut_and_restored, GOES_ON),
    Fault("slow link", OWN, happening.slow_link, GOES_ON),
    Fault("slow link", OURS, happening.slow_link, GOES_ON),
    Fault("packet loss", OWN, happening.packet_loss, GOES_ON),
    Fault("packet loss", OURS, happening.packet_loss, GOES_ON),
    Fault("rendezvous host lost", OWN, happening.meeting_host_lost, ENDS, _LOST),
    Fault("rendezvous host lost", OURS, happening.meeting_host_lost, ENDS, _LOST),
    Fault("disk full on one host", OWN, happening.disk_full, ENDS, (rf"{RANK_1} failed: .*",)),
    Fault("straggler", OWN, happening.dawdles, GOES_ON),
    Fault("straggler", OURS, happening.dawdles, GOES_ON),
    Fault("clock step", OWN, happening.clock_step, GOES_ON),
    Fault("clock step", OURS, happening.clock_step, GOES_ON),
    Fault("two jobs on one port", OWN, happening.two_jobs_on_one_port, ENDS, _TAKEN),
    Fault("two jobs on one port", OURS, happening.two_jobs_on_one_port, ENDS, _TAKEN),
    Fault("stale checkpoint", OWN, happening.stale, ENDS, (rf"{RANK_1} (ended because|cannot go on)",), None),
    Fault("stale checkpoint", OURS, happening.stale, ENDS, ("parts holds something else on h2",), None),
    Fault(
        "stale checkpoint",
        OURS,
        happening.stale_and_not_named,
        ENDS,
        ("host h2 trains on other samples than h1",),
        None,
    ),
    Fault(
        "half-written checkpoint",
        OWN,
        happening.half_written,
        ENDS,
        _CANNOT_LOAD,
    ),
    Fault(
        "half-written checkpoint",
        OURS,
        happening.half_written,
        ENDS,
        _CANNOT_LOAD,
    ),
    Fault("checkpoint of another world size", OWN, happening.other_number_of_ranks, GOES_ON, (), 2),
    Fault("checkpoint of another world size", OURS, happening.other_number_of_ranks, GOES_ON, (), None),
    Fault(
        "data missing on one host",
        OWN,
        happening.data_missing,
        ENDS,
        (rf"{RANK_1} failed: FileNotFoundError",),
    ),
    Fault("data missing on one host", OURS, happening.data_missing, ENDS, _NOT_THERE),
    Fault(
        "NaN on one rank",
        OWN,
        happening.nan,
        GOES_ON,
        (rf"{RANK_1} has a loss that is NaN",),
        nan=True,
        quick=True,
    ),
    Fault(
        "NaN on one rank", OURS, happening.nan, GOES_ON, (rf"loss is NaN in step 421, .*{RANK_1}",), nan=True
    ),
    Fault("Ctrl-C", OWN, happening.ctrl_c, ENDS),
    Fault("Ctrl-C", OURS, happening.ctrl_c, ENDS),
    Fault("preemption", OWN, happening.preempted, ANEW),
    Fault("preemption", OURS, happening.preempted, ANEW, (), 20),
)


def check_hang(code: int, text: str) -> None:
    """With any engine the rank that all waited for is named with its host, and where it stood."""
    assert code, text
    for pattern in _HUNG:
        assert re.search(pattern, text), text
