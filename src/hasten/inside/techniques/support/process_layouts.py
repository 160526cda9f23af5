"""Which layouts of processes and threads are worth measuring on a machine, and their CPUs there.

Rules: no process gets cores of two NUMA nodes if one node has enough for its threads; all processes are
alike, because each step waits for the slowest; threads never exceed what a quota allows all the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby

from ....records.layout import Layout
from ....records.machine import Core, Machine

KINDS = ("numa", "socket", "cache", "performance", "cores", "none")

_NOUNS = {"numa": "NUMA node", "socket": "socket", "cache": "last-level cache"}
_MOST_SHARES = 16  # most processes to divide cores among: more rarely help, and each holds a model

Cores = list[Core]
Key = tuple[int, ...]  # cores with equal ones belong together
Wanted = tuple[int, int, str, str]
"""processes, threads of each, what each is bound to, why"""


def layouts(machine: Machine) -> list[Layout]:
    """The ones worth measuring here, most promising first; never empty. No two put the same threads on the
    same CPUs.
    """
    found: dict[object, Layout] = {}
    for count, threads, bind, why in _wanted(machine):
        with suppress(ValueError):  # above the quota, or a cpuset that makes the parts unequal
            layout = replace(resolve(machine, count, threads, bind), why=why)
            found.setdefault((layout.threads, layout.cpus), layout)
    return list(found.values())


def resolve(machine: Machine, count: int, threads: int, bind: str) -> Layout:
    """``count`` processes of ``threads`` threads, each bound to what ``bind`` names, on this machine.

    A process may have more CPUs than threads, which then move within them. Second hardware threads are used
    only if there are not enough cores. Raises ValueError, with the reason, where the machine does not
    allow it.
    """
    if count * threads > machine.whole_cpus:
        raise ValueError(
            f"{count} processes of {threads} threads need {count * threads} CPUs, and "
            f"{machine.whole_cpus} can run all the time"
        )
    if bind == "none":
        second = count * threads > machine.physical_cores
        efficient = any(core.efficient for core in machine.cores)
        return Layout(threads, bind, ((),) * count, hyperthreads=second, efficiency_cores=efficient)
    if not machine.cores:
        raise ValueError(
            "the machine does not report where its cores lie, so no process can be bound to them"
        )
    parts = _parts(machine, count, bind)
    second = any(threads > len(part) for part in parts)
    least = min(sum(len(core.cpus) if second else 1 for core in part) for part in parts)
    if least < threads:
        raise ValueError(f"a process of {threads} threads was asked for, and its part has {least} CPUs")
    parts = [_on_fewest_nodes(part, threads, second, machine) for part in parts]
    return Layout(
        threads,
        bind,
        tuple(tuple(sorted(cpu for core in part for cpu in _cpus(core, second))) for part in parts),
        hyperthreads=second and any(len(core.cpus) > 1 for part in parts for core in part),
        efficiency_cores=any(core.efficient for part in parts for core in part),
    )


# ---- what is worth measuring
def _wanted(machine: Machine) -> Iterator[Wanted]:
    fast = _fast(machine.cores)
    if not fast:
        cores = min(machine.whole_cpus, machine.physical_cores)
        yield from _shares(cores, "none", "where the cores lie is not known")
        return
    kind = "performance" if len(fast) < len(machine.cores) else "cores"
    nodes = _units(machine, "numa")
    if len(nodes) > 1 and len(machine.cores) <= machine.whole_cpus:
        yield from _over_nodes(machine)
    elif len(nodes) > 1 or machine.whole_cpus < len(fast):
        shares = _shares(min(machine.whole_cpus, len(fast)), kind, "within the quota")
        yield from sorted(shares, key=lambda wanted: wanted[1] > max(map(len, nodes)))
    else:
        yield from _within_one_node(machine, fast, kind)


def _over_nodes(machine: Machine) -> Iterator[Wanted]:
    nodes, sockets, caches = (_units(machine, bind) for bind in ("numa", "socket", "cache"))
    least, all_cores = min(map(len, nodes)), len(machine.cores)
    yield len(nodes), least, "numa", "each process has its memory on its own NUMA node"
    if len(caches) > len(nodes):
        yield len(caches), min(map(len, caches)), "cache", "each process has its memory and cache to itself"
    if 1 < len(sockets) < len(nodes):
        yield (
            len(sockets),
            min(map(len, sockets)),
            "socket",
            "fewer processes, each near most of its memory",
        )
    yield 1, max(map(len, nodes)), "numa", "a small training gains nothing from memory that is far away"
    yield 1, all_cores, "cores", "one process on all cores"
    for parts in (2, 4):
        if least >= parts and parts * len(nodes) <= _MOST_SHARES:
            yield parts * len(nodes), least // parts, "cores", f"{parts} processes share a NUMA node"
    yield len(nodes), min(map(_threads_of, nodes)), "numa", "second hardware threads, too"
    yield 1, _threads_of(machine.cores), "cores", "one process on all hardware threads"


def _within_one_node(machine: Machine, fast: Cores, kind: str) -> Iterator[Wanted]:
    caches = _units(machine, "cache")
    shared = min(map(len, caches))
    if len(caches) > 1 and shared > 1 and kind == "cores":
        yield len(caches), shared, "cache", "each process has its cache to itself"
        yield 1, shared, "cache", "a small training fits into one cache"
    yield from _shares(len(fast), kind, "only fast cores" if kind == "performance" else "one thread a core")
    if kind == "performance":
        yield 1, len(machine.cores), "cores", "slower cores, too"
    for count in (1, 2):
        yield count, _threads_of(fast) // count, kind, "second hardware threads, too"


def _shares(cores: int, bind: str, why: str) -> Iterator[Wanted]:
    """One process, two, four, ... on these cores; finally one thread each."""
    threads = cores
    while threads and cores // threads <= _MOST_SHARES:
        yield cores // threads, threads, bind, why
        threads //= 2


# ---- what a layout means here
def _parts(machine: Machine, count: int, bind: str) -> list[Cores]:
    """The cores of each process."""
    if bind in ("cores", "performance"):
        cores = list(machine.cores) if bind == "cores" else _fast(machine.cores)
        if count > len(cores):
            raise ValueError(f"{count} processes were asked for, and there are {len(cores)} cores for them")
        return _divided(cores, count, machine)
    units = _units(machine, bind)
    if count > len(units):
        raise ValueError(
            f"{count} processes were asked for, each on a {_NOUNS[bind]} of its own, and there are "
            f"{len(units)}"
        )
    largest = sorted(units, key=len, reverse=True)[:count]
    return [unit for unit in units if unit in largest]


def _divided(cores: Cores, count: int, machine: Machine) -> list[Cores]:
    """Shares of the cores, each within one NUMA node if there are as many as nodes or more.

    Of slower cores each share gets as many as the others, if that is possible.
    """
    slow = [core for core in cores if core.efficient]
    fast = _fast(cores)
    if 0 < len(slow) < len(cores) and len(slow) % count == len(fast) % count == 0:
        both = zip(_divided(fast, count, machine), _divided(slow, count, machine), strict=True)
        return [of_fast + of_slow for of_fast, of_slow in both]
    nodes = _grouped(cores, _node_of(machine))
    if count < len(nodes):
        groups = groupby(enumerate(nodes), lambda item: item[0] * count // len(nodes))
        return [[core for _, node in group for core in node] for _, group in groups]
    shares = [1] * len(nodes)
    for _ in range(count - len(nodes)):
        fullest = max(range(len(nodes)), key=lambda number: len(nodes[number]) / shares[number])
        shares[fullest] += 1
    return [
        node[share * len(node) // of : (share + 1) * len(node) // of]
        for node, of in zip(nodes, shares, strict=True)
        for share in range(of)
    ]


def _on_fewest_nodes(part: Cores, threads: int, second: bool, machine: Machine) -> Cores:
    """One node of the part if it has enough CPUs, otherwise as many as needed."""
    nodes = _grouped(part, _node_of(machine))
    enough = [node for node in nodes if sum(len(_cpus(core, second)) for core in node) >= threads]
    if enough:
        return enough[0]
    taken: Cores = []
    for node in nodes:
        if sum(len(_cpus(core, second)) for core in taken) < threads:
            taken += node
    return taken


def _units(machine: Machine, bind: str) -> list[Cores]:
    """The cores by NUMA node, socket or last-level cache, in order."""
    node_of = _node_of(machine)
    keys: dict[str, Callable[[Core], Key]] = {
        "numa": node_of,
        "socket": lambda core: (core.socket,),
        "cache": lambda core: (*node_of(core), core.cache),
    }
    return _grouped(machine.cores, keys[bind])


def _node_of(machine: Machine) -> Callable[[Core], tuple[int, int]]:
    """Socket and NUMA node of a core. Where a node has cores but no memory, all of which is far from them
    then, the nodes say nothing, and sockets are what counts.
    """
    bare = {node.number for node in machine.nodes if not node.memory_bytes}
    if any(core.node in bare for core in machine.cores):
        return lambda core: (core.socket, 0)
    return lambda core: (core.socket, core.node)


def _grouped(cores: Sequence[Core], key: Callable[[Core], Key]) -> list[Cores]:
    ordered = sorted(cores, key=lambda core: (key(core), core.cache, core.cpus))
    return [list(group) for _, group in groupby(ordered, key)]


def _fast(cores: Sequence[Core]) -> Cores:
    return [core for core in cores if not core.efficient] or list(cores)


def _cpus(core: Core, second: bool) -> tuple[int, ...]:
    return core.cpus if second else core.cpus[:1]


def _threads_of(cores: Sequence[Core]) -> int:
    return sum(len(core.cpus) for core in cores)
