"""One process on this machine: what is started, and with which environment. Nothing is started here."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

import hasten
from hasten.inside.job import Job
from hasten.launch.one_process import environment_of, render
from hasten.records.codec import from_json, to_json
from hasten.records.machine import Core
from hasten.records.plan import BASELINE, Plan, Settings

from ..bench.made_up import machine

BOOTSTRAP = str(Path(hasten.__file__).parent / "inside" / "bootstrap.py")
JOB = Job(("train.py", "--lr", "0.1"), machine(), Plan({"threads": {"count": 2}, "malloc": {}, "bf16": {}}))


def test_the_command_and_its_environment() -> None:
    argv, environment = render(JOB, {"PATH": "/bin", "HOME": "/home/u"}, python="/opt/env/bin/python")
    assert argv == ["/opt/env/bin/python", BOOTSTRAP]
    job = environment.pop("HASTEN_JOB")
    assert environment == {
        "PATH": "/bin",
        "HOME": "/home/u",
        "OMP_NUM_THREADS": "2",
        "MKL_NUM_THREADS": "2",
        "MALLOC_MMAP_THRESHOLD_": "33554432",
        "MALLOC_TRIM_THRESHOLD_": "17179869184",
    }
    assert json.loads(job) == to_json(JOB)


def test_what_the_plan_needs_wins() -> None:
    """Whatever the user sets themselves is left out of a plan before it is rendered."""
    _, environment = render(JOB, {"OMP_NUM_THREADS": "64"})
    assert environment["OMP_NUM_THREADS"] == "2"


def test_libraries_come_after_the_users_own() -> None:
    here = machine(libraries={"jemalloc": "/lib/libjemalloc.so.2"})
    job = Job(("train.py",), here, Plan({"malloc": {"kind": "jemalloc"}}))
    assert render(job, {})[1]["LD_PRELOAD"] == "/lib/libjemalloc.so.2"
    own = render(job, {"LD_PRELOAD": "/opt/libown.so"})[1]["LD_PRELOAD"]
    assert own == "/opt/libown.so:/lib/libjemalloc.so.2"


@pytest.mark.parametrize("first", ["affinity", "openmp_runtime"])
def test_a_technique_sees_what_those_before_it_in_the_catalogue_set(first: str) -> None:
    """libiomp5 is told where its threads go in its own words, whatever was adopted first."""
    runtime: dict[str, Settings] = {"openmp_runtime": {"kind": "libiomp5", "blocktime": 0}}
    bound: dict[str, Settings] = {"affinity": {"bind": "compact"}}
    here = machine(libraries={"libiomp5": "/env/libiomp5.so"}, cores=(Core((0,)), Core((1,))))
    plan = Plan({**bound, **runtime} if first == "affinity" else {**runtime, **bound})
    found = environment_of(plan, here)
    assert sorted(found) == ["KMP_AFFINITY", "KMP_BLOCKTIME", "LD_PRELOAD"]


def test_the_worker_reads_the_same_job() -> None:
    _, environment = render(JOB, {})
    assert from_json(Job, json.loads(environment["HASTEN_JOB"])) == JOB


def test_by_default_it_is_this_python() -> None:
    assert render(JOB, {})[0][0] == sys.executable


def test_rendering_changes_nothing() -> None:
    base, ours = {"PATH": "/bin"}, dict(os.environ)
    assert render(JOB, base) == render(JOB, base)
    assert base == {"PATH": "/bin"}
    assert dict(os.environ) == ours


def test_the_baseline_adds_nothing() -> None:
    assert environment_of(BASELINE, machine()) == {}


def test_what_is_switched_inside_needs_no_environment() -> None:
    assert environment_of(Plan({"bf16": {}, "channels_last": {}}), machine()) == {}


def test_the_entry_is_there() -> None:
    """It is run by its path, so that hasten may live in another environment than the script."""
    assert Path(BOOTSTRAP).is_file()
