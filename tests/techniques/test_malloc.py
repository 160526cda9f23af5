"""glibc's thresholds: the proof asks the allocator of a process that was started with them, or without."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from hasten.inside.techniques.malloc import Malloc
from hasten.records.machine import Machine

from .made_up import facts, machine, root

PROOF = """
import ctypes
from hasten.inside.techniques.malloc import Malloc

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
for mib in {used_before}:  # when a mapped block is freed, glibc raises its thresholds by itself
    libc.free(libc.malloc(mib * 2**20))
proof = Malloc().proof(None)
assert proof.technique == "malloc"
print(proof.effective, proof.evidence)
"""
on_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="thresholds of glibc")


def proven(variables: dict[str, str], used_before: list[int]) -> bool:
    plain = {
        k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD"))
    }
    done = subprocess.run(
        [sys.executable, "-c", PROOF.format(used_before=used_before)],
        env={**plain, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    effective, _, evidence = done.stdout.partition(" ")
    assert "blocks" in evidence
    return effective == "True"


TRAINED = pytest.mark.parametrize(
    "used_before",
    [
        pytest.param([], id="nothing used before"),
        pytest.param([1, 4], id="small blocks"),
        pytest.param([8, 20, 31, 31], id="blocks that raise glibc's own thresholds"),
        pytest.param([200], id="a block larger than all thresholds"),
    ],
)


@on_glibc
@TRAINED
def test_the_proof_holds_in_a_process_with_the_variables(used_before: list[int]) -> None:
    assert proven(Malloc.environment({}), used_before)


@on_glibc
@TRAINED
def test_the_proof_fails_in_a_process_without_them(used_before: list[int]) -> None:
    assert not proven({}, used_before)


@on_glibc
@pytest.mark.parametrize("name", sorted(Malloc.environment({})))
def test_one_variable_of_the_two_is_not_enough(name: str) -> None:
    """Whichever is set, glibc's own adjustment ends; the other threshold is then small for ever."""
    assert not proven({name: Malloc.environment({})[name]}, [8, 20, 31, 31])


def test_it_takes_no_settings() -> None:
    Malloc.check({})
    with pytest.raises(ValueError, match="no settings"):
        Malloc.check({"threshold": 1})


def test_the_same_by_hand_is_what_it_sets() -> None:
    for name, value in Malloc.environment({}).items():
        assert f"export {name}={value}" in Malloc.by_hand({}).splitlines()


# ---- on paper
def test_it_applies_with_glibc_on_the_cpu() -> None:
    assert Malloc.refuse(facts()) == []


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        pytest.param(machine(libc="musl"), "needs glibc, found musl", id="musl"),
        pytest.param(machine(libc=""), "needs glibc, found another C library", id="unknown"),
        pytest.param(
            machine(environment={"MALLOC_ARENA_MAX": "2"}),
            "you set MALLOC_ARENA_MAX yourself",
            id="own MALLOC_",
        ),
        pytest.param(
            machine(environment={"GLIBC_TUNABLES": "glibc.malloc.check=1"}),
            "you set GLIBC_TUNABLES",
            id="tunables",
        ),
        pytest.param(
            machine(environment={"LD_PRELOAD": "/usr/lib/libjemalloc.so.2"}),
            "another allocator: /usr/lib/libjemalloc.so.2",
            id="jemalloc",
        ),
        pytest.param(
            machine(environment={"LD_PRELOAD": "/usr/lib/libtcmalloc_minimal.so.4"}),
            "another allocator",
            id="tcmalloc",
        ),
    ],
)
def test_what_it_refuses(where: Machine, reason: str) -> None:
    (found,) = Malloc.refuse_machine(where)
    assert reason in found
    assert Malloc.refuse(facts(where)) == [found]


def test_another_preloaded_library_does_no_harm() -> None:
    assert Malloc.refuse_machine(machine(environment={"LD_PRELOAD": "libiomp5.so"})) == []


def test_training_on_a_gpu_is_no_case_for_it() -> None:
    assert Malloc.refuse(facts(roots=(root(devices=("cuda:0",)),))) == ["the training is not on the CPU"]
