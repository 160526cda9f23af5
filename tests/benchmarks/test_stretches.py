"""The simulation of whole stretches: without noise a comparison gives what is said to be the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchmarks import stretches
from benchmarks.noise import Noise
from benchmarks.stretches import COUNTS, EFFECTS, Effect, compared

SILENT = Noise(process_sd=0.0, step_sd=0.0, spike_share=0.0, cold=0.0)


@pytest.mark.parametrize("effect", EFFECTS, ids=lambda effect: effect.name)
def test_without_noise_the_truth_is_found(effect: Effect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretches, "DRIFT_SD", 0.0)
    ((logs, steps),) = compared(SILENT, effect, np.random.default_rng(0), 1)
    assert logs == pytest.approx([effect.truth] * max(COUNTS))
    assert steps == pytest.approx([math.log(effect.steps)] * max(COUNTS))
