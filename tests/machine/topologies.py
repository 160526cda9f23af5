"""Recorded machines: what ``lscpu -p`` printed there, and the files that it reads, written below a root.

A recording begins with what machine it is. Lines "/path: text" are files. A row of the table is a CPU; a
column that is empty or missing is a file that the machine lacks.
"""

from __future__ import annotations

import os
from collections import defaultdict
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from hasten.machine import this_machine
from hasten.records.machine import Machine

IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # there are thousands of small files
FOLDER = Path(__file__).parent / "topologies"
NAMES = sorted(path.stem for path in FOLDER.glob("*.txt"))

_LEVELS = {
    "L1d": (0, 1, "Data"),
    "L1i": (1, 1, "Instruction"),
    "L2": (2, 2, "Unified"),
    "L3": (3, 3, "Unified"),
}


@cache
def recorded(name: str, cpus: frozenset[int] | None = None) -> Machine:
    """The machine as a process finds it that may run on ``cpus``; None: on all of them."""
    files, all_cpus = _files_of(name)
    with (
        TemporaryDirectory(dir=IN_MEMORY) as folder,
        patch.object(os, "sched_getaffinity", lambda _: cpus or all_cpus),
    ):
        for path, text in files.items():
            file = Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return this_machine(Path(folder))


def _files_of(name: str) -> tuple[dict[str, str], frozenset[int]]:
    """The machine's files, by their path below the root, and its CPUs."""
    files: dict[str, str] = {}
    columns: list[str] = []
    rows: list[dict[str, str]] = []
    for line in (FOLDER / f"{name}.txt").read_text().splitlines():
        if line.startswith("# CPU,"):
            columns = line.removeprefix("# ").split(",")
        elif line.startswith("/"):
            path, _, text = line.partition(": ")
            files[path.removeprefix("/")] = f"{text}\n"
        elif not line.startswith("#"):
            rows.append(dict(zip(columns, line.split(","), strict=False)))
    return files | _topology(rows), frozenset(int(row["CPU"]) for row in rows)


def _topology(rows: list[dict[str, str]]) -> dict[str, str]:
    files: dict[str, str] = {}
    for cpu, siblings in _shared(rows, "Core").items():
        files[f"sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list"] = siblings
    for row in rows:
        folder = f"sys/devices/system/cpu/cpu{row['CPU']}"
        files[f"{folder}/topology/physical_package_id"] = row["Socket"]
        if row["Node"]:
            files[f"sys/devices/system/node/node{row['Node']}/cpulist"] = _shared(rows, "Node")[row["CPU"]]
    for column, (index, level, kind) in _LEVELS.items():
        for cpu, shared in _shared(rows, column).items():
            folder = f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}"
            files |= {
                f"{folder}/level": str(level),
                f"{folder}/type": kind,
                f"{folder}/shared_cpu_list": shared,
            }
    return files


def _shared(rows: list[dict[str, str]], column: str) -> dict[str, str]:
    """For each CPU the list of those with the same number in the column."""
    groups: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row.get(column):
            groups[row[column]].append(row["CPU"])
    return {cpu: ",".join(group) for group in groups.values() for cpu in group}
