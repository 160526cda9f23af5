"""Read the machine's counters.

Sources: proc(5) for /proc/stat and /proc/vmstat; https://docs.kernel.org/admin-guide/cgroup-v2.html for
cpu.stat and memory.events.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from hasten.machine import nvml
from hasten.machine.clocks import heat_stops
from hasten.machine.container import groups_around
from hasten.machine.probe import number_in, output_of, text_of
from hasten.records.vitals import Vitals

_IDLE_SECONDS = 0.5


def vitals(root: Path = Path("/"), gpus: bool = False) -> Vitals:
    """A reading of now. ``gpus``: their clocks too, which takes a while."""
    busy, everything = _ticks(root)
    swapping = _named_numbers(root / "proc/vmstat")
    quotas = [_named_numbers(group / "cpu.stat") for group in groups_around("cpu", root)]
    return Vitals(
        busy_ticks=busy,
        all_ticks=everything,
        quota_periods=sum(quota.get("nr_periods", 0) for quota in quotas),
        quota_stops=sum(quota.get("nr_throttled", 0) for quota in quotas),
        swapped_pages=swapping.get("pswpin", 0) + swapping.get("pswpout", 0),
        heat_stops=heat_stops(root),
        gpu_clocks=(nvml.clocks() or tuple(_by_nvidia_smi())) if gpus else (),
    )


def killed_for_memory(root: Path = Path("/")) -> int:
    """Processes that the kernel has killed for lack of memory, on the machine and in the groups around us.

    Only differences between two readings mean anything: a kill may be counted in several places.
    """
    groups = [_named_numbers(group / "memory.events") for group in groups_around("memory", root)]
    machine = _named_numbers(root / "proc/vmstat")
    return machine.get("oom_kill", 0) + sum(group.get("oom_kill", 0) for group in groups)


def idle_vitals() -> tuple[Vitals, Vitals]:
    """Two readings half a second apart, while nothing of ours runs: what others do on this machine."""
    first = vitals()
    time.sleep(_IDLE_SECONDS)
    return first, vitals()


def _ticks(root: Path) -> tuple[int, int]:
    """(busy, all) clock ticks of all cores since boot."""
    fields = [number_in(word) or 0 for word in text_of(root / "proc/stat").split("\n", 1)[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4], sum(fields)) if len(fields) == 8 else (0, 0)


def _named_numbers(path: Path) -> dict[str, int]:
    pairs = [line.split() for line in text_of(path).splitlines()]
    return {pair[0]: number_in(pair[1]) or 0 for pair in pairs if len(pair) == 2}


def _by_nvidia_smi() -> Iterator[int]:
    asked = output_of("nvidia-smi", "--query-gpu=clocks.sm", "--format=csv,noheader,nounits")
    return (number_in(line.strip()) or 0 for line in asked.splitlines())
