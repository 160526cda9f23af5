"""Before ranks of several hosts train together: is everything there, and the same on all hosts?"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from ..records.codec import from_json
from ..records.preflight import Fault, Host, HostFacts, Link, Preflight
from .links import measure
from .split_worlds import fault_of, faults_of_world
from .world import World

_FAR_SECONDS = 1.0  # between two clocks
_SLOW_BYTES, _SLOW_SECONDS = 50e6, 2e-3
_LITTLE_BYTES = 2**30
_ASKED_TIMES = 5
_ADVICE = {
    "Python": "start all hosts in the same environment",
    "torch": "install the same torch on all hosts",
    "hasten": "install the same hasten on all hosts",
    "the plan": "copy .hasten/NAME/plan.toml to all hosts, or give all the same --plan",
    "the command line": "start all hosts with the same words",
    "PYTHONHASHSEED": "set it to the same value on all hosts, or on none",
}


def preflight(world: World, environment: Mapping[str, str], another: str = "") -> Preflight:
    """Check all hosts. All leaders call it at the same time, and get the same result. ``another``: what this
    host has seen of other worlds.
    """
    seen = next(filter(None, world.share(another)), "")
    clocks = world.share(_ahead(world))
    hosts = tuple(
        Host(
            name,
            tuple(seat.rank for seat in seats),
            seats[0].address,
            from_json(HostFacts, seats[0].facts),
            ahead - clocks[0],
        )
        for name, seats, ahead in zip(world.names, world.by_host, clocks, strict=True)
    )
    links = tuple(measure(world))
    split = (*faults_of_world(environment, len(hosts)), *fault_of(seen))
    return Preflight(hosts, links, (*split, *faults_of(hosts, links)))


def of_one_host(name: str, facts: HostFacts, environment: Mapping[str, str], another: str) -> Preflight:
    """The check if there is only one process, of a launcher's world or of none."""
    host = Host(name, (0,), "", facts)
    split = (*faults_of_world(environment, 1), *fault_of(another))
    return Preflight((host,), (), (*split, *faults_of((host,), ())))


def _ahead(world: World) -> float:
    """This host's clock, ahead of that of rank 0's process: by the quickest of a few answers."""
    found = []
    for _ in range(_ASKED_TIMES):
        before = time.time()
        theirs = world.clock()
        after = time.time()
        found.append((after - before, (before + after) / 2 - theirs))
    return min(found)[1]


def faults_of(hosts: Sequence[Host], links: Sequence[Link]) -> list[Fault]:
    """What stops them comes first."""
    found = [*_of_versions(hosts), *_of_files(hosts), *_of_links(hosts, links), *_of_room(hosts)]
    return sorted(found, key=lambda fault: not fault.stops)


def _of_versions(hosts: Sequence[Host]) -> list[Fault]:
    names = dict.fromkeys(name for host in hosts for name in host.facts.alike)
    return [
        Fault(f"{name} differs: {told}", _ADVICE.get(name, "make it the same on all hosts"), stops=True)
        for name in names
        if (told := _told(hosts, [host.facts.alike.get(name, "") for host in hosts]))
    ]


def _of_files(hosts: Sequence[Host]) -> list[Fault]:
    copy = "copy it to all hosts from the one where it is right"
    found = []
    for path in dict.fromkeys(path for host in hosts for path in host.facts.files):
        odd = _odd(hosts, [host.facts.files.get(path, "") for host in hosts])
        if odd:
            found.append(Fault(f"{path} differs on {odd}", copy, stops=True))
    for path in dict.fromkeys(path for host in hosts for path in (*host.facts.given, *host.facts.named)):
        given = any(path in host.facts.given for host in hosts)
        contents = [{**host.facts.named, **host.facts.given}.get(path, "") for host in hosts]
        odd = _odd(hosts, contents)
        if odd:
            what = "is not there, or is something else," if "" in contents else "holds something else"
            advice = copy if given else f"{copy}, unless the script writes it"
            found.append(Fault(f"{path} {what} on {odd}", advice, stops=given))
    return found


def _of_links(hosts: Sequence[Host], links: Sequence[Link]) -> list[Fault]:
    found = []
    for link in links:
        pair = f"{hosts[link.one].name} and {hosts[link.other].name}"
        if link.failed:
            found.append(
                Fault(
                    f"nothing comes through between {pair}: {link.failed}",
                    "open all ports between the hosts (Gloo takes any that is free), or name the "
                    "interface that joins them by GLOO_SOCKET_IFNAME and MASTER_ADDR",
                    stops=True,
                )
            )
        elif link.bytes_per_second < _SLOW_BYTES or link.latency_seconds > _SLOW_SECONDS:
            found.append(
                Fault(
                    f"the link between {pair} is slow: {link.latency_seconds * 1e3:.2f} ms, "
                    f"{link.bytes_per_second / 1e6:.0f} MB/s",
                    "if there is a faster network between them, set MASTER_ADDR to an address in it",
                )
            )
    return found


def _of_room(hosts: Sequence[Host]) -> list[Fault]:
    found = []
    for host in hosts:
        if abs(host.clock_seconds) > _FAR_SECONDS:
            found.append(
                Fault(
                    f"the clock of {host.name} is {host.clock_seconds:+.1f} s from that of {hosts[0].name}",
                    "set both by NTP: logs and checkpoints of the hosts cannot be put in order",
                )
            )
        for what, amount in (("memory", host.facts.memory_bytes), ("disk", host.facts.disk_bytes)):
            if amount < _LITTLE_BYTES:
                found.append(
                    Fault(
                        f"{host.name} has {amount / 2**20:.0f} MB of {what} left",
                        f"make room there: a host that runs out of {what} ends the whole run",
                    )
                )
    return found


def _odd(hosts: Sequence[Host], values: Sequence[str]) -> str:
    """The hosts that do not have what most have, or the first has; "" if all have the same."""
    usual = max(values, key=lambda value: (values.count(value), bool(value)))
    return ", ".join(host.name for host, value in zip(hosts, values, strict=True) if value != usual)


def _told(hosts: Sequence[Host], values: Sequence[str]) -> str:
    """What each group of hosts has, in words; "" if all have the same."""
    groups: dict[str, list[str]] = {}
    for host, value in zip(hosts, values, strict=True):
        groups.setdefault(value, []).append(host.name)
    if len(groups) < 2:
        return ""
    return "; ".join(f"{value or 'none'} on {', '.join(names)}" for value, names in groups.items())
