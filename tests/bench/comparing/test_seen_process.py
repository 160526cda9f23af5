"""What one process shows about a whole run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hasten.bench.comparing.blocks import Block, measure
from hasten.bench.comparing.seen_process import seen_process
from hasten.bench.comparing.steps import rhythm_of
from hasten.records.run_forecast import SeenProcess

from ..made_up import step

SETTLED, STEPS = 10, 120


def seen(spikes: dict[int, float], steps: int = STEPS) -> SeenProcess:
    """A process whose steps take 2 ms, but for ``spikes``, timed in two blocks."""
    history = [step(spikes.get(number, 0.002)) for number in range(SETTLED + steps)]
    rhythm, half = rhythm_of(history), steps // 2
    timed = history[SETTLED:]
    blocks = [block for part in (timed[:half], timed[half:]) if (block := measure(part, rhythm, discard=0))]
    assert all(isinstance(block, Block) for block in blocks)
    worker: Any = SimpleNamespace(history=history, start_seconds=1.0, own_seconds=0.2, setup_seconds=0.0)
    return seen_process(worker, [], blocks, SETTLED, rhythm)


def test_even_steps_are_told_as_they_are() -> None:
    found = seen({})
    assert found.step_seconds == pytest.approx(0.002)
    assert found.uneven == pytest.approx(1.0)
    assert found.lead_seconds == pytest.approx(0.0)


def test_what_came_once_counts_once() -> None:
    """It was taken for what comes every 120 steps, and a run of 1,719 for twice as long as it is."""
    found = seen({SETTLED + 30: 0.302})
    assert found.step_seconds == pytest.approx(0.002)
    assert found.uneven == pytest.approx(1.0)
    assert found.lead_seconds == pytest.approx(0.3)


def test_what_recurs_is_part_of_the_steps() -> None:
    found = seen({SETTLED + 30: 0.302, SETTLED + 90: 0.302})
    assert found.step_seconds == pytest.approx(0.007)
    assert found.uneven > 3
    assert found.lead_seconds < 0


def test_in_few_steps_nobody_knows_whether_it_recurs() -> None:
    assert seen({SETTLED + 5: 0.302}, steps=20).step_seconds == pytest.approx(0.017)


def test_before_the_timed_steps_it_is_part_of_the_lead() -> None:
    found = seen({4: 0.302})
    assert found.step_seconds == pytest.approx(0.002)
    assert found.lead_seconds == pytest.approx(0.3)
