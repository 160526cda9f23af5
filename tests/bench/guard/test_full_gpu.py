"""A training that takes so much of a GPU's memory that two do not fit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from hasten.bench.comparing.pairs import PairsBench
from hasten.bench.guard.guard import guard
from hasten.bench.observe import observe
from hasten.records.facts import Facts
from hasten.records.plan import BASELINE, Plan

from ..real_workers import trials_for

if not torch.cuda.is_available():
    pytest.skip("torch finds no GPU here", allow_module_level=True)

FULL = """
    import torch

    torch.manual_seed(0)
    rows = int(0.65 * torch.cuda.get_device_properties(0).total_memory) // (7 * 4 * 256)
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(1024, 256, device="cuda")
    for _ in range(10**6):
        optimizer.zero_grad()
        loss = model(inputs.repeat(rows // 1024, 1)).square().mean()
        loss.backward()
        optimizer.step()
"""


def test_it_is_checked_and_compared_all_the_same(tmp_path: Path) -> None:
    plan = Plan({"tf32": {}})
    with trials_for(tmp_path, FULL) as trials:
        seen, rhythm = observe(trials, steps=8, warmup_steps=2)
        trials.starts.know(Facts(trials.stage.machine, seen))
        assert trials.starts.room.is_short_for(2)
        verdict = guard(trials, plan, False, "tfloat32", 0, steps=20)
        assert verdict.accuracy == "held", verdict
        trial = PairsBench(trials, rhythm).compare(BASELINE, plan, 1)
        assert trial.failure is None
        assert len(trial.log_ratios) == 1
