"""Techniques that make a step slower or faster by a known share, and the script and the bootstrap that go
with them: for tests and benchmarks only.

What is true, and how exactly it is known. A step of ``SCRIPT`` does ``ROUNDS`` rounds of one arithmetic loop
in pure Python, and a rest: forward, backward and update of nine numbers, with what hasten's watching adds.
``Slower`` has the script's own loop do some rounds more, around the forward pass; ``Faster`` takes some away
from where the script calls it. It is work that is counted, not time: a busy machine, another clock rate or a
slow process stretches all rounds alike. So the true ratio of times is (rest + rounds of b) / (rest + rounds
of a), the rest in rounds. Only the rest is measured, and not by any comparison of hasten's: the script times
steps of none, one and two times ``ROUNDS`` in turns by its own clock (the argument "calibrate"), and tells
their first deciles, since other programs only add. It is about 3% of a step. Were it wrong by a fifth, a gain
of 3% would be wrong by 0.02%, one of 30% by 0.2%. What is not in this ratio: the call of a wrapper, about
1 us, 0.03% of a step.
"""

from __future__ import annotations

import math
import os
import runpy
import sys
from pathlib import Path
from typing import Any

import hasten
from hasten.inside.seams import Call
from hasten.inside.techniques.base import Technique
from hasten.inside.techniques.catalog import CATALOG
from hasten.inside.training import NotApplicable, Training
from hasten.records.plan import Plan, Settings
from hasten.records.trial import Proof

ROUNDS = 40_000  # of the plain step: 2 to 4 ms
CALIBRATED = (0, ROUNDS, 2 * ROUNDS)
SWEEPS = 80  # each goes through CALIBRATED and back
CALIBRATION_STEPS = 2 * len(CALIBRATED) * SWEEPS

SCRIPT = f"""
    import json
    import sys
    import time
    from statistics import quantiles

    import torch


    def work(rounds):
        number = 1
        for _ in range(rounds):
            number = (number * 1103515245 + 12345) % 2147483648
        return number


    def train_step(rounds):
        work(rounds)
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()


    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    inputs = torch.randn(8, 8)
    if sys.argv[1:] == ["calibrate"]:
        taken = {{rounds: [] for rounds in {CALIBRATED}}}
        for _ in range({SWEEPS}):
            for rounds in {CALIBRATED + CALIBRATED[::-1]}:
                began = time.perf_counter()
                train_step(rounds)
                taken[rounds].append(time.perf_counter() - began)
        print(json.dumps([quantiles(seconds, n=10)[0] for seconds in taken.values()]), flush=True)
    while True:
        train_step({ROUNDS})
"""


class Busy(Technique):
    """``rounds``: of the loop, in one step."""

    layer = "application"
    risk = "exact"
    scope = "live"

    def __init__(self) -> None:
        self._steps = 0
        self._rounds = 0

    @classmethod
    def check(cls, settings: Settings) -> None:
        if set(settings) != {"rounds"} or not isinstance(settings["rounds"], int) or settings["rounds"] < 0:
            raise ValueError(f"{cls.name} needs rounds, a whole number from 0 on")

    def proof(self, training: Training) -> Proof:
        evidence = f"{self._rounds} rounds, in {self._steps} steps"
        return Proof(self.name, self._steps > 0 or self._rounds == 0, evidence)


class Slower(Busy):
    """With 0 rounds nothing is installed: the same against the same."""

    name = "slower"
    summary = "some rounds of the script's loop more, before the forward pass"

    def install(self, training: Training, settings: Settings) -> None:
        self._rounds = int(settings["rounds"])
        if not self._rounds:
            return
        work = sys.modules["__main__"].work

        def forward(root: Any, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            self._steps += 1
            work(self._rounds)
            return call(*args, **kwargs)

        training.forward_wrappers[self.name] = forward

    def remove(self, training: Training) -> None:
        training.forward_wrappers.pop(self.name, None)


class Faster(Busy):
    name = "faster"
    summary = "some rounds of the script's loop less"

    def install(self, training: Training, settings: Settings) -> None:
        self._rounds = int(settings["rounds"])
        if self._rounds > ROUNDS:
            raise NotApplicable(f"a step has {ROUNDS} rounds, {self._rounds} cannot be taken away")

        def shortened(original: Any) -> Any:
            def work(rounds: int) -> Any:
                self._steps += 1
                return original(rounds - self._rounds)

            return work

        self._undo = training.seams.replace(sys.modules["__main__"], "work", shortened)

    def remove(self, training: Training) -> None:
        self._undo()


KINDS: dict[str, type[Technique]] = {kind.name: kind for kind in (Slower, Faster)}


def busy_plan(gain: float) -> Plan:
    """0.05 for 5% faster (speedup 1.05), -0.05 for 5% slower (time 1.05), 0 for the plain step again. The
    rest of the step is left out: see ``true_log_ratio``.
    """
    if gain > 0:
        return Plan({Faster.name: {"rounds": round(ROUNDS - ROUNDS / (1 + gain))}})
    return Plan({Slower.name: {"rounds": round(-ROUNDS * gain)}})


def rounds_under(plan: Plan) -> int:
    """Of one step."""
    less = plan.techniques.get(Faster.name, {"rounds": 0})["rounds"]
    more = plan.techniques.get(Slower.name, {"rounds": 0})["rounds"]
    return ROUNDS + int(more) - int(less)


def true_log_ratio(rounds_a: int, rounds_b: int, rest: float) -> float:
    """log(b's time / a's). ``rest``: of the step, in rounds."""
    return math.log((rest + rounds_b) / (rest + rounds_a))


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    CATALOG.update(KINDS)
    runpy.run_path(str(Path(hasten.__file__).parent / "inside" / "bootstrap.py"), run_name="__main__")
