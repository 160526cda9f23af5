"""What hosts that are to train together are like, as a table, and what is wrong."""

from __future__ import annotations

from collections.abc import Sequence

from ..records.preflight import Fault, Preflight
from ..units import bytes_words, counted


def lines_of(found: Preflight) -> list[str]:
    """A column for each host, a line for each link, then what is wrong."""
    hosts = found.hosts
    names = dict.fromkeys(name for host in hosts for name in host.facts.alike)
    rows = [["host", *(host.name for host in hosts)]]
    rows.append(["ranks", *(_numbers(host.ranks) for host in hosts)])
    if any(host.address for host in hosts):
        rows.append(["address", *(host.address for host in hosts)])
    for name in names:
        told = [host.facts.alike.get(name, "") for host in hosts]
        if any(told) and name != "the command line":
            rows.append([name, *(one or "-" for one in told)])
    rows.append(["files of the script", *(str(len(host.facts.files)) for host in hosts)])
    rows.append(["CPUs", *(str(host.facts.cpus) for host in hosts)])
    rows.append(["memory left", *(bytes_words(host.facts.memory_bytes) for host in hosts)])
    rows.append(["disk left", *(bytes_words(host.facts.disk_bytes) for host in hosts)])
    if len(hosts) > 1:
        rows.append(["clock", *(f"{host.clock_seconds:+.3f} s" for host in hosts)])
    lines = _aligned(rows)
    if found.links:
        ways = [["link", "latency", "bandwidth"]]
        for link in found.links:
            way = f"{hosts[link.one].name} - {hosts[link.other].name}"
            speed = f"{link.bytes_per_second / 1e6:.0f} MB/s"
            told = ["none", link.failed] if link.failed else [f"{link.latency_seconds * 1e3:.3f} ms", speed]
            ways.append([way, *told])
        lines += ["", *_aligned(ways)]
    return [*lines, "", *(in_words(fault) for fault in found.faults), summary(found)]


def in_words(fault: Fault) -> str:
    """A fault with its advice, in one line."""
    return f"{'error' if fault.stops else 'warning'}: {fault.text}. {fault.advice}"


def summary(found: Preflight) -> str:
    """The result of a check of the hosts, in one line."""
    ranks = sum(len(host.ranks) for host in found.hosts)
    many = f"{counted(len(found.hosts), 'host')}, {counted(ranks, 'rank')}"
    if not found.ready:
        return f"{many}: they cannot train together as they are"
    ways = [link for link in found.links if not link.failed]
    if not ways:
        return f"{many}: ready"
    slowest = min(ways, key=lambda link: link.bytes_per_second)
    pair = f"{found.hosts[slowest.one].name} - {found.hosts[slowest.other].name}"
    return (
        f"{many}: alike; the slowest link, {pair}, has {slowest.latency_seconds * 1e3:.2f} ms and "
        f"{slowest.bytes_per_second / 1e6:.0f} MB/s"
    )


def _numbers(ranks: Sequence[int]) -> str:
    if len(ranks) > 4 and list(ranks) == list(range(ranks[0], ranks[-1] + 1)):
        return f"{ranks[0]} to {ranks[-1]}"
    return ", ".join(map(str, ranks))


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
