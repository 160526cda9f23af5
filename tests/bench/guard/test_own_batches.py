"""A script whose own processes race to make its batches is not accused of what they do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hasten.bench.guard.checked_steps import LEAST_STEPS, Watched
from hasten.bench.guard.guard import guard
from hasten.bench.guard.own_batches import verdict_on
from hasten.records.plan import Plan
from hasten.records.trace import StepTrace
from hasten.records.verdict import Difference, GuardVerdict
from hasten.report.guard import reasons
from tests.scripts.trial import trials_for

from .test_guard import FLOAT32, training
from .test_single_steps import checks

LONG = LEAST_STEPS + 15
OTHER_LOSS = 5.0

RACING = f"""
import itertools, os
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Embedding(50, 8), torch.nn.Flatten(), torch.nn.Linear(32, 50))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rows = [[(3 * row + column) % 50 for column in range(5)] for row in range(200)]

def batch(step):
    first = step if step <= {LONG} else step + 1 + os.urandom(1)[0] % 97
    return torch.tensor([rows[(first + n) % 200] for n in range(8)])

for step in itertools.count(1):
    tokens = batch(step)
    loss = torch.nn.functional.cross_entropy(model(tokens[:, :4]), tokens[:, 4]) * FACTOR
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def trained(parts_at: int | None = None, noise: float = 0.0) -> Watched:
    """Another batch from ``parts_at`` on, and losses to match."""
    trace = [
        replace(step, batches=(), samples=(), inputs=(f"batch {n}",)) for n, step in enumerate(training(), 1)
    ]
    trace = [replace(step, losses=tuple(loss * (1 + noise) for loss in step.losses)) for step in trace]
    for n in range((parts_at or len(trace) + 1) - 1, len(trace)):
        trace[n] = replace(trace[n], inputs=(f"another {n}",), losses=(OTHER_LOSS,))
    return Watched(trace, checks())


def judged(perturbed: Watched, candidate: Watched) -> GuardVerdict:
    return verdict_on(trained(), perturbed, candidate, False, "float32")


@pytest.mark.parametrize("which", [(LONG, None), (None, LONG), (LONG, LONG + 3), (LONG + 3, LONG)])
def test_steps_before_the_batches_part_are_compared(which: tuple[int | None, int | None]) -> None:
    verdict = judged(trained(which[0], FLOAT32), trained(which[1]))
    assert verdict.passed, reasons(verdict)
    assert verdict.steps == LONG - 1


def test_noise_is_not_read_off_other_batches() -> None:
    """Otherwise a plan would pass whose losses are ten percent too large."""
    wrong = trained()
    wrong.trace = [replace(step, losses=tuple(1.1 * loss for loss in step.losses)) for step in wrong.trace]
    assert judged(trained(LONG, FLOAT32), wrong).accuracy == "not held"


def test_single_steps_after_that_do_not_count() -> None:
    candidate = trained(LONG)
    late = replace(checks(2.0)[0], step=LONG)
    candidate.checks = [*checks(), late]
    assert judged(trained(noise=FLOAT32), candidate).passed
    candidate.checks = [*checks(), replace(late, step=LONG - 1)]
    assert judged(trained(noise=FLOAT32), candidate).accuracy == "not held"


def test_where_they_part_early_nothing_is_known() -> None:
    verdict = judged(trained(noise=FLOAT32), trained(5))
    assert (verdict.accuracy, verdict.why_not) == ("not checked", "unrepeatable")
    assert verdict.unsteady == (Difference("inputs", 5),)
    assert "models were given different batches, which no loader made (from step 5)" in reasons(verdict)[0]


def test_a_plan_under_which_losses_agree_all_the_same_passes() -> None:
    candidate = trained()
    candidate.trace = [replace(step, inputs=("chosen by weights",)) for step in candidate.trace]
    assert judged(trained(noise=FLOAT32), candidate).passed


@pytest.mark.parametrize("parts_at", [5, LONG])
@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("other", [StepTrace(streams="other"), StepTrace(batches=("other",))])
def test_a_plan_that_draws_or_reads_something_else_is_to_blame(
    other: StepTrace, before: int, parts_at: int
) -> None:
    """In the step in which batches part, or ``before`` it."""
    candidate, at = trained(parts_at), parts_at - before - 1
    one = candidate.trace[at]
    one = replace(one, streams=other.streams or one.streams, batches=other.batches or one.batches)
    candidate.trace = [*candidate.trace[:at], one, *candidate.trace[at + 1 :]]
    assert judged(trained(noise=FLOAT32), candidate).accuracy == "not held"


FAULTY = pytest.param("(1.05 if optimizer.param_groups[0]['fused'] else 1)", marks=pytest.mark.thorough)


@pytest.mark.parametrize("factor", ["1", FAULTY], ids=["right", "faulty"])
def test_in_a_real_training(factor: str, tmp_path: Path) -> None:
    """``factor``: what the plan makes of the loss."""
    (tmp_path / "racing.py").write_text(RACING.replace("FACTOR", factor))
    with trials_for(tmp_path / "racing.py", tmp_path) as trials:
        verdict = guard(trials, Plan({"fused_optimizer": {}}), False, "float32", seed=1, steps=60)
    assert verdict.accuracy == ("held" if factor == "1" else "not held"), reasons(verdict)
    assert verdict.steps == LONG
