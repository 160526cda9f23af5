"""How often a run that goes as planned is reported to have become slower, by simulation.

Per run of 10,000 steps, as ``hasten run`` sees it: a process has a speed of its own (normal, its spread known
to the tune by some processes alone), which wanders meanwhile (autocorrelated over a minute); each block of
steps has heavy-tailed noise on top (Student's t with three degrees of freedom); now and then other programs
run for some seconds. What lasts longer than ``MOST_BURST`` is not noise, and a run should report it.

    python -m benchmarks.slow_alarms --runs 10000
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from hasten.inside.run_watch.rules import Pace
from hasten.inside.run_watch.step_blocks import Block, Kind
from hasten.records.plan import BASELINE, Plan
from hasten.records.run_forecast import SeenProcess
from hasten.records.run_pace import TunedPace, WatchedRun
from hasten.records.trial import Trial
from hasten.tuning.tuned_pace import tuned_pace

STEPS = 10_000
MOST_BURST = 15.0  # seconds
_KIND: Kind = (0, 1, 1, 64, 90, 0, 0)
_BLOCK_SECONDS, _LEAST_STEPS = 1.0, 8


@dataclass(frozen=True)
class Machine:
    """How unlike steps are on it: standard deviations of logarithms, and how often others come by."""

    name: str
    processes: float
    wander: float
    blocks: float  # scale of the t distribution
    burst_every: float  # seconds


MACHINES = (
    Machine("quiet", processes=0.01, wander=0.005, blocks=0.005, burst_every=600.0),
    Machine("usual", processes=0.03, wander=0.015, blocks=0.015, burst_every=120.0),
    Machine("shared", processes=0.06, wander=0.03, blocks=0.04, burst_every=40.0),
)
STEP_SECONDS = (0.010, 0.050, 0.250)
PROCESSES = (4, 6, 8)  # that confirmed the plan


def blocks_of(chance: random.Random, machine: Machine, step: float, slower: float = 1.0) -> Iterator[Block]:
    """The blocks of one run; the second half of it is ``slower``."""
    level = math.log(step) + chance.gauss(0, machine.processes)
    steps = max(_LEAST_STEPS, math.ceil(_BLOCK_SECONDS / step))
    wander, burst_until, burst = chance.gauss(0, machine.wander), 0.0, 0.0
    at, count = 0.0, STEPS // steps
    for number in range(count):
        wall = steps * step
        kept = math.exp(-wall / 60)
        wander = kept * wander + chance.gauss(0, machine.wander * math.sqrt(1 - kept**2))
        if at > burst_until and chance.random() < wall / machine.burst_every:
            burst_until = at + min(MOST_BURST, chance.expovariate(1 / 4.0))
            burst = math.log(chance.uniform(1.1, 2.0))
        noise = machine.blocks * _student(chance) + (burst if at < burst_until else 0.0)
        late = math.log(slower) if number >= count // 2 else 0.0
        seconds = math.exp(level + wander + noise + late)
        yield Block({_KIND: seconds}, {_KIND: steps}, {}, seconds * steps, steps)
        at += wall


def _student(chance: random.Random) -> float:
    """Of three degrees of freedom."""
    return chance.gauss(0, 1) / math.sqrt(chance.gammavariate(1.5, 2) / 3)


def tuned_on(chance: random.Random, machine: Machine, step: float) -> TunedPace | None:
    """As the processes that confirmed the plan have told."""
    unlike = math.hypot(machine.processes, machine.wander)
    told = tuple(
        SeenProcess(1.0, step * math.exp(chance.gauss(0, unlike)), samples=64.0)
        for _ in range(chance.choice(PROCESSES))
    )
    plan = Plan({"bf16": {}})
    return tuned_pace(Trial(BASELINE, plan, "pairs", (), None, None, None, 0.0, processes_b=told))


def alarm(chance: random.Random, machine: Machine, step: float, slower: float = 1.0) -> str:
    """What one run is told: "", "than before" or "than tuned"."""
    pace = Pace(WatchedRun(tuned_on(chance, machine, step)))
    for block in blocks_of(chance, machine, step, slower):
        if pace.block(block) == "slower":
            return "than tuned" if pace.finding().than_tuned else "than before"
    return ""


def alarms(machine: Machine, step: float, runs: int, slower: float = 1.0) -> dict[str, int]:
    """How many of this many runs were told what."""
    found = {"": 0, "than before": 0, "than tuned": 0}
    for seed in range(runs):
        found[alarm(random.Random(f"{machine.name} {step} {seed}"), machine, step, slower)] += 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=2000, help="for each machine and length of a step")
    runs = parser.parse_args().runs
    print(f"{runs} runs of {STEPS} steps each; how many were told that they are slower")
    print("machine   step     as planned: than before, than tuned    second half 30% slower: told")
    for machine in MACHINES:
        for step in STEP_SECONDS:
            false, true = alarms(machine, step, runs), alarms(machine, step, max(1, runs // 20), slower=1.3)
            told = sum(count for kind, count in true.items() if kind) / max(1, runs // 20)
            print(
                f"{machine.name:8s} {step * 1e3:4.0f} ms   {false['than before']:11d}"
                f" {false['than tuned']:11d}            {told:.0%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
