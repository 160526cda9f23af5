from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from hasten.machine import facts, this_machine
from hasten.records.machine import Core, Machine

from .conftest import Record
from .test_container import GIB, nested_v2
from .test_cpu import topology, two_sockets


@pytest.mark.usefixtures("programs")
def test_a_machine_is_what_the_mask_and_the_container_leave_of_it(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = record(
        two_sockets()
        | topology("core_cpus_list")
        | nested_v2()
        | {
            "proc/meminfo": f"MemTotal: {64 * 2**20} kB\nMemAvailable: {2 * 2**20} kB\n",
            "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        }
    )
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 4, 5}, raising=False)
    monkeypatch.setattr(os, "environ", {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "2", "HOME": "/root"})
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.36"))
    monkeypatch.setattr(facts, "libraries", lambda root: {})
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert this_machine(root) == Machine(
        system="Linux",
        architecture="x86_64",
        cpu_model="Intel(R) Xeon(R) Platinum 8480+",
        logical_cpus=4,
        physical_cores=2,
        quota_cpus=1.5,
        memory_bytes=8 * GIB,
        available_bytes=2 * GIB,
        cpu_flags=("avx2", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16"),
        libc="glibc 2.36",
        python=platform.python_version(),
        environment={"OMP_NUM_THREADS": "2"},
        cores=(Core((0, 4)), Core((1, 5))),
        huge_pages="madvise",
    )


def test_this_very_machine_has_a_cpu_and_memory() -> None:
    machine = this_machine()
    assert 1 <= machine.physical_cores <= machine.logical_cpus
    assert 0 < machine.available_bytes <= machine.memory_bytes
    assert machine.cpu_model


def test_looking_at_the_machine_imports_nothing_foreign() -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        "from hasten.machine import this_machine; this_machine()\n"
        "roots = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(roots - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['hasten']"


@pytest.mark.parametrize(
    ("found", "loader", "libc"),
    [
        (("glibc", "2.36"), False, "glibc 2.36"),
        (("glibc", "2.36"), True, "glibc 2.36"),  # the musl package on Debian
        (("", ""), True, "musl"),
        (("musl", "1.2.5"), True, "musl"),  # newer Pythons know it
        (("", ""), False, ""),
    ],
)
def test_libc_is_the_one_python_runs_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: tuple[str, str], loader: bool, libc: str
) -> None:
    if loader:
        (tmp_path / "lib").mkdir()
        (tmp_path / "lib/ld-musl-x86_64.so.1").touch()
    monkeypatch.setattr(platform, "libc_ver", lambda: found)
    assert facts.libc(tmp_path) == libc


def test_only_variables_that_bear_on_speed_are_kept() -> None:
    speed = {
        "GOMP_SPINCOUNT": "0",
        "OMP_PLACES": "cores",
        "KMP_BLOCKTIME": "1",
        "LD_PRELOAD": "libjemalloc.so",
        "MALLOC_ARENA_MAX": "2",
        "MIMALLOC_VERBOSE": "1",
        "MKL_NUM_THREADS": "4",
        "ONEDNN_VERBOSE": "1",
        "PYTORCH_CUDA_ALLOC_CONF": "x",
        "TORCH_LOGS": "",
    }
    others = {"PATH": "/bin", "WANDB_API_KEY": "secret", "NOT_MKL_X": "1", "LD_PRELOADS": "1", "torch_x": "1"}
    built = {"TORCH_HOME": "/cache", "TORCH_CUDA_ARCH_LIST": "9.0a", "PYTORCH_VERSION": "2.11.0"}
    assert facts.speed_variables(others | speed | built) == speed
