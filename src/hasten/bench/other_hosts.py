"""A rehearsal on several hosts: each leads its own ranks, and all take the same decision at every point."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..launch.world import World
from .workers.worker_group import WorkerGroup

_WORSE = ("", "over", "failed")


class OtherHosts:
    """All hosts call the same methods in the same order. ``world`` None: there are no others."""

    def __init__(self, world: World | None) -> None:
        self._world = world

    @property
    def has_rank_0(self) -> bool:
        return self._world is None or self._world.here == 0

    def ranks(self, here: int) -> int:
        """Of all hosts together, where this one has so many."""
        return here if self._world is None else self._world.size

    def worst(self, how: str) -> str:
        """The worst of "", "over" and "failed" that a host reports."""
        return str(max(self._shared(how), key=_WORSE.index))

    def least(self, number: int) -> int:
        """The smallest number that a host reports."""
        return int(min(self._shared(number)))

    def refusals(self, mine: Sequence[str]) -> tuple[str, ...]:
        """The refusals of all hosts; one that not all of them have names its hosts."""
        told = self._shared(list(mine))
        found = dict.fromkeys(why for one in told for why in one)
        return tuple(f"{self._whose(told, why)}{why}" for why in found)

    def of_rank_0(self, value: str) -> str:
        """The value of the first host, which has rank 0."""
        return str(self._shared(value)[0])

    def first(self, value: str) -> str:
        """The first value that is not empty, in the order of hosts."""
        return next((str(one) for one in self._shared(value) if one), "")

    def odd(self, facts: Mapping[str, str]) -> str:
        """Which hosts have other ``facts`` than most, and what differs, in words; "" if none has."""
        for name in facts:
            told = self._shared(facts[name])
            usual = max(told, key=told.count)
            odd = [self._name(number) for number, one in enumerate(told) if one != usual]
            if odd:
                most = "the others" if told.count(usual) > 1 else self._name(told.index(usual))
                return f"host {', '.join(odd)} {name} than {most}"
        return ""

    @contextmanager
    def waiting_with(self, group: WorkerGroup) -> Iterator[None]:
        """If another host fails within the block, these workers are ended: they would wait for its ranks."""
        if self._world is None:
            yield
            return
        self._world.on_failure = lambda: _kill(group)
        try:
            yield
        finally:
            self._world.on_failure = None

    # ---- means
    def _shared(self, value: Any) -> list[Any]:
        return [value] if self._world is None else self._world.share(value)

    def _name(self, number: int) -> str:
        return "" if self._world is None else self._world.names[number]

    def _whose(self, told: Sequence[Sequence[str]], why: str) -> str:
        having = [number for number, one in enumerate(told) if why in one]
        return "" if len(having) == len(told) else f"on host {', '.join(map(self._name, having))}: "


def _kill(group: WorkerGroup) -> None:
    for rank in group.ranks:
        rank.send_signal(signal.SIGKILL)
