"""What hasten costs on each engine, against plain torch that a person starts there by the same means.

    python -m benchmarks.engines [--rounds 6] [--steps 300] [ENGINE ...]

The same script of its own ranks trains on two hosts, without a plan. In each round hasten starts it and a
person does, in the order A B B A. A step is the median of rank 0's after the first tenth. What is reported is
the ratio, with its 95% interval over rounds, and how long it takes from the command to the end of the first
step. Hosts are network namespaces that share this machine's processors. Needs root, and engines as by
tests/machines/install.sh.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.hosts import why_no_hosts
from tests.machines import hosts as made
from tests.machines import slurm_cluster, sshd
from tests.machines.cluster import Cluster, environment_of

from .results import now, write_result
from .rounds import of_rounds, ratio_of

SCRIPT = Path(__file__).parent / "workloads" / "ddp_steps.py"
KINDS = ("hasten", "by hand")
_WARMUP_SHARE = 10  # one step in so many is not timed
_PORT = 29650
_AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
# Both kinds get one state of glibc's allocator: without it a process has 70,000 page faults or 400,000, by
# chance, and steps that are a tenth longer. A run by hasten had the second more often than one by hand.
_ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**33)}
_INTERFACES = {"OMPI_MCA_oob_tcp_if_include": "eth0", "OMPI_MCA_btl_tcp_if_include": "eth0"}


@dataclass(frozen=True)
class Way:
    """``hand``: of the port, what a person types, with the host where; ``hasten``: its options."""

    program: str
    hasten: tuple[str, ...]
    hand: Callable[[Cluster, int], list[tuple[str, list[str]]]]


def _torchrun(cluster: Cluster, port: int) -> list[tuple[str, list[str]]]:
    def on(rank: int, host: str) -> tuple[str, list[str]]:
        words = ["--nnodes", "2", "--node-rank", str(rank), "--nproc-per-node", "1"]
        words += ["--master-addr", cluster.hosts.address("h1"), "--master-port", str(port)]
        return host, [sys.executable, "-m", "torch.distributed.run", *words]

    return [on(1, "h2"), on(0, "h1")]


def _openmpi(_: Cluster, port: int) -> list[tuple[str, list[str]]]:
    names = ("MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS", "GLOO_SOCKET_IFNAME", *_ALLOCATOR)
    told = [word for name in names for word in ("-x", name)]
    words = ["-n", "2", "--bind-to", "none", "--host", "h1:1,h2:1", "--map-by", "slot"]
    return [("h1", ["mpirun", *words, *told, sys.executable])]


def _mpich(_: Cluster, port: int) -> list[tuple[str, list[str]]]:
    words = ["-n", "2", "-hosts", "h1,h2", "-ppn", "1", "-iface", "eth0"]
    return [("h1", ["mpiexec.hydra", *words, sys.executable])]


def _slurm(_: Cluster, port: int) -> list[tuple[str, list[str]]]:
    return [("h1", ["srun", "--nodes=2", "--ntasks-per-node=1", sys.executable])]


_ON_BOTH = ("--hosts", "h1,h2")
WAYS = {
    "torchrun": Way("ssh", _ON_BOTH, _torchrun),
    "openmpi": Way("mpirun.openmpi", _ON_BOTH, _openmpi),
    "mpich": Way("mpiexec.hydra", _ON_BOTH, _mpich),
    "slurm": Way("srun", ("--nnodes", "2"), _slurm),
}


def one(kind: str, engine: str, cluster: Cluster, port: int, steps: int) -> dict[str, float]:
    """A run: its median step and the time to the end of the first, in seconds."""
    out = cluster.folder / "out.json"
    out.unlink(missing_ok=True)
    words = [str(SCRIPT), str(out), str(steps)]
    way = WAYS[engine]
    began = time.time()
    if kind == "hasten":
        options = ("--no-plan", "--engine", engine, *way.hasten, "--nproc-per-node", "1")
        passed_on = [word for name in _ALLOCATOR for word in ("--env", name)] if engine != "slurm" else []
        started = [cluster.start_hasten("run", *options, *passed_on, *words)]
    else:
        told = {"MASTER_ADDR": cluster.hosts.address("h1"), "MASTER_PORT": str(port)}
        by_hand = Cluster(cluster.hosts, cluster.folder, cluster.environment | told | _AS_ROOT | _INTERFACES)
        started = [by_hand.start(*argv, *words, host=host) for host, argv in way.hand(by_hand, port)]
    for running in started:
        done = running.ended()
        if done.returncode:
            raise RuntimeError(f"{engine}, {kind}: {done.stderr[-2000:]}")
    found = json.loads(out.read_text())
    return {
        "step": statistics.median(found["steps"][steps // _WARMUP_SHARE :]),
        "first": found["first"] - began,
    }


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """For each engine: how many times as long a step takes under hasten, and seconds to the first step."""
    found = {}
    for engine in dict.fromkeys(row["engine"] for row in rows):
        mine = [row for row in rows if row["engine"] == engine]
        ratio = ratio_of(mine, "hasten", "by hand", "step")
        found[engine] = {
            f"{part}, {kind}": statistics.median(of_rounds(mine, kind, part))
            for part in ("step", "first")
            for kind in KINDS
        }
        if ratio is not None:
            found[engine] |= {"ratio": ratio.value, "low": ratio.low, "high": ratio.high}
    return found


@contextmanager
def _cluster(engines: Sequence[str]) -> Iterator[Cluster]:
    with ExitStack() as until_end:
        folder = Path(until_end.enter_context(tempfile.TemporaryDirectory()))
        hosts = until_end.enter_context(made.hosts(folder))
        until_end.enter_context(sshd.servers({host: hosts.start(host) for host in hosts.names}, folder))
        environment = environment_of(hosts, folder)
        environment |= {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth0", **_ALLOCATOR}
        if "slurm" in engines:
            place = folder / "slurm"
            place.mkdir()
            environment |= until_end.enter_context(slurm_cluster.slurm(hosts, place))
        project = folder / "project"
        project.mkdir()
        yield Cluster(hosts, project, environment)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("engines", nargs="*", choices=[*WAYS, []], metavar="ENGINE")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=300)
    asked = parser.parse_args()
    engines = asked.engines or [name for name, way in WAYS.items() if shutil.which(way.program)]
    why = why_no_hosts() or sshd.why_not()
    if why:
        sys.exit(why)
    rows: list[dict[str, Any]] = []
    with _cluster(engines) as cluster:
        for engine in engines:
            for number in range(asked.rounds):
                for kind in (*KINDS, *reversed(KINDS)):
                    times = one(kind, engine, cluster, _PORT + len(rows), asked.steps)
                    rows.append({"engine": engine, "round": number, "kind": kind, **times})
            print(engine, summary(rows)[engine], flush=True)
    found = summary(rows)
    print(f"{'engine':10} {'step':>22} {'ratio':>22} {'to the first step':>26}")
    for engine, it in found.items():
        step = f"{it['step, by hand'] * 1e3:.2f} -> {it['step, hasten'] * 1e3:.2f} ms"
        ratio = f"{it['ratio']:.3f} ({it['low']:.3f} to {it['high']:.3f})" if "ratio" in it else ""
        print(
            f"{engine:10} {step:>22} {ratio:>22} {it['first, by hand']:12.1f} -> {it['first, hasten']:.1f} s"
        )
    write_result("engines", {"when": now(), **vars(asked), "summary": found, "rows": rows})


if __name__ == "__main__":
    main()
