"""Which layouts the technique proposes, and which settings of a plan can be carried out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hasten.inside.techniques.processes import Processes
from hasten.launch.ranks_of_plan import Wish, wish_of
from hasten.records.machine import Core
from hasten.records.plan import Plan, Settings

from ..machine.topologies import recorded
from .made_up import facts, loader, machine, root

TWO_CORES = machine(logical_cpus=2, physical_cores=2, cores=(Core((0,)), Core((1,))))


def options(where: Any, batch: int = 4096, **seen: Any) -> list[str]:
    """As "8x16 numa"."""
    found = Processes.options(facts(where, batch_size=batch, **seen))
    return [f"{one['count']}x{one['threads']} {one['bind']}" for one in found]


def test_two_cores_have_two_processes_of_one_thread() -> None:
    assert options(TWO_CORES) == ["2x1 cores"]


def test_on_a_large_machine_the_layouts_of_several_processes_are_tried() -> None:
    assert options(recorded("epyc-8-nodes")) == ["8x16 numa", "16x8 cache", "2x64 socket", "8x32 numa"]


def test_a_slice_holds_two_samples_at_least() -> None:
    assert options(recorded("epyc-8-nodes"), batch=16) == ["8x16 numa", "2x64 socket", "8x32 numa"]
    seen = facts(TWO_CORES, batch_size=3)
    assert Processes.refuse(seen) == ["batches of 3 samples are too small to be shared"]


def test_batch_norm_is_shared_in_every_layout() -> None:
    found = Processes.options(facts(TWO_CORES, batch_size=64, roots=(root(batch_norm=True),)))
    assert [dict(one) for one in found] == [
        {"count": 2, "threads": 1, "bind": "cores", "sync_batch_norm": True},
    ]


@pytest.mark.parametrize("name", ["one-core", "one-core-2-threads"])
def test_one_core_has_nothing_to_share(name: str) -> None:
    assert Processes.refuse_machine(recorded(name)) == ["there is one core: nothing to share"]


def test_a_quota_of_one_and_a_half_has_nothing_to_share_either() -> None:
    here = replace(recorded("wsl2"), quota_cpus=1.5)
    assert Processes.refuse_machine(here) == ["there is one core: nothing to share"]


def test_all_options_are_settings_that_a_plan_may_hold_and_this_machine_carries_out() -> None:
    here = recorded("epyc-8-nodes")
    for settings in Processes.options(facts(here, batch_size=4096, loaders=(loader(),))):
        Processes.check(settings)
        assert Processes.refuse_settings(settings, here) == []
        wish = wish_of(Plan({"processes": settings}))
        assert wish == Wish(
            int(settings["count"]), threads=int(settings["threads"]), bind=str(settings["bind"])
        )


@pytest.mark.parametrize(
    "settings",
    [
        {"count": 2, "threads": 2},
        {"count": 2, "bind": "cores"},
        {"count": 2, "threads": 0, "bind": "cores"},
        {"count": 2, "threads": True, "bind": "cores"},
        {"count": 2, "threads": 2, "bind": "0-3"},
        {"count": 0},
        {"threads": 2, "bind": "cores"},
        {"count": 2, "cpus": "0-3"},
    ],
)
def test_settings_that_no_machine_could_carry_out(settings: Settings) -> None:
    with pytest.raises(ValueError, match="processes needs count"):
        Processes.check(settings)


def test_a_plan_from_a_larger_machine_says_why_it_does_not_fit() -> None:
    (reason,) = Processes.refuse_settings({"count": 8, "threads": 16, "bind": "numa"}, TWO_CORES)
    assert reason == "8 processes of 16 threads need 128 CPUs, and 2 can run all the time"
