"""Why steps have become slower, as far as the system and the steps themselves show. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ...records.run_facts import RunFacts
from ...units import bytes_words, seconds_words

_LEAST_CPUS = 0.2  # more than others used before
_SPARE_CPUS = 0.5  # with this many idle, nothing is disturbed
_MOST_STOPPED, _MOST_STALLED = 0.05, 0.05  # shares of the time
_LITTLE_MEMORY = 0.03  # share of all memory
_LEAST_SWAPPED = 2**24
_LEAST_GROWN, _LEAST_GROWTH = 2**26, 1.2  # bytes, and times
_SLOWER_CLOCK = 0.9
_PART_OF_IT = 0.4  # share of the slowdown
_MOST_OF_IT = 0.6
_PHASES = {
    "data": "the wait for data",
    "forward": "the forward pass",
    "loss": "the script's own code between forward and backward pass",
    "backward": "the backward pass",
    "optimizer": "the optimizer's step",
    "other": "the script's own code between the steps",
}


@dataclass(frozen=True)
class Spell:
    """A part of the run: the system's readings at its start and end, and the steps taken in it; ``phases``:
    seconds of the mean step. ``collecting``: share of the time that Python's garbage collector took, None if
    not checked. ``tiny``: averages of gradients below 1.2e-38, with which a step computes ``tiny_seconds``
    longer than with others.
    """

    began: RunFacts
    ended: RunFacts
    phases: Mapping[str, float]
    steps_until: int = 0  # steps of the run at its end
    collecting: float | None = None
    own: Mapping[str, float] = field(default_factory=dict)  # seconds of each rank's own, by its name
    tiny: int = 0
    tiny_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        return max(1e-9, self.ended.at - self.began.at)

    @property
    def step_seconds(self) -> float:
        return sum(self.phases.values())

    def cpus(self, who: str) -> float | None:
        """How many CPUs "own", "others" or "stolen" used, on average."""
        before, after = self.began.processors, self.ended.processors
        if before is None or after is None:
            return None
        own, stolen = after.own - before.own, after.stolen - before.stolen
        others = (after.busy - before.busy) - own
        return {"own": own, "others": others, "stolen": stolen}[who] / self.seconds

    @property
    def heat_stops(self) -> int:
        """Heat stops of all cores."""
        return self.ended.heat_stops - self.began.heat_stops

    @property
    def stopped(self) -> float:
        """Share of the time in which a quota stopped us."""
        before, after = self.began.processors, self.ended.processors
        return (after.throttled - before.throttled) / self.seconds if before and after else 0.0

    @property
    def stalled(self) -> float:
        """Share of the time in which something waited for memory."""
        before, after = self.began.stalled_seconds, self.ended.stalled_seconds
        return (after - before) / self.seconds if before is not None and after is not None else 0.0


def causes(first: Spell | None, slow: Spell, longer: float, waited: float | None) -> list[str]:
    """What is seen in ``slow`` and not in ``first``, the run's beginning; None: that was as slow, so anything
    that slows any run down counts. ``longer``: extra seconds of a step; ``waited``: seconds that it waited
    for data before, None if unknown.
    """
    found = [*_straggling(first, slow, longer)]
    found += [*_processors(first, slow), *_memory(first, slow), *_waiting(slow, longer, waited)]
    collecting = slow.collecting
    if collecting is not None and collecting * slow.step_seconds >= _PART_OF_IT * longer:
        found.append(f"Python's garbage collector takes {collecting:.0%} of the time")
    if slow.tiny and slow.tiny_seconds >= _PART_OF_IT * longer:
        found.append(
            f"{slow.tiny:,} averages of gradients have fallen below 1.2e-38, with which this processor "
            "computes slowly (--use denormals takes them for zero)"
        )
    return found


def straggler(first: Spell | None, slow: Spell, longer: float) -> str:
    """The rank that the others wait for, if that is most of what steps take longer; "" if there is none."""
    if len(slow.own) < 2:
        return ""
    name = max(slow.own, key=lambda rank: slow.own[rank])
    then = first.own.get(name) if first is not None else None
    grown = slow.own[name] - then if then is not None else longer
    return name if min(grown, _behind(slow, name)) >= _PART_OF_IT * longer else ""


def _behind(slow: Spell, name: str) -> float:
    """By how many seconds a step of this rank's own is longer than any other's."""
    return slow.own[name] - max(seconds for rank, seconds in slow.own.items() if rank != name)


def where(first: Spell | None, slow: Spell, longer: float) -> str:
    """The part of a step that mainly became longer since the run's beginning, or ""."""
    if first is None:
        return ""
    grown = {name: seconds - first.phases.get(name, 0.0) for name, seconds in slow.phases.items()}
    most = max(grown, key=lambda name: grown[name])
    return _PHASES[most] if grown[most] >= _MOST_OF_IT * longer else ""


def _straggling(first: Spell | None, slow: Spell, longer: float) -> Iterator[str]:
    name = straggler(first, slow, longer)
    if name:
        behind = seconds_words(_behind(slow, name))
        yield f"the other ranks wait for {name}, which takes {behind} longer for its part of a step"


def _processors(first: Spell | None, slow: Spell) -> Iterator[str]:
    now = slow.ended
    if first is not None and now.cpus < first.ended.cpus:
        yield f"it may run on {now.cpus} of the {first.ended.cpus} processors it had"
    others, own = slow.cpus("others"), slow.cpus("own")
    if others is not None and own is not None:
        before, needed = 0.0, own
        if first is not None:
            before, needed = first.cpus("others") or 0.0, max(own, first.cpus("own") or 0.0)
        if others - before > _LEAST_CPUS and others + needed > now.cpus - _SPARE_CPUS:
            host = (slow.cpus("stolen") or 0.0) > others / 2
            who = "the host takes" if host else "other programs take"
            yield f"{who} {others:.1f} of its {now.cpus} processors"
    if slow.stopped - (first.stopped if first is not None else 0.0) > _MOST_STOPPED:
        yield f"the container's processor quota stops it {slow.stopped:.0%} of the time"
    yield from _clocks(first, slow)


def _clocks(first: Spell | None, slow: Spell) -> Iterator[str]:
    clock, full = slow.ended.gigahertz, first.ended.gigahertz if first is not None else None
    if clock is not None and full is not None and clock < _SLOWER_CLOCK * full:
        yield f"the processor's clock is at {clock:.1f} GHz and was at {full:.1f}"
    elif slow.heat_stops and not (first is not None and first.heat_stops):
        yield "the processor slows down because it is hot"


def _memory(first: Spell | None, slow: Spell) -> Iterator[str]:
    now = slow.ended
    swapped = (now.swapped_bytes or 0) - ((first.ended.swapped_bytes or 0) if first is not None else 0)
    if swapped > _LEAST_SWAPPED:
        yield f"{bytes_words(swapped)} of its memory are swapped out"
    elif slow.stalled - (first.stalled if first is not None else 0.0) > _MOST_STALLED:
        yield f"memory is short, and programs wait for it {slow.stalled:.0%} of the time"
    elif (left := now.available_bytes) is not None and left < _LITTLE_MEMORY * (now.memory_bytes or 0):
        yield f"memory is short: {bytes_words(left)} are left"
    if first is not None:
        yield from _grown(first, slow)


def _grown(first: Spell, slow: Spell) -> Iterator[str]:
    """How its memory has grown, if it did and still does."""
    then, now, between = first.ended.resident_bytes, slow.ended.resident_bytes, slow.began.resident_bytes
    steps = slow.steps_until - first.steps_until
    if then is None or now is None or between is None or steps <= 0:
        return
    if now - then >= _LEAST_GROWN and now >= _LEAST_GROWTH * then and now > between:
        each = bytes_words((now - then) / steps)
        yield f"its memory grows by {each} a step, from {bytes_words(then)} to {bytes_words(now)} so far"


def _waiting(slow: Spell, longer: float, waited: float | None) -> Iterator[str]:
    waits, before = slow.phases["data"], slow.step_seconds - longer
    if waited is not None and waits - waited >= _PART_OF_IT * longer and before > 0:
        yield f"it waits for data, {waits / slow.step_seconds:.0%} of a step and {waited / before:.0%} before"
