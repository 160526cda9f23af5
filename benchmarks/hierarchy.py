"""Sums over ranks of several hosts: by shared memory within a host and Gloo between hosts, and by Gloo alone.

    python -m benchmarks.hierarchy [--hosts 2] [--ranks 2] [--mbit 1000] [--rounds 10]

Hosts are network namespaces on a bridge, whose ways have ``--mbit`` each (0: as fast as the machine copies);
they share one machine's processors, so that what takes processor time takes more here than on hosts of their
own. Both are the same processes; they are timed in the order A B B A, in each round and for each size. The
ratio is of the slowest rank's times, and the interval over rounds. Needs root.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.hosts import Network, network, why_no_hosts

from .results import now, write_result
from .rounds import of_rounds, ratio_of

SIZES = (4 * 2**10, 64 * 2**10, 2**20, 8 * 2**20, 32 * 2**20)
KINDS = ("hierarchy", "gloo")
_LEAST_SECONDS, _MOST_CALLS = 0.05, 50  # of one stretch
_PORT = 29700
RANK = """
import json, sys, time
import torch
from hasten.inside.distributed.communication import Communication
from hasten.inside.job import Hosts, Ranks
from hasten.launch.keeper import Keeper

told = json.loads(sys.argv[1])
torch.set_num_threads(1)
rank, key = told["rank"], b"k" * 32
keeper = Keeper(told["meeting"].partition(":")[0], [told["port"]], key, 600) if rank == 0 else None
def joined(kind, launch):
    ranks = tuple(map(tuple, told["hosts"]))
    names = tuple(f"h{n}" for n in range(len(ranks)))
    hosts = Hosts(ranks, names, told["here"], told["address"], told["meeting"], key.hex(), launch)
    size = sum(map(len, ranks))
    return Communication(Ranks(rank, size, told["local"], "", kind, hosts=hosts, timeout_seconds=120))
for _ in range(200):
    try:
        by = {"hierarchy": joined("shm", 1), "gloo": joined("gloo", 2)}
        break
    except RuntimeError as error:
        if "reached" not in str(error): raise
        time.sleep(0.1)
def timed(talk, tensor, calls):
    talk.barrier()
    began = time.perf_counter()
    for _ in range(calls):
        talk.sum(tensor)
    mine = torch.tensor([time.perf_counter() - began], dtype=torch.float64)
    return float(talk.gathered(mine).max()) / calls
for size in told["sizes"]:
    tensor = torch.zeros(size // 4)
    first = max(timed(talk, tensor, 3) for talk in by.values())
    calls = max(2, min(told["most"], int(told["least"] / first)))
    for number in range(told["rounds"]):
        for kind in ("hierarchy", "gloo", "gloo", "hierarchy"):
            seconds = timed(by[kind], tensor, calls)
            if rank == 0:
                row = {"bytes": size, "round": number, "kind": kind, "seconds": seconds}
                print(json.dumps(row), flush=True)
by["gloo"].barrier()
"""


def measured(net: Network, hosts: int, each: int, rounds: int) -> list[dict[str, Any]]:
    """What rank 0 prints, a row for each stretch."""
    layout = [[host * each + place for place in range(each)] for host in range(hosts)]
    started: list[subprocess.Popen[str]] = []
    for here, ranks in enumerate(layout):
        for local, rank in enumerate(ranks):
            told = {
                "rank": rank, "local": local, "here": here, "hosts": layout, "address": net.address(here + 1),
                "meeting": f"{net.address(1)}:{_PORT}", "port": _PORT, "sizes": SIZES, "rounds": rounds,
                "least": _LEAST_SECONDS, "most": _MOST_CALLS,
            }  # fmt: skip
            command = [sys.executable, "-c", RANK, json.dumps(told)]
            started.append(net.start(here + 1, command, {**os.environ, "OMP_NUM_THREADS": "1"}, Path.cwd()))
    try:
        out, err = started[0].communicate()
        if started[0].returncode:
            raise RuntimeError(err)
    finally:
        for process in started:
            process.kill()
            process.communicate()
    return [json.loads(line) for line in out.splitlines()]


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Seconds of both for each size, and the ratio with its 95% interval: how many times as fast as Gloo."""
    found = {}
    for size in dict.fromkeys(row["bytes"] for row in rows):
        mine = [row for row in rows if row["bytes"] == size]
        ratio = ratio_of(mine, "gloo", "hierarchy", "seconds")
        found[str(size)] = {kind: statistics.median(of_rounds(mine, kind, "seconds")) for kind in KINDS}
        if ratio is not None:
            found[str(size)] |= {"ratio": ratio.value, "low": ratio.low, "high": ratio.high}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--ranks", type=int, default=2, help="on each host")
    parser.add_argument("--mbit", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=10)
    asked = parser.parse_args()
    if why_no_hosts():
        sys.exit(f"there can be no hosts here: {why_no_hosts()}")
    with network(asked.hosts) as net:
        if asked.mbit:
            net.limit(asked.mbit)
        rows = measured(net, asked.hosts, asked.ranks, asked.rounds)
    found = summary(rows)
    print(f"{asked.hosts} hosts of {asked.ranks} ranks, {asked.mbit or 'unlimited'} Mbit/s")
    print(f"{'bytes':>10} {'hierarchy':>12} {'Gloo':>12}   Gloo / hierarchy")
    for size, one in found.items():
        times = f"{one['hierarchy'] * 1e3:9.3f} ms {one['gloo'] * 1e3:9.3f} ms"
        print(f"{size:>10} {times}   {one['ratio']:.2f} ({one['low']:.2f} to {one['high']:.2f})")
    write_result("hierarchy", {"when": now(), **vars(asked), "summary": found, "rows": rows})


if __name__ == "__main__":
    main()
