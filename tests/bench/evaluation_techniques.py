"""Techniques that make evaluation shorter by a known share, and the script and the bootstrap that go with
them: for tests only. As in ``busy_techniques``, what is taken away is work that is counted, not time.

An epoch of ``SCRIPT`` has ``STEPS`` steps of ``ROUNDS`` rounds of a loop in pure Python, and then an
evaluation of ``EVALUATION`` rounds. ``Quicker`` takes some of these away. ``Moved`` takes as many away, and
adds them to the steps that follow: nothing is gained.
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
from hasten.inside.training import Training
from hasten.records.facts import Facts
from hasten.records.plan import BASELINE, Plan, Settings
from hasten.records.trial import Proof

STEPS, ROUNDS, EVALUATION = 8, 20_000, 640_000  # an evaluation takes four fifths of an epoch

SCRIPT = f"""
    import torch
    from torch.utils.data import DataLoader, TensorDataset


    def work(rounds):
        number = 1
        for _ in range(rounds):
            number = (number * 1103515245 + 12345) % 2147483648
        return number


    def evaluate(rounds):
        with torch.no_grad():
            for part in samples.split(8):
                model(part)
                work(rounds // {STEPS})


    torch.manual_seed(0)
    torch.set_num_threads(1)
    samples = torch.randn({8 * STEPS}, 8)
    loader = DataLoader(TensorDataset(samples), batch_size=8)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    while True:
        for (batch,) in loader:
            work({ROUNDS})
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
        evaluate({EVALUATION})
"""


class Quicker(Technique):
    """``rounds``: taken away from each evaluation."""

    name = "quicker_evaluation"
    summary = "some rounds of each evaluation less"
    layer = "application"
    risk = "exact"
    scope = "live"
    parts = ("evaluation",)

    def __init__(self) -> None:
        self._evaluations = 0

    @classmethod
    def options(cls, facts: Facts) -> list[Settings]:
        return [{"rounds": EVALUATION // 2}]

    @classmethod
    def check(cls, settings: Settings) -> None:
        if set(settings) != {"rounds"}:
            raise ValueError(f"{cls.name} needs rounds")

    def install(self, training: Training, settings: Settings) -> None:
        def shortened(original: Any) -> Any:
            def evaluate(rounds: int) -> Any:
                self._evaluations += 1
                return original(rounds - int(settings["rounds"]))

            return evaluate

        self._undo = training.seams.replace(sys.modules["__main__"], "evaluate", shortened)

    def remove(self, training: Training) -> None:
        self._undo()

    def proof(self, training: Training) -> Proof:
        return Proof(self.name, self._evaluations > 0, f"{self._evaluations} evaluations")


class Moved(Quicker):
    """The same rounds, in the steps."""

    name = "moved_evaluation"
    summary = "some rounds of each evaluation, in the steps instead"

    def install(self, training: Training, settings: Settings) -> None:
        super().install(training, settings)
        work, rounds = sys.modules["__main__"].work, int(settings["rounds"]) // STEPS

        def forward(root: Any, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if training.torch.is_grad_enabled():
                work(rounds)
            return call(*args, **kwargs)

        training.forward_wrappers[self.name] = forward

    def remove(self, training: Training) -> None:
        training.forward_wrappers.pop(self.name, None)
        super().remove(training)


KINDS: dict[str, type[Technique]] = {kind.name: kind for kind in (Quicker, Moved)}


def plan_with(technique: type[Quicker], share: float) -> Plan:
    """That takes away this share of each evaluation."""
    return BASELINE.adding(technique.name, {"rounds": round(share * EVALUATION)})


def true_log_ratio(share: float) -> float:
    """Of ``Quicker``: log(an epoch's time under it / plain), but for what is not counted."""
    whole = STEPS * ROUNDS + EVALUATION
    return math.log((whole - share * EVALUATION) / whole)


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    CATALOG.update(KINDS)
    runpy.run_path(str(Path(hasten.__file__).parent / "inside" / "bootstrap.py"), run_name="__main__")
