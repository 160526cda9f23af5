"""How many threads torch uses: what is worth trying, and what a process really got."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from hasten.inside.techniques.threads import Threads

from ..machine.topologies import recorded
from ..patience import PATIENCE_SECONDS
from .made_up import facts, machine, root

PROOF = """
import sys
import torch
from hasten.inside.seams import Seams
from hasten.inside.techniques.threads import Threads
from hasten.inside.training import Training

training, technique = Training(torch, Seams(), 0), Threads()
for asked in (1, 2):
    technique.install(training, {"count": asked})
    print(technique.proof(training).effective)
"""


@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.thorough), 2])
def test_the_proof_holds_for_the_number_the_process_was_started_with(count: int) -> None:
    own = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
    plain = {key: value for key, value in os.environ.items() if key not in own}
    done = subprocess.run(
        [sys.executable, "-c", PROOF],
        env={**plain, **Threads.environment({"count": count}, machine())},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    assert done.stdout.split() == [str(count == 1), str(count == 2)]


def counts(where: Any, now: int) -> list[Any]:
    return [settings["count"] for settings in Threads.options(facts(where, threads=now))]


@pytest.mark.parametrize(
    ("where", "now", "expected"),
    [
        pytest.param(machine(), 8, [16, 4, 1], id="eight cores with two threads each, torch takes the cores"),
        pytest.param(machine(), 16, [8, 4, 1], id="torch takes all hardware threads"),
        pytest.param(
            machine(logical_cpus=64, physical_cores=32, quota_cpus=4.0),
            32,
            [4, 2, 1],
            id="a container's quota",
        ),
        pytest.param(
            machine(logical_cpus=64, physical_cores=32, quota_cpus=2.5),
            32,
            [3, 2, 1],
            id="part of a core in the quota",
        ),
        pytest.param(machine(logical_cpus=64, physical_cores=32, quota_cpus=0.5), 32, [1], id="half a core"),
        pytest.param(
            machine(logical_cpus=4, physical_cores=2, quota_cpus=8.0), 2, [4, 1], id="a generous quota"
        ),
        pytest.param(machine(logical_cpus=1, physical_cores=1), 1, [], id="one core"),
        pytest.param("laptop-hybrid", 22, [16, 6, 8, 1], id="six fast cores and ten slow ones"),
        pytest.param("epyc-8-nodes", 128, [256, 16, 64, 1], id="a NUMA node of 16 cores"),
        pytest.param("container-2.5-of-64", 32, [3, 2, 1], id="a quota and all cores visible"),
    ],
)
def test_what_is_worth_trying(where: Any, now: int, expected: list[int]) -> None:
    """``where``: a machine, or the name of one that was recorded."""
    assert counts(recorded(where) if isinstance(where, str) else where, now) == expected


def test_it_applies_where_there_is_a_choice() -> None:
    assert Threads.refuse(facts()) == []


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_THREAD_LIMIT"])
def test_what_the_user_set_stands(name: str) -> None:
    where = machine(environment={name: "3"})
    assert Threads.refuse_machine(where) == [f"you set {name} yourself, and that stands"]
    assert Threads.refuse(facts(where)) == Threads.refuse_machine(where)


def test_one_core_leaves_nothing_to_choose() -> None:
    where = machine(logical_cpus=1, physical_cores=1)
    assert Threads.refuse(facts(where, threads=1)) == ["there is one core: nothing to choose"]


def test_training_on_a_gpu_is_no_case_for_it() -> None:
    found = Threads.refuse(facts(roots=(root(devices=("cuda:0",)),)))
    assert found == ["the training is not on the CPU"]


@pytest.mark.parametrize("count", [1, 4096])
def test_settings_that_can_be_carried_out(count: int) -> None:
    Threads.check({"count": count})


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"count": 0},
        {"count": 4097},
        {"count": True},
        {"count": 2.0},
        {"count": "2"},
        {"count": 2, "more": 1},
    ],
)
def test_settings_that_no_machine_could_carry_out(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="whole number"):
        Threads.check(settings)


def test_both_libraries_are_told() -> None:
    assert Threads.environment({"count": 3}, machine()) == {"OMP_NUM_THREADS": "3", "MKL_NUM_THREADS": "3"}
