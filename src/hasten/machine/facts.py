"""One record of this machine, assembled from what the other files of this room find."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from hasten.machine import container, cpu, memory, topology
from hasten.machine.accelerators import accelerators
from hasten.machine.libraries import libraries, packages
from hasten.records.machine import Machine

SPEED_VARIABLES = (
    "OMP_NUM_THREADS",
    "OMP_THREAD_LIMIT",
    "OMP_PROC_BIND",
    "OMP_PLACES",
    "OMP_WAIT_POLICY",
    "GOMP_*",
    "KMP_*",
    "MKL_*",
    "DNNL_*",
    "ONEDNN_*",
    "LD_PRELOAD",
    "MALLOC_*",
    "TCMALLOC_*",
    "MIMALLOC_*",
    "GLIBC_TUNABLES",
    "THP_*",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_LAUNCH_BLOCKING",
    "TORCH_*",
    "PYTORCH_*",
)
"""Patterns of the environment variables with which a user influences speed."""
_NOT_SPEED = (
    "TORCH_HOME",
    "TORCH_HUB*",
    "TORCH_EXTENSIONS_DIR",
    "TORCH_CUDA_ARCH_LIST",
    "PYTORCH_VERSION",
    "PYTORCH_BUILD_*",
)
"""Where torch keeps files, and what images of containers say of how it was built."""


def this_machine(root: Path = Path("/")) -> Machine:
    """The machine as this process may use it: affinity mask and container limits are taken into account."""
    cpus = cpu.allowed_cpus()
    return Machine(
        system=platform.system(),
        architecture=platform.machine(),
        cpu_model=cpu.model(root),
        logical_cpus=len(cpus),
        physical_cores=cpu.physical_cores(cpus, root),
        quota_cpus=container.quota_cpus(root),
        memory_bytes=memory.total_bytes(root),
        available_bytes=memory.available_bytes(root),
        cpu_flags=cpu.flags(root),
        libc=libc(root),
        python=platform.python_version(),
        accelerators=accelerators(root),
        environment=speed_variables(os.environ),
        cores=cpu.cores(cpus, root),
        nodes=topology.nodes(root),
        libraries=libraries(root),
        packages=packages(),
        huge_pages=memory.huge_pages(root),
        cxx=cxx(os.environ),
    )


def cxx(environment: Mapping[str, str]) -> str:
    """Path of the C++ compiler that torch.compile calls here: the one named by CXX, or the system's."""
    usual = "clang++" if platform.system() == "Darwin" else "g++"
    return shutil.which(environment.get("CXX") or usual) or ""


def libc(root: Path = Path("/")) -> str:
    """The C library this Python runs on: "glibc 2.36", "musl", or "" for neither.

    Python is asked first: a musl loader may be installed on a glibc system too.
    """
    name, version = platform.libc_ver()
    if name == "glibc":
        return f"{name} {version}"
    return "musl" if any(root.glob("lib/ld-musl*")) else ""


def _is_any_of(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def speed_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that affect speed, sorted by name."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if _is_any_of(name, SPEED_VARIABLES) and not _is_any_of(name, _NOT_SPEED)
    }
