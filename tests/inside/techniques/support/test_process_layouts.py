"""Layouts of processes and threads: what is tried on recorded machines, and what holds on any machine."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.inside.techniques.support.process_layouts import KINDS, layouts, resolve
from hasten.records.layout import Layout
from hasten.records.machine import Core, Machine, Node
from tests.bench.made_up import machine
from tests.machine.topologies import NAMES, recorded


def words(layout: Layout) -> str:
    """As "8x16 numa", with marks for second hardware threads and for slower cores."""
    marks = f"{' +threads' if layout.hyperthreads else ''}{' +slow' if layout.efficiency_cores else ''}"
    return f"{layout.processes}x{layout.threads} {layout.bind}{marks}"


TRIED = {
    "xeon-2-sockets": [
        *("2x10 numa", "1x10 numa", "1x20 cores", "4x5 cores", "8x2 cores"),
        *("2x20 numa +threads", "1x40 cores +threads"),
    ],
    "epyc-8-nodes": [
        *("8x16 numa", "16x8 cache", "2x64 socket", "1x16 numa", "1x128 cores"),
        *("8x32 numa +threads", "1x256 cores +threads"),
    ],
    "laptop-hybrid": [
        *("1x6 performance", "2x3 performance", "6x1 performance", "1x16 cores +slow"),
        *("1x12 performance +threads", "2x6 performance +threads"),
    ],
    "container-2.5-of-64": ["1x2 cores", "2x1 cores"],
    "arm-64-cores": ["1x64 cores", "2x32 cores", "4x16 cores", "8x8 cores", "16x4 cores"],
    "arm-two-kinds": [
        *("1x10 performance", "2x5 performance", "5x2 performance", "10x1 performance", "1x20 cores +slow"),
    ],
    "wsl2": [
        *("1x10 cores", "2x5 cores", "5x2 cores", "10x1 cores"),
        *("1x20 cores +threads", "2x10 cores +threads"),
    ],
    "one-core": ["1x1 cores"],
    "one-core-2-threads": ["1x1 cores", "1x2 cores +threads"],
}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_tried_on_a_recorded_machine(name: str) -> None:
    assert [words(layout) for layout in layouts(recorded(name))] == TRIED[name]


def test_on_two_cores_one_process_of_two_threads_and_two_of_one() -> None:
    here = machine(logical_cpus=2, physical_cores=2, cores=(Core((0,)), Core((1,))))
    assert [(layout.threads, layout.cpus) for layout in layouts(here)] == [(2, ((0, 1),)), (1, ((0,), (1,)))]


def test_two_caches_on_one_node_are_told_apart() -> None:
    cores = tuple(Core((n, n + 16), cache=n // 8 * 8) for n in range(16))
    here = machine(logical_cpus=32, physical_cores=16, cores=cores)
    first, second, *_ = layouts(here)
    assert (words(first), first.cpus) == ("2x8 cache", (tuple(range(8)), tuple(range(8, 16))))
    assert (words(second), second.cpus) == ("1x8 cache", (tuple(range(8)),))


def test_nothing_is_bound_where_cores_do_not_tell_where_they_lie() -> None:
    here = machine(logical_cpus=8, physical_cores=4)
    assert [(words(layout), layout.cpus) for layout in layouts(here)] == [
        ("1x4 none", ((),)),
        ("2x2 none", ((), ())),
        ("4x1 none", ((),) * 4),
    ]


def test_a_process_has_cpus_of_one_node_though_the_quota_leaves_it_less() -> None:
    here = replace(recorded("epyc-8-nodes"), quota_cpus=40.0)
    assert [words(layout) for layout in layouts(here)] == [
        *("4x10 cores", "8x5 cores", "1x40 cores", "2x20 cores"),
    ]
    assert nodes_used(here, layouts(here)[0]) == [1] * 4


def test_a_quota_of_one_leaves_one_thread_on_a_fast_core() -> None:
    cores = (Core((0,), efficient=True), Core((1,)), Core((2,), 1, 1, 2, True))
    here = machine(logical_cpus=3, physical_cores=3, cores=cores, quota_cpus=1.0)
    assert [(words(layout), layout.cpus) for layout in layouts(here)] == [("1x1 performance", ((1,),))]


def test_a_process_that_is_too_large_for_a_node_takes_the_fewest() -> None:
    here = recorded("epyc-8-nodes")
    assert nodes_used(here, resolve(here, 1, 40, "cores")) == [3]
    assert nodes_used(here, resolve(here, 2, 20, "cores")) == [2, 2]


def test_nodes_without_memory_divide_nothing() -> None:
    here = recorded("epyc-8-nodes")
    bare = replace(here, nodes=(*here.nodes[:7], Node(7, 0)))
    assert words(layouts(bare)[0]) == "2x64 numa"


def test_slower_cores_are_shared_out_evenly() -> None:
    here = recorded("arm-two-kinds")
    (one, other) = resolve(here, 2, 10, "cores").cpus
    slow = {cpu for core in here.cores if core.efficient for cpu in core.cpus}
    assert len(slow & set(one)) == len(slow & set(other)) == 5


def test_a_layout_is_found_again_by_what_a_plan_says_of_it() -> None:
    for name in NAMES:
        here = recorded(name)
        for layout in layouts(here):
            count, threads, bind = layout.settings.values()
            assert replace(resolve(here, int(count), int(threads), str(bind)), why=layout.why) == layout


@pytest.mark.parametrize(
    ("name", "wanted", "reason"),
    [
        ("one-core", (2, 1, "cores"), "need 2 CPUs, and 1 can run all the time"),
        ("container-2.5-of-64", (3, 1, "cores"), "need 3 CPUs, and 2 can run all the time"),
        ("xeon-2-sockets", (4, 1, "numa"), "each on a NUMA node of its own, and there are 2"),
        ("laptop-hybrid", (7, 1, "performance"), "and there are 6 cores for them"),
        ("laptop-hybrid", (1, 13, "performance"), "its part has 12 CPUs"),
    ],
)
def test_what_a_machine_does_not_allow_says_why(name: str, wanted: tuple[int, int, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        resolve(recorded(name), *wanted)


def test_processes_cannot_be_bound_where_nothing_tells_of_cores() -> None:
    with pytest.raises(ValueError, match="does not report where its cores lie"):
        resolve(machine(), 2, 2, "cores")
    assert resolve(machine(), 2, 2, "none").cpus == ((), ())


# ---- on any machine
@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """Cores scattered over sockets, nodes and caches, of two kinds, as a cpuset may leave them."""
    places = st.tuples(*(st.integers(0, 3) for _ in range(3)), st.booleans(), st.integers(1, 2))
    drawn = draw(st.lists(places, max_size=24))
    numbers = draw(st.permutations(range(64)))
    cores = []
    for socket, node, cache, efficient, threads in drawn:
        cpus = tuple(sorted(numbers.pop() for _ in range(threads)))
        cores.append(Core(cpus, socket, 4 * socket + node, 64 * socket + 16 * node + cache, efficient))
    count = sum(len(core.cpus) for core in cores) or draw(st.integers(1, 64))
    return machine(
        logical_cpus=count,
        physical_cores=len(cores) or max(1, count // 2),
        quota_cpus=draw(st.none() | st.floats(0.1, 80)),
        cores=tuple(cores),
        nodes=draw(st.just(()) | st.just(tuple(Node(n, 2**30 * (n != 5)) for n in range(16)))),
    )


def nodes_used(here: Machine, layout: Layout) -> list[int]:
    """NUMA nodes that each process has CPUs of."""
    node = {cpu: core.node for core in here.cores for cpu in core.cpus}
    return [len({node[cpu] for cpu in cpus}) for cpus in layout.cpus]


def holds(here: Machine, layout: Layout) -> None:
    """What must hold of every layout, whoever asked for it."""
    allowed = Counter(cpu for core in here.cores for cpu in core.cpus)
    used = Counter(cpu for cpus in layout.cpus for cpu in cpus)
    assert not used - allowed, "a CPU twice, or one that is not allowed"
    assert 1 <= layout.processes * layout.threads <= here.whole_cpus
    assert layout.bind in KINDS
    bound = layout.bind != "none"
    assert all(bound == bool(cpus) and (not bound or len(cpus) >= layout.threads) for cpus in layout.cpus)
    if bound and not layout.hyperthreads:
        assert all(len(set(core.cpus) & set(used)) <= 1 for core in here.cores)


@given(here=machines())
@settings(deadline=None, max_examples=80)
def test_any_machine_has_a_few_layouts_that_hold(here: Machine) -> None:
    found = layouts(here)
    assert 1 <= len(found) <= 12
    for layout in found:
        holds(here, layout)
        assert layout.why
    assert len({(layout.threads, layout.cpus) for layout in found}) == len(found)


@given(
    here=machines(), count=st.integers(1, 20), threads=st.integers(1, 20), bind=st.sampled_from(sorted(KINDS))
)
@settings(deadline=None, max_examples=150)
def test_whatever_a_plan_asks_for_holds_or_is_refused(
    here: Machine, count: int, threads: int, bind: str
) -> None:
    try:
        layout = resolve(here, count, threads, bind)
    except ValueError:
        return
    assert (layout.processes, layout.threads, layout.bind) == (count, threads, bind)
    holds(here, layout)


@given(here=machines(), count=st.integers(1, 8), threads=st.integers(1, 8))
@settings(deadline=None, max_examples=80)
def test_no_process_crosses_nodes_where_one_of_them_has_enough(
    here: Machine, count: int, threads: int
) -> None:
    here = replace(here, nodes=())
    try:
        layout = resolve(here, count, threads, "cores")
    except ValueError:
        return
    for cpus, nodes in zip(layout.cpus, nodes_used(here, layout), strict=True):
        per_node = Counter(core.node for core in here.cores if set(core.cpus) & set(cpus))
        assert nodes == 1 or max(per_node.values()) < threads
