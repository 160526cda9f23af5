"""Who answers OpenMP calls, and how the threads wait: asked of real processes."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hasten.inside.techniques.openmp_runtime import OpenmpRuntime
from hasten.machine import this_machine
from hasten.records.machine import Machine
from hasten.records.plan import Plan, Settings

from .made_up import facts, loader, machine, root
from .processes import absent, proof_of, proven

INTEL = {"libiomp5": "/env/lib/libiomp5.so"}
needs_two_cores = pytest.mark.skipif(
    this_machine().usable_cpus < 2, reason="one core: torch's pool has no thread that could wait"
)


def with_libiomp5() -> Machine:
    """This machine; TEST_LIBIOMP5 may name a library where the package is not installed."""
    here, named = this_machine(), os.environ.get("TEST_LIBIOMP5", "")
    if "libiomp5" not in here.libraries and not Path(named).is_file():
        pytest.skip("libiomp5 is not installed here (package intel-openmp)")
    return replace(here, libraries={"libiomp5": named, **here.libraries})


@needs_two_cores
@pytest.mark.parametrize("wait", ["active", pytest.param("passive", marks=pytest.mark.thorough)])
def test_the_proof_of_waiting(wait: str) -> None:
    assert proven("openmp_runtime", {"kind": "libgomp", "wait": wait})
    assert absent("openmp_runtime", {"kind": "libgomp", "wait": wait})


@needs_two_cores
def test_programs_that_a_script_starts_do_not_wait_awake() -> None:
    script = "import os; assert 'OMP_WAIT_POLICY' not in os.environ"
    assert proven("openmp_runtime", {"kind": "libgomp", "wait": "active"}, script=script)


def test_one_thread_proves_nothing() -> None:
    passive = {"kind": "libgomp", "wait": "passive"}
    plan = Plan({"openmp_runtime": passive, "threads": {"count": 1}})
    effective, evidence = proof_of("openmp_runtime", passive, plan)
    assert not effective
    assert "one thread" in evidence


@pytest.mark.parametrize("milliseconds", [0, 1, 200])
def test_libiomp5_takes_the_place_of_libgomp(milliseconds: int) -> None:
    here = with_libiomp5()
    settings: Settings = {"kind": "libiomp5", "blocktime": milliseconds}
    plan = Plan({"openmp_runtime": settings})
    assert proof_of("openmp_runtime", settings, plan, here)[0]
    other: Settings = {"kind": "libiomp5", "blocktime": 1 if milliseconds == 0 else 0}
    assert not proof_of("openmp_runtime", other, plan, here)[0]
    assert not proof_of("openmp_runtime", {"kind": "libgomp", "wait": "passive"}, plan, here)[0]


def test_the_proof_fails_where_libiomp5_was_not_loaded() -> None:
    effective, evidence = proof_of("openmp_runtime", {"kind": "libiomp5", "blocktime": 0})
    assert not effective
    assert "libgomp" in evidence


# ---- on paper
def options(where: Machine, **observed: Any) -> list[Any]:
    return [tuple(settings.values()) for settings in OpenmpRuntime.options(facts(where, **observed))]


def test_alone_on_the_machine_threads_wait_awake_first() -> None:
    assert options(machine()) == [("libgomp", "active"), ("libgomp", "passive")]
    assert options(machine(libraries=INTEL))[:3] == [("libiomp5", 200), ("libiomp5", 1), ("libiomp5", 0)]


@pytest.mark.parametrize("shared", ["quota", "workers"])
def test_where_cores_are_shared_they_sleep_first(shared: str) -> None:
    where = machine(libraries=INTEL, quota_cpus=4.0 if shared == "quota" else None)
    loaders = (loader(workers=2 if shared == "workers" else 0),)
    found = options(where, loaders=loaders)
    assert found[0] == ("libiomp5", 0)
    assert found[3:] == [("libgomp", "passive"), ("libgomp", "active")]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"environment": {"KMP_BLOCKTIME": "1"}}, "you set KMP_BLOCKTIME yourself"),
        ({"environment": {"OMP_WAIT_POLICY": "active"}}, "you set OMP_WAIT_POLICY yourself"),
        ({"environment": {"LD_PRELOAD": "/opt/libiomp5.so"}}, "another OpenMP runtime: /opt/libiomp5.so"),
        ({"system": "Darwin"}, "not libgomp's on Darwin"),
    ],
)
def test_what_it_refuses(changes: dict[str, Any], reason: str) -> None:
    (found,) = OpenmpRuntime.refuse(facts(machine(**changes)))
    assert reason in found


def test_where_no_thread_waits() -> None:
    assert OpenmpRuntime.refuse(facts(threads=1)) == ["torch uses one thread: there is none to wait"]
    on_gpu = facts(roots=(root(devices=("cuda:0",)),))
    assert OpenmpRuntime.refuse(on_gpu) == ["the training is not on the CPU"]


def test_a_kind_is_resolved_on_this_machine() -> None:
    settings: Settings = {"kind": "libiomp5", "blocktime": 1}
    found = OpenmpRuntime.environment(settings, machine(libraries=INTEL))
    assert found == {"LD_PRELOAD": "/env/lib/libiomp5.so", "KMP_BLOCKTIME": "1"}
    assert OpenmpRuntime.refuse_settings(settings, machine(libraries=INTEL)) == []
    assert OpenmpRuntime.refuse_settings(settings, machine()) != []


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"kind": "libomp"},
        {"kind": "libgomp"},
        {"kind": "libgomp", "wait": "long"},
        {"kind": "libgomp", "blocktime": 1},
        {"kind": "libiomp5", "blocktime": 2},
        {"kind": "libiomp5", "blocktime": True},
        {"kind": "libiomp5", "blocktime": 1, "path": "/tmp/mine.so"},
    ],
)
def test_settings_that_no_machine_could_carry_out(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="openmp_runtime needs kind"):
        OpenmpRuntime.check(settings)


def test_the_same_by_hand() -> None:
    assert OpenmpRuntime.by_hand({"kind": "libgomp", "wait": "passive"}) == "export OMP_WAIT_POLICY=passive"
    assert "KMP_BLOCKTIME=1" in OpenmpRuntime.by_hand({"kind": "libiomp5", "blocktime": 1})
