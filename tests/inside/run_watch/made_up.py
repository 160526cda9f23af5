"""Blocks of steps, spells and readings as no machine has to give them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hasten.inside.run_watch.rules import Event, Pace
from hasten.inside.run_watch.step_blocks import Block, Kind
from hasten.records.processor_time import ProcessorTime
from hasten.records.run_facts import RunFacts

USUAL: Kind = (0, 1, 1, 64, 90, 0, 0)
LAST_OF_EPOCH: Kind = (0, 1, 1, 16, 74, 0, 0)
EVALUATED: Kind = (0, 1, 1, 64, 90, 20, 2)
STEP = 0.010


def block(times: float = 1.0, kind: Kind = USUAL) -> Block:
    """A second of steps of ``times`` 10 ms."""
    seconds, steps = STEP * times, max(8, round(100 / times))
    return Block({kind: seconds}, {kind: steps}, {"other": seconds}, 1.0, steps)


def mixed(seconds: Mapping[Kind, float], counts: Mapping[Kind, int]) -> Block:
    return Block(seconds, counts, {}, 1.0, sum(counts.values()))


def events(pace: Pace, blocks: Iterable[Block]) -> list[Event]:
    """What was said, without what means nothing."""
    return [event for one in blocks if (event := pace.block(one))]


def facts(at: float, busy: float = 0.0, own: float = 0.0, **others: Any) -> RunFacts:
    """``busy`` and ``own`` seconds of the processors since the beginning; ``stolen`` and ``throttled``
    too.
    """
    of_processors = {name: others.pop(name) for name in ("stolen", "throttled") if name in others}
    return RunFacts(at, ProcessorTime(at, busy, own, **of_processors), **{"cpus": 2, **others})
