"""A step on 1,000 ranks played message by message, next to what ``hasten scale`` computes by formula.

    python -m benchmarks.scaling_simulation

Each rank computes, its steps drawn from what was measured; buckets are sent as a backward pass fills them;
each message of a ring leaves when the one before has come and the link is free. The formula assumes equal
links, and that all ranks start sending at once, after the slowest. Where a rank or a link is slow for long it
is too low: the last cases show by how much. Writes results/DATE-scaling_simulation.json.
"""

from __future__ import annotations

import math
from statistics import fmean
from typing import Any

import numpy

from hasten.records.scaling import Cluster, Line, Link, StepCost, Workload
from hasten.scaling.prediction import scaled

from .results import write_result

STEPS = 20
LINK = Link(latency_seconds=20e-6, bytes_per_second=1.25e9)
FIXED, EACH, BACKWARD = 0.01, 0.002, 0.6
GRADIENT_BYTES, BUCKET_BYTES = 20 * 2**20, 5 * 2**20
CASES = (  # name, ranks, samples each, deviation of a step's logarithm, slow ranks, slow links
    ("even steps", 8, 32, 0.0, 0, 0),
    ("even steps", 64, 32, 0.0, 0, 0),
    ("even steps", 1000, 32, 0.0, 0, 0),
    ("steps that vary by 3%", 64, 32, 0.03, 0, 0),
    ("steps that vary by 3%", 1000, 32, 0.03, 0, 0),
    ("steps that vary by 20%", 1000, 32, 0.2, 0, 0),
    ("one rank half as fast", 1000, 32, 0.03, 1, 0),
    ("one link a tenth as fast", 1000, 32, 0.03, 0, 1),
)


def played(ranks: int, samples: int, deviation: float, slow_ranks: int, slow_links: int) -> float:
    """Seconds of a mean step."""
    draw = numpy.random.default_rng(ranks)
    pace = numpy.ones(ranks)
    pace[:slow_ranks] = 2.0
    speed = numpy.full(ranks, LINK.bytes_per_second)
    speed[:slow_links] /= 10
    buckets = math.ceil(GRADIENT_BYTES / BUCKET_BYTES)
    on_link = GRADIENT_BYTES / buckets / ranks / speed  # seconds of a message to the next rank
    start, ended = numpy.zeros(ranks), []
    for _ in range(STEPS):
        step = (FIXED + EACH * samples) * pace * numpy.exp(draw.normal(0, deviation, ranks))
        free = numpy.zeros(ranks)
        for number in range(1, buckets + 1):
            at = numpy.maximum(start + step * (1 - BACKWARD * (1 - number / buckets)), free)
            link_free = numpy.zeros(ranks)
            for _ in range(2 * (ranks - 1)):
                link_free = numpy.maximum(at, link_free) + on_link
                at = numpy.maximum(at, numpy.roll(link_free + LINK.latency_seconds, 1))
            free = at
        start = numpy.maximum(free, start + step)
        ended.append(start.max())
    return float(ended[-1] / STEPS)


def computed(ranks: int, samples: int, deviation: float) -> float:
    """By the formula for one bucket after another, which knows of no slow ranks and links."""
    draw = numpy.random.default_rng(0)
    spread = tuple(numpy.exp(draw.normal(0, deviation, 200))) if deviation else (1.0, 1.0)
    line = Line(FIXED, EACH)
    work = Workload(
        StepCost(line, line, line, BACKWARD, spread), samples * ranks, GRADIENT_BYTES, None, BUCKET_BYTES,
        first_bucket_bytes=BUCKET_BYTES, backend="nccl",
    )  # fmt: skip
    return scaled(work, Cluster(1, LINK, LINK), ranks).step_seconds.mid


def main() -> None:
    rows: list[dict[str, Any]] = []
    for name, ranks, samples, deviation, slow_ranks, slow_links in CASES:
        play = played(ranks, samples, deviation, slow_ranks, slow_links)
        formula = computed(ranks, samples, deviation)
        rows.append({"case": name, "ranks": ranks, "played": play, "computed": formula})
        times = f"{1e3 * play:.1f} ms played, {1e3 * formula:.1f} computed"
        print(f"{name}, {ranks} ranks: {times}, {formula / play - 1:+.1%}")
    agree = [abs(row["computed"] / row["played"] - 1) for row in rows if row["case"].startswith("even")]
    write_result("scaling_simulation", {"rows": rows, "mean_error_even": fmean(agree)})


if __name__ == "__main__":
    main()
