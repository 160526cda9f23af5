"""glibc's thresholds: the proof asks the allocator of a process that was started with them, or without."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from hasten.inside.techniques.malloc import Malloc
from hasten.machine import this_machine
from hasten.records.machine import Machine

from ..patience import PATIENCE_SECONDS
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
        timeout=PATIENCE_SECONDS,
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
    assert proven(Malloc.environment({}, machine()), used_before)


@on_glibc
@TRAINED
def test_the_proof_fails_in_a_process_without_them(used_before: list[int]) -> None:
    assert not proven({}, used_before)


@on_glibc
@pytest.mark.parametrize("name", sorted(Malloc.environment({}, machine())))
def test_one_variable_of_the_two_is_not_enough(name: str) -> None:
    """Whichever is set, glibc's own adjustment ends; the other threshold is then small for ever."""
    assert not proven({name: Malloc.environment({}, machine())[name]}, [8, 20, 31, 31])


FRAGMENTED = """
import ctypes
from hasten.inside.techniques.malloc import Malloc
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
blocks = [libc.malloc(4 * 2**20) for _ in range(100)]
for block in blocks[::2]:
    libc.free(block)
def heap_bytes():
    return sum(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmSize")) * 1024
before, asked = heap_bytes(), Malloc()
print([asked.proof(None).effective for _ in range(12)], heap_bytes() - before)
"""


@on_glibc
def test_asking_again_and_again_does_not_make_the_heap_grow() -> None:
    """Its free blocks are too small for those of the proof, as after batches of many sizes."""
    done = subprocess.run(
        [sys.executable, "-c", FRAGMENTED],
        env={**os.environ, **Malloc.environment({}, machine())},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    proofs, grown = done.stdout.rsplit(" ", 1)
    assert proofs == str([True] * 12)
    assert int(grown) < 300 * 2**20


@pytest.mark.parametrize("settings", [{}, {"kind": "glibc"}, {"kind": "jemalloc"}, {"kind": "mimalloc"}])
def test_settings_that_can_be_carried_out(settings: dict[str, str]) -> None:
    Malloc.check(settings)


@pytest.mark.parametrize(
    "settings",
    [{"threshold": 1}, {"kind": "/tmp/mine.so"}, {"kind": 1}, {"kind": "jemalloc", "path": "/tmp/mine.so"}],
)
def test_a_plan_names_allocators_by_kind_only(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="no settings but kind, one of glibc, tcmalloc, jemalloc, mimalloc"):
        Malloc.check(settings)  # type: ignore[arg-type]


def test_the_same_by_hand_is_what_it_sets() -> None:
    for name, value in Malloc.environment({}, machine()).items():
        assert f'export {name}="{value}"' in Malloc.by_hand({}).splitlines()
    assert "jemalloc" in Malloc.by_hand({"kind": "jemalloc"})


# ---- other allocators, for real
ASK = """
import sys
from hasten.inside.techniques.malloc import Malloc
asked = Malloc()
asked.install(None, {"kind": sys.argv[1]})
print(asked.proof(None).effective, asked.proof(None).evidence)
"""
OTHERS = ("tcmalloc", "jemalloc", "mimalloc")


def answered(kind: str, variables: dict[str, str]) -> str:
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "LD_PRELOAD"))}
    done = subprocess.run(
        [sys.executable, "-c", ASK, kind],
        env={**plain, **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    assert done.stderr == ""  # no allocator complains of its settings
    return done.stdout


@pytest.mark.parametrize("kind", OTHERS)
def test_another_allocator_answers_malloc(kind: str) -> None:
    here = this_machine()
    if kind not in here.libraries:
        pytest.skip(f"{kind} is not installed here")
    assert answered(kind, Malloc.environment({"kind": kind}, here)).startswith("True")
    assert answered(kind, {}).startswith("False")
    other = OTHERS[OTHERS.index(kind) - 1]
    assert answered(other, Malloc.environment({"kind": kind}, here)).startswith("False")


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
            machine(environment={"MIMALLOC_VERBOSE": "1"}),
            "you set MIMALLOC_VERBOSE yourself",
            id="settings of another allocator",
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


JEMALLOC = {"jemalloc": "/lib/libjemalloc.so.2"}


def test_tunables_that_leave_malloc_alone_do_no_harm() -> None:
    assert Malloc.refuse_machine(machine(environment={"GLIBC_TUNABLES": "glibc.pthread.rseq=0"})) == []


def test_the_thresholds_come_first_and_then_what_is_installed() -> None:
    assert Malloc.options(facts()) == [{}]
    assert Malloc.options(facts(machine(libraries=JEMALLOC))) == [{}, {"kind": "jemalloc"}]
    assert Malloc.options(facts(machine(libraries=JEMALLOC, libc="musl"))) == [{"kind": "jemalloc"}]


def test_a_kind_that_is_not_installed_is_refused() -> None:
    assert Malloc.refuse_settings({"kind": "jemalloc"}, machine()) == ["jemalloc is not installed here"]
    assert Malloc.refuse_settings({"kind": "jemalloc"}, machine(libraries=JEMALLOC)) == []
    assert Malloc.refuse_settings({}, machine(libraries=JEMALLOC, libc="musl")) == ["needs glibc, found musl"]


def test_a_kind_is_resolved_on_this_machine() -> None:
    found = Malloc.environment({"kind": "jemalloc"}, machine(libraries=JEMALLOC))
    assert found["LD_PRELOAD"] == "/lib/libjemalloc.so.2"
    assert "dirty_decay_ms" in found["MALLOC_CONF"]


def test_no_more_is_reserved_than_half_of_what_is_free() -> None:
    where = machine(libraries={"mimalloc": "/lib/libmimalloc.so.2"}, available_bytes=2**30)
    assert Malloc.environment({"kind": "mimalloc"}, where)["MIMALLOC_RESERVE_OS_MEMORY"] == str(2**29)


def test_training_on_a_gpu_is_no_case_for_it() -> None:
    assert Malloc.refuse(facts(roots=(root(devices=("cuda:0",)),))) == ["the training is not on the CPU"]
