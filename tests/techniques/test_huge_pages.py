"""Huge pages: asked for by glibc or by torch, counted by the kernel."""

from __future__ import annotations

from typing import Any

import pytest

from hasten.inside.techniques.huge_pages import HugePages
from hasten.launch.one_process import environment_of
from hasten.machine import this_machine
from hasten.records.plan import Plan

from .made_up import facts, machine, root
from .processes import absent, proof_of, proven

MADVISE = {"huge_pages": "madvise"}


def refused_here(settings: dict[str, str]) -> str:
    here = this_machine()
    return "; ".join(HugePages.refuse_machine(here) or HugePages.refuse_settings(settings, here))


@pytest.mark.parametrize("by", ["glibc", pytest.param("torch", marks=pytest.mark.thorough)])
def test_the_proof_holds_with_them_and_fails_without(by: str) -> None:
    if why := refused_here({"by": by}):
        pytest.skip(f"no huge pages by {by} on this machine: {why}")
    assert proven("huge_pages", {"by": by})
    assert absent("huge_pages", {"by": by})


@pytest.mark.thorough
def test_they_go_together_with_malloc_thresholds() -> None:
    if why := refused_here({"by": "glibc"}):
        pytest.skip(f"no huge pages by glibc on this machine: {why}")
    both = Plan({"huge_pages": {"by": "glibc"}, "malloc": {}})
    assert proof_of("huge_pages", {"by": "glibc"}, both)[0]
    assert proof_of("malloc", {}, both)[0]


def test_tunables_of_the_users_stay() -> None:
    plan = Plan({"huge_pages": {"by": "glibc"}})
    found = environment_of(plan, machine(environment={"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}))
    assert found == {"GLIBC_TUNABLES": "glibc.pthread.rseq=0:glibc.malloc.hugetlb=1"}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"huge_pages": "never"}, "gives no transparent huge pages"),
        ({"huge_pages": "always"}, "unasked"),
        ({"huge_pages": ""}, "unknown"),
        ({**MADVISE, "environment": {"GLIBC_TUNABLES": "glibc.malloc.check=1"}}, "you set GLIBC_TUNABLES"),
        ({**MADVISE, "environment": {"THP_MEM_ALLOC_ENABLE": "0"}}, "you set THP_MEM_ALLOC_ENABLE"),
    ],
)
def test_what_it_refuses(changes: dict[str, Any], reason: str) -> None:
    (found,) = HugePages.refuse(facts(machine(**changes)))
    assert reason in found


@pytest.mark.parametrize(
    ("libc", "by"),
    [("glibc 2.36", ["glibc", "torch"]), ("glibc 2.34", ["torch"]), ("musl", ["torch"]), ("", ["torch"])],
)
def test_an_older_glibc_cannot_ask_for_them(libc: str, by: list[str]) -> None:
    where = machine(libc=libc, **MADVISE)
    assert [settings["by"] for settings in HugePages.options(facts(where))] == by
    assert bool(HugePages.refuse_settings({"by": "glibc"}, where)) is ("glibc" not in by)


def test_it_applies_on_the_cpu_only() -> None:
    assert HugePages.refuse(facts(machine(**MADVISE))) == []
    on_gpu = facts(machine(**MADVISE), roots=(root(devices=("cuda:0",)),))
    assert HugePages.refuse(on_gpu) == ["the training is not on the CPU"]


@pytest.mark.parametrize("settings", [{}, {"by": "me"}, {"by": "torch", "size": 2}])
def test_settings_that_no_machine_could_carry_out(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="one of glibc, torch"):
        HugePages.check(settings)


def test_the_same_by_hand() -> None:
    assert HugePages.by_hand({"by": "torch"}) == "export THP_MEM_ALLOC_ENABLE=1"
