"""Is what ``hasten scale`` predicts what training on several hosts then takes?

    python -m benchmarks.scaling [--rounds 3]
    python -m benchmarks.scaling write

Hosts are network namespaces whose links have a limited bandwidth and an added latency; each trains one rank
of workloads/sleeping_ddp.py. First, steps of one process with a batch, half and a quarter are measured, and
all-reduces between two hosts; the prediction for two, three and four hosts knows nothing else. Appends a row
for each case and round to results/scaling.jsonl, and fails where a prediction is more than 10% off; ``write``
puts them into docs/scaling.md. Needs root and tc.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any

from tests.hosts import network, why_no_hosts

from hasten.machine import this_machine
from hasten.records.scaling import Cluster, Link, Workload
from hasten.scaling.gloo_overlap import WAYS
from hasten.scaling.prediction import scaled
from hasten.scaling.step_cost import fitted

from .false_wins import rows_of
from .results import DOCS, FOLDER, now

FILE = FOLDER / "scaling.jsonl"
PAGE = DOCS / "scaling.md"
BEGIN, END = "<!-- validation: begin -->", "<!-- validation: end -->"
SCRIPT = Path(__file__).parent / "workloads" / "sleeping_ddp.py"
BATCH, STEPS, PARTS = 32, 30, (1, 2, 4)
LAYERS, WIDTH, BACKWARD = 6, 512, 2 / 3
BUCKET_MB = 2
WORK = {
    "layers": LAYERS,
    "width": WIDTH,
    "backward": BACKWARD,
    "steps": STEPS,
    "bucket_mb": BUCKET_MB,
    "fixed_seconds": 0.006,  # of a step, over all layers and both passes
    "sample_seconds": 0.002,
}
LINKS = ((100, 0.0), (300, 0.0), (1000, 0.0), (300, 2.0), (300, 10.0))  # Mbit/s, milliseconds added
HOSTS = (2, 3, 4)
BAR = 0.1  # a prediction may be off by so much
_PORT = 29800


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("do", nargs="?", choices=("measure", "write"), default="measure")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args(arguments)
    if asked.do == "write":
        write()
        return
    if why := why_no_hosts():
        raise SystemExit(why)
    worst = 0.0
    for number in range(asked.rounds):
        for mbit, added_ms in LINKS:
            for row in measured(mbit, added_ms, number):
                worst = max(worst, abs(error_of(row)))
                print(f"{mbit} Mbit/s, {added_ms:g} ms, {row['hosts']} hosts: {words(row)}", flush=True)
                with FILE.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    if worst > BAR:
        raise SystemExit(f"a prediction is {worst:.1%} off; {BAR:.0%} is wanted")


def measured(mbit: int, added_ms: float, number: int) -> list[dict[str, Any]]:
    """A row for each number of hosts."""
    alone = {BATCH // part: [steps_of(trained(1, BATCH // part, mbit, added_ms))] for part in PARTS}
    two = trained(2, BATCH, mbit, added_ms)
    link = link_of(two)
    parameters = LAYERS * (WIDTH + 1) * WIDTH
    work = Workload(fitted(alone, BACKWARD), BATCH, 4 * parameters, None, BUCKET_MB * 2**20)
    cluster = Cluster(per_host=1, within=link, between=link)
    rows = []
    for hosts in HOSTS:
        found = two if hosts == 2 else trained(hosts, BATCH, mbit, added_ms)
        predicted = scaled(work, cluster, hosts).step_seconds
        rows.append(
            {
                "mbit": mbit,
                "added_ms": added_ms,
                "hosts": hosts,
                "round": number,
                "predicted": [predicted.low, predicted.mid, predicted.high],
                "measured": median(steps_of(found)),
                "alone": {samples: median(runs[0]) for samples, runs in alone.items()},
                "link": [link.latency_seconds, link.bytes_per_second],
                "began": now(),
                "machine": this_machine().identity,
            }
        )
    return rows


def trained(hosts: int, batch: int, mbit: int, added_ms: float) -> list[dict[str, Any]]:
    """What each rank wrote."""
    with ExitStack() as stack:
        folder, net = Path(stack.enter_context(TemporaryDirectory())), stack.enter_context(network(hosts))
        net.limit(mbit)
        if added_ms:
            stack.enter_context(net.delayed(added_ms / 1e3))
        started = []
        for rank in range(hosts):
            environment = {**os.environ, "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
            environment |= {"RANK": str(rank), "WORLD_SIZE": str(hosts)}
            environment |= {"MASTER_ADDR": net.address(1), "MASTER_PORT": str(_PORT)}
            command = [sys.executable, str(SCRIPT), "out", json.dumps({**WORK, "batch": batch})]
            started.append(net.start(rank + 1, command, environment, folder))
        for process in started:
            _, errors = process.communicate(timeout=300)
            if process.returncode:
                raise SystemExit(errors)
        return [json.loads((folder / f"out-{rank}.json").read_text()) for rank in range(hosts)]


def steps_of(ranks: Sequence[dict[str, Any]]) -> list[float]:
    """Of the slowest rank in each step."""
    return [max(each) for each in zip(*(rank["steps"] for rank in ranks), strict=True)]


def link_of(two: Sequence[dict[str, Any]]) -> Link:
    """From all-reduces of two sizes by a ring of two: bytes / bandwidth, and two messages, which Gloo
    asks for.
    """
    (small, short), (large, long) = ((int(size), seconds) for size, seconds in two[0]["all_reduce"].items())
    speed = (large - small) / (long - short)
    return Link(max(1e-6, (short - small / speed) / 2 / WAYS), speed)


def error_of(row: dict[str, Any]) -> float:
    """Of the prediction, relative to what was measured."""
    return float(row["predicted"][1] / row["measured"] - 1)


def words(row: dict[str, Any]) -> str:
    low, mid, high = (1e3 * seconds for seconds in row["predicted"])
    found = 1e3 * row["measured"]
    return f"{mid:.1f} ms predicted ({low:.1f} to {high:.1f}), {found:.1f} measured, {error_of(row):+.1%}"


def write() -> None:
    """The table into the page."""
    rows = sorted(rows_of(FILE), key=_case)
    lines = [
        "| Mbit/s | ms added | hosts | rounds | predicted step | measured | error | largest of a round |"
    ]
    lines += [
        "|---|---|---|---|---|---|---|---|",
        *(_line(*case, [*of]) for case, of in groupby(rows, _case)),
    ]
    before, _, rest = PAGE.read_text().partition(BEGIN)
    table = "\n".join(lines)
    PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}")


def _case(row: dict[str, Any]) -> tuple[int, float, int]:
    return row["mbit"], row.get("added_ms", 0.0), row["hosts"]


def _line(mbit: int, added_ms: float, hosts: int, rows: Sequence[dict[str, Any]]) -> str:
    predicted = 1e3 * fmean(row["predicted"][1] for row in rows)
    found = 1e3 * fmean(row["measured"] for row in rows)
    worst = max(map(error_of, rows), key=abs)
    cells = [
        mbit,
        f"{added_ms:g}",
        hosts,
        len(rows),
        f"{predicted:.1f} ms",
        f"{found:.1f} ms",
        f"{predicted / found - 1:+.1%}",
    ]
    return f"| {' | '.join(map(str, cells))} | {worst:+.1%} |"


if __name__ == "__main__":
    main(sys.argv[1:])
