"""Which of a launcher's processes are on one host, by what each says of itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import UsageError


@dataclass(frozen=True)
class Seat:
    """One of a launcher's processes. ``host``: its machine's name; ``local_rank`` and ``local_size`` None
    where the launcher does not tell. ``cpus`` may be used by it. ``facts``: what hosts should have in common.
    """

    rank: int
    host: str
    address: str
    local_rank: int | None
    local_size: int | None
    cpus: tuple[int, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


def hosts_of(seats: Sequence[Seat], all_came: bool = True) -> list[list[Seat]]:
    """The seats of each host in the order in which they number themselves there; the host of rank 0 is first.

    Several hosts may have one name (containers on one machine): then each local rank comes several times.
    Raises UsageError if what they say is contradictory, unless some have not come.
    """
    by_name: dict[str, list[Seat]] = {}
    for seat in sorted(seats, key=lambda seat: seat.rank):
        by_name.setdefault(seat.host, []).append(seat)
    hosts = [host for name, here in by_name.items() for host in _parted(name, here, all_came)]
    return sorted(hosts, key=lambda host: min(seat.rank for seat in host))


def _parted(name: str, here: list[Seat], all_came: bool) -> list[list[Seat]]:
    if any(seat.local_rank is None for seat in here):
        return [here]
    hosts: list[list[Seat]] = []
    for seat in here:
        place = next((host for host in hosts if _fits(seat, host)), None)
        if place is None:
            hosts.append([seat])
        else:
            place.append(seat)
    for host in hosts:
        host.sort(key=lambda seat: seat.local_rank or 0)
        said = sorted({seat.local_size for seat in host if seat.local_size is not None})
        numbers = [seat.local_rank for seat in host]
        if all_came and (numbers != list(range(len(host))) or (said and said != [len(host)])):
            raise UsageError(
                f"on host {name} there are ranks {_numbers(seat.rank for seat in host)}, which say that they "
                f"are local ranks {_numbers(numbers)} of {_numbers(said) or '?'}: set LOCAL_RANK and "
                "LOCAL_WORLD_SIZE as torchrun does, from 0 on each host, or neither"
            )
    return hosts


def _fits(seat: Seat, host: Sequence[Seat]) -> bool:
    return all(other.local_rank != seat.local_rank and other.local_size == seat.local_size for other in host)


def names_of(hosts: Sequence[Sequence[Seat]]) -> tuple[str, ...]:
    """What to call each host: its name, with its number where several have one name."""
    plain = [host[0].host for host in hosts]
    return tuple(
        f"{name}#{plain[:number].count(name) + 1}" if plain.count(name) > 1 else name
        for number, name in enumerate(plain)
    )


def told(hosts: Sequence[Sequence[Seat]]) -> str:
    """The hosts with their ranks, in words: "h1 (ranks 0, 1), h2 (rank 2)"."""
    return ", ".join(
        f"{name} ({'ranks' if len(host) > 1 else 'rank'} {_numbers(seat.rank for seat in host)})"
        for name, host in zip(names_of(hosts), hosts, strict=True)
    )


def _numbers(values: Any) -> str:
    return ", ".join(map(str, values))
