"""Kinds of core, caches and NUMA nodes: of recorded machines, and where the files say odd things."""

from __future__ import annotations

from collections import Counter

import pytest

from hasten.machine import topology
from hasten.records.machine import Machine, Node

from .conftest import Record
from .topologies import NAMES, recorded

GIB = 2**30


def shape(machine: Machine) -> dict[str, object]:
    """Counts of what there is: cores of each NUMA node and of each last-level cache, slow ones, threads."""
    return {
        "sockets": sorted(Counter(core.socket for core in machine.cores).values()),
        "nodes": sorted(Counter(core.node for core in machine.cores).values()),
        "caches": sorted(Counter(core.cache for core in machine.cores).values()),
        "efficient": sum(core.efficient for core in machine.cores),
        "threads": sorted({len(core.cpus) for core in machine.cores}),
    }


def of(
    sockets: list[int],
    nodes: list[int],
    caches: list[int],
    efficient: int = 0,
    threads: tuple[int, ...] = (1,),
) -> dict[str, object]:
    return {
        "sockets": sockets,
        "nodes": nodes,
        "caches": caches,
        "efficient": efficient,
        "threads": list(threads),
    }


SHAPES = {
    "xeon-2-sockets": of([10, 10], [10, 10], [10, 10], threads=(2,)),
    "epyc-8-nodes": of([64, 64], [16] * 8, [8] * 16, threads=(2,)),
    "laptop-hybrid": of([16], [16], [2, 14], efficient=10, threads=(1, 2)),
    "container-2.5-of-64": of([32], [32], [8] * 4, threads=(2,)),
    "arm-64-cores": of([64], [64], [64]),
    "arm-two-kinds": of([20], [20], [10, 10], efficient=10),
    "wsl2": of([10], [10], [10], threads=(2,)),
    "one-core": of([1], [1], [1]),
    "one-core-2-threads": of([1], [1], [1], threads=(2,)),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_machine_has_the_shape_that_its_makers_tell(name: str) -> None:
    assert shape(recorded(name)) == SHAPES[name]


def test_cores_that_share_a_core_and_a_cache_are_told_by_their_numbers() -> None:
    first, *_, last = recorded("epyc-8-nodes").cores
    assert (first.cpus, first.socket, first.node, first.cache) == ((0, 128), 0, 0, 0)
    assert (last.cpus, last.socket, last.node, last.cache) == ((127, 255), 1, 7, 120)
    assert recorded("laptop-hybrid").cores[0].cpus == (0, 5)


def test_a_cpuset_leaves_what_it_leaves() -> None:
    machine = recorded("epyc-8-nodes", frozenset({15, 16, 17, 145}))
    assert [(core.cpus, core.node) for core in machine.cores] == [((15,), 0), ((16,), 1), ((17, 145), 1)]


def test_nodes_have_memory() -> None:
    assert recorded("xeon-2-sockets").nodes == (Node(0, 65827384 * 1024), Node(1, 66055868 * 1024))
    assert recorded("wsl2").nodes == ()


def test_a_node_without_memory_and_one_that_does_not_tell(record: Record) -> None:
    files = {
        "sys/devices/system/node/node10/meminfo": "Node 10 MemTotal:              0 kB\n",
        "sys/devices/system/node/node2/meminfo": "\nNode 2 MemTotal:       1048576 kB\nNode 2 X: 5 kB\n",
        "sys/devices/system/node/node3/cpulist": "\n",
    }
    assert topology.nodes(record(files)) == (Node(2, GIB), Node(3, 0), Node(10, 0))


def test_a_quota_is_rounded_down_to_what_runs_all_the_time() -> None:
    machine = recorded("container-2.5-of-64")
    assert (machine.quota_cpus, machine.usable_cpus, machine.whole_cpus) == (2.5, 3, 2)
    assert recorded("wsl2").whole_cpus == 20


def speeds(file: str, *values: int) -> dict[str, str]:
    return {f"sys/devices/system/cpu/cpu{cpu}/{file}": f"{value}\n" for cpu, value in enumerate(values)}


@pytest.mark.parametrize(
    ("files", "efficient"),
    [
        pytest.param({}, [], id="nothing told"),
        pytest.param(speeds("cpu_capacity", 1024, 1024, 446), [2], id="capacities"),
        pytest.param(speeds("cpufreq/cpuinfo_max_freq", 5100000, 3300000, 5100000), [1], id="clock rates"),
        pytest.param(
            speeds("cpufreq/cpuinfo_max_freq", 5800000, 5500000, 5500000), [], id="one that boosts higher"
        ),
        pytest.param(
            speeds("cpu_capacity", 1024, 1024, 1024) | speeds("cpufreq/cpuinfo_max_freq", 50, 50, 30),
            [2],
            id="equal capacities, other clock rates",
        ),
        pytest.param(speeds("cpu_capacity", 1024, 446), [], id="one does not tell"),
        pytest.param({"sys/devices/cpu_core/cpus": "0-1"}, [], id="one counter alone"),
        pytest.param(
            {"sys/devices/cpu_core/cpus": "0", "sys/devices/cpu_atom/cpus": "1", "x": ""},
            [1, 2],
            id="a third kind, of low power, is none of the fast",
        ),
    ],
)
def test_slower_cores_are_found(record: Record, files: dict[str, str], efficient: list[int]) -> None:
    assert topology.efficient_cpus(range(3), record({"proc/uptime": "", **files})) == set(efficient)


def cache(cpu: int, index: int, level: str, kind: str, shared: str) -> dict[str, str]:
    folder = f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}"
    return {f"{folder}/level": level, f"{folder}/type": kind, f"{folder}/shared_cpu_list": shared}


def test_the_last_level_is_the_highest_one_that_holds_data(record: Record) -> None:
    root = record(
        cache(9, 0, "1", "Data", "9")
        | cache(9, 3, "3", "Unified", "8-11,24")
        | cache(9, 2, "2", "Unified", "9")
        | cache(7, 0, "1", "Instruction", "3,7")
        | cache(5, 0, "", "Unified", "5")
    )
    assert [topology.last_level_cache(cpu, root) for cpu in (9, 7, 5, 1)] == [8, 0, 0, 0]
