"""What keeps a start from being made shorter is seen, in processes that import torch themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasten.bench.observe import observe
from hasten.inside.observing.uses import FINALIZES, IMPORTS_COMPILER
from tests.bench.real_workers import trials_for

STARTING = """
    log = open(__file__ + ".log", "w")
    from ground import *
    {first}
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(100):
        model(torch.randn(8, 8)).mean().backward()
        optimizer.step()
"""


@pytest.mark.parametrize("first", ["", "torch._dynamo.config.suppress_errors"], ids=["plain", "compiler"])
def test_what_it_waits_for_is_seen(tmp_path: Path, first: str) -> None:
    source = STARTING.format(first=first)
    with trials_for(tmp_path, source if first else source.replace("log = ", "# ")) as trials:
        observation, _ = observe(trials, steps=10, warmup_steps=4)
    assert observation.uses == ((FINALIZES, IMPORTS_COMPILER) if first else ())
