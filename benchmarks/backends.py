"""Communication backends side by side, two ranks on this machine: all-reduces of each size, and what a DDP
step of a network of two million parameters pays.

    python -m benchmarks.backends [NAME ...]     # and writes docs/backends.md

All backends are groups of the same two processes, used in turn; several launches one after another, of
which each counts once. What memory allows is measured between: both ranks at once copy a tensor and add one
to another, which is the traffic of an all-reduce through shared memory where no cache helps (a copy into the
slot, an addition from the other's: five bytes for each byte of the tensor).
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

from hasten.bench.comparing.statistics import interval
from hasten.machine import this_machine

from .results import DOCS, write_result

LAUNCHES = 6
RANKS = 2
TURNS = 7
KILOBYTES = (4, 16, 64, 256, 1024, 4096, 8192, 65536)
LARGEST = KILOBYTES[-1]
HEADING = "## Measured"


def installed() -> list[str]:
    """Those that can be measured here, Gloo first."""
    names = ["gloo", "shm"]
    if importlib.util.find_spec("mpi4py") is not None:
        names.append("mpi4py")
    if Path(sys.prefix, "lib", "libccl.so.2").exists():
        names.append("ccl")
    return names


def one_rank(names: list[str]) -> None:
    """Measure as one of two ranks; rank 0 prints."""
    import torch
    import torch.distributed as dist

    import hasten.backends  # noqa: F401

    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    how: dict[str, Any] = {"init_method": f"file://{os.environ['STORE']}", "timeout": timedelta(seconds=120)}
    dist.init_process_group("gloo", rank=rank, world_size=RANKS, **how)
    groups = {name: dist.new_group(backend=name) for name in names}
    found = {
        "all_reduce": {str(size): _all_reduces(groups, size) for size in KILOBYTES},
        "memory": _memory_seconds(),
        "step": _ddp_steps(groups),
    }
    if rank == 0:
        print(json.dumps(found), flush=True)
    dist.barrier()
    if "mpi4py.MPI" in sys.modules:
        sys.modules["mpi4py.MPI"].Finalize()  # or mpirun takes it for a failure
    os._exit(0)  # oneCCL has an end of its own


def _all_reduces(groups: dict[str, Any], kilobytes: int) -> dict[str, list[float]]:
    """Seconds of one all-reduce, a value for each turn."""
    import torch
    import torch.distributed as dist

    numbers = torch.zeros(kilobytes * 256)
    many = max(3, min(200, LARGEST // kilobytes))
    seconds: dict[str, list[float]] = {name: [] for name in groups}
    for turn in range(TURNS):
        for name in list(groups) if turn % 2 == 0 else list(reversed(groups)):
            group = groups[name]
            for _ in range(2):
                dist.all_reduce(numbers, group=group)
            began = time.perf_counter()
            for _ in range(many):
                dist.all_reduce(numbers, group=group)
            seconds[name].append((time.perf_counter() - began) / many)
    return seconds


def _memory_seconds() -> list[float]:
    """What copying and adding the largest tensor takes, both ranks at once."""
    import torch
    import torch.distributed as dist

    a, b = torch.zeros(LARGEST * 256), torch.zeros(LARGEST * 256)
    seconds = []
    for _ in range(TURNS):
        dist.barrier()
        began = time.perf_counter()
        for _ in range(3):
            b.copy_(a)
            a.add_(b)
        seconds.append((time.perf_counter() - began) / 3)
    return seconds


def _ddp_steps(groups: dict[str, Any]) -> dict[str, list[float]]:
    """Seconds of a training step with each backend, and "alone" without any."""
    import copy

    import torch
    import torch.distributed as dist
    from torch import nn

    torch.manual_seed(0)
    first = nn.Sequential(
        *(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(2048, 975), nn.ReLU(), nn.Linear(975, 10)),
    )
    models: dict[str, nn.Module] = {"alone": copy.deepcopy(first)}
    for name, group in groups.items():
        models[name] = nn.parallel.DistributedDataParallel(
            copy.deepcopy(first), process_group=group, gradient_as_bucket_view=True
        )
    inputs, labels = torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))
    optimizers = {name: torch.optim.SGD(model.parameters(), lr=0.01) for name, model in models.items()}

    def step(name: str) -> None:
        optimizers[name].zero_grad()
        nn.functional.cross_entropy(models[name](inputs), labels).backward()  # type: ignore[no-untyped-call]
        optimizers[name].step()

    for name in models:
        for _ in range(3):
            step(name)
    seconds: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(8 * TURNS):
        for name in list(models) if turn % 2 == 0 else list(reversed(models)):
            dist.barrier()
            began = time.perf_counter()
            for _ in range(3):
                step(name)
            seconds[name].append((time.perf_counter() - began) / 3)
    return seconds


def launch(names: list[str]) -> dict[str, Any]:
    """Two ranks; under mpirun where MPI is measured, which knows no other way."""
    with tempfile.TemporaryDirectory() as folder:
        common = {**os.environ, "STORE": str(Path(folder, "store"))}
        command = [sys.executable, "-m", "benchmarks.backends", "--one-rank", *names]
        if "mpi4py" in names:
            command = [
                *("mpirun", "-n", str(RANKS), "--bind-to", "none", "--allow-run-as-root", "--oversubscribe"),
                *("sh", "-c", 'RANK=$OMPI_COMM_WORLD_RANK exec "$@"', "sh", *command),
            ]
            done = subprocess.run(command, env=common, stdout=subprocess.PIPE, text=True, check=True)
            return dict(json.loads(done.stdout))
        ranks = [
            subprocess.Popen(command, env={**common, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
            for rank in range(RANKS)
        ]
        printed = [process.communicate()[0] for process in ranks]
        if any(process.returncode for process in ranks):
            raise SystemExit("a rank failed: see above")
        return dict(json.loads(printed[0]))


def times_as_fast(launches: list[Any], of: Callable[[Any], tuple[float, float]]) -> dict[str, float]:
    """How many times as fast the second is as the first, with the interval over launches."""
    logs = [math.log(slow / fast) for slow, fast in map(of, launches)]
    found = interval(logs, "launches")
    if found is None:
        return {"value": math.exp(logs[0])}
    return {"value": found.value, "low": found.low, "high": found.high}


def summary(launches: list[Any], names: list[str]) -> dict[str, Any]:
    """Each backend against Gloo, by size; against memory, at the largest; and what a step pays."""
    rows: dict[str, Any] = {"all_reduce": {}, "memory": {}, "step": {}}
    for name in names:
        if name == "gloo":
            continue
        for size in map(str, KILOBYTES):
            rows["all_reduce"].setdefault(size, {})[name] = times_as_fast(
                launches,
                lambda one, size=size, name=name: (  # type: ignore[misc]
                    median(one["all_reduce"][size]["gloo"]),
                    median(one["all_reduce"][size][name]),
                ),
            )
        rows["memory"][name] = times_as_fast(
            launches,
            lambda one, name=name: (  # type: ignore[misc]
                median(one["memory"]),
                median(one["all_reduce"][str(LARGEST)][name]),
            ),
        )
    for name in names:
        paid = [median(one["step"][name]) - median(one["step"]["alone"]) for one in launches]
        rows["step"][name] = {"paid_seconds": median(paid), "least": min(paid), "most": max(paid)}
    return rows


def words(found: dict[str, float]) -> str:
    more = f" ({found['low']:.2f} to {found['high']:.2f})" if "low" in found else ""
    return f"{found['value']:.2f}{more}"


def measured(found: dict[str, Any], launches: list[Any], names: list[str]) -> str:
    """The last part of docs/backends.md."""
    others = [name for name in names if name != "gloo"]
    lines = ["", ""]
    lines.append(
        f"Two ranks on {this_machine().identity}, torch {importlib.metadata.version('torch')}, by `python -m "
        f"benchmarks.backends`: an all-reduce of float32, all backends in turn in the same processes, "
        f"{len(launches)} launches; times as fast as Gloo, with the 95% interval over launches."
    )
    lines += ["", f"| size | Gloo | {' | '.join(others)} |", "|---|---|" + "---|" * len(others)]
    for size in map(str, KILOBYTES):
        gloo = median(median(one["all_reduce"][size]["gloo"]) for one in launches)
        cells = [f"{words(found['all_reduce'][size][name])}x" for name in others]
        lines.append(f"| {size} KB | {1e6 * gloo:.0f} us | {' | '.join(cells)} |")
    lines += [
        "",
        "What a training step of a CNN of 2.1 million parameters pays under DDP (batch 32 a rank):",
        "",
    ]
    for name, one in found["step"].items():
        paid, least, most = (1e3 * one[key] for key in ("paid_seconds", "least", "most"))
        lines.append(f"- {name}: {paid:.2f} ms ({least:.2f} to {most:.2f} over launches)")
    share = found["memory"]["shm"]
    lines += [
        "",
        f"At 64 MB, shm is {words(share)} times as fast as copying a tensor and adding one to another in "
        "memory, both ranks at once: its chunks stay in the processors' caches.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="backends; all that are installed by default")
    parser.add_argument("--launches", type=int, default=LAUNCHES)
    parser.add_argument("--one-rank", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    names = arguments.names or installed()
    if arguments.one_rank:
        one_rank(names)
        return
    if names[0] != "gloo":
        names = ["gloo", *(name for name in names if name != "gloo")]
    launches = []
    for number in range(arguments.launches):
        launches.append(launch(names))
        print(f"launch {number + 1} of {arguments.launches}", file=sys.stderr, flush=True)
    found = summary(launches, names)
    for size in map(str, KILOBYTES):
        gloo = median(median(one["all_reduce"][size]["gloo"]) for one in launches)
        row = "  ".join(
            f"{name}: {words(one)} times as fast" for name, one in found["all_reduce"][size].items()
        )
        print(f"{size:>6} KB  gloo: {1e6 * gloo:9.1f} us  {row}")
    for name, one in found["memory"].items():
        print(f"{name} at {LARGEST // 1024} MB: {words(one)} of what copying and adding in memory allows")
    for name, one in found["step"].items():
        paid, least, most = (1e3 * one[key] for key in ("paid_seconds", "least", "most"))
        print(f"a step pays {paid:.2f} ms for {name} ({least:.2f} to {most:.2f})")
    write_result("backends", {"summary": found, "launches": launches})
    path = DOCS / "backends.md"
    written, heading, _ = path.read_text().partition(HEADING)
    path.write_text(written + heading + measured(found, launches, names))


if __name__ == "__main__":
    main()
