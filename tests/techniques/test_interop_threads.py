"""The inter-op pool's size: set once, before the script goes on."""

from __future__ import annotations

import os
from typing import Any

import pytest

from hasten.inside.techniques.interop_threads import InteropThreads
from hasten.records.plan import Plan

from .made_up import facts, machine, root
from .processes import absent, proof_of, proven

ONE = {"count": 1}


def test_the_proof_holds_in_a_process_that_was_started_so() -> None:
    assert proven("interop_threads", {"count": 3})


def test_the_proof_fails_in_a_process_that_was_not() -> None:
    assert absent("interop_threads", {"count": (os.cpu_count() or 1) + 1})


@pytest.mark.parametrize(
    ("own", "effective"), [(3, False), pytest.param(1, True, marks=pytest.mark.thorough)]
)
def test_a_script_that_sets_it_itself_is_not_broken_and_it_is_said(own: int, effective: bool) -> None:
    script = f"torch.set_num_interop_threads({own})"
    found, evidence = proof_of("interop_threads", ONE, Plan({"interop_threads": ONE}), script=script)
    assert found is effective
    assert f"the script asks for {own}" in evidence


def test_what_the_script_sets_itself_stands() -> None:
    found = InteropThreads.refuse(facts(uses=("set_num_interop_threads",)))
    assert found == ["the script calls torch.set_num_interop_threads itself, and that stands"]


@pytest.mark.parametrize(
    ("where", "counts"),
    [
        pytest.param(machine(), [1], id="all of the machine"),
        pytest.param(machine(quota_cpus=4.0), [1, 4], id="a quota"),
        pytest.param(machine(logical_cpus=1, physical_cores=1), [], id="one core"),
    ],
)
def test_what_is_worth_trying(where: Any, counts: list[int]) -> None:
    assert [settings["count"] for settings in InteropThreads.options(facts(where))] == counts


def test_where_it_cannot_help() -> None:
    assert InteropThreads.refuse(facts()) == []
    one = facts(machine(logical_cpus=1, physical_cores=1))
    assert InteropThreads.refuse(one) == ["there is one core: nothing to choose"]
    on_gpu = facts(roots=(root(devices=("cuda:0",)),))
    assert InteropThreads.refuse(on_gpu) == ["the training is not on the CPU"]


@pytest.mark.parametrize(
    "settings", [{}, {"count": 0}, {"count": True}, {"count": "2"}, {"count": 1, "x": 1}]
)
def test_settings_that_no_machine_could_carry_out(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="whole number"):
        InteropThreads.check(settings)


def test_the_same_by_hand() -> None:
    assert InteropThreads.by_hand(ONE).startswith("torch.set_num_interop_threads(1)")
