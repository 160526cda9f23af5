"""What a step takes by its samples."""

from __future__ import annotations

import pytest

from hasten.scaling.step_cost import fitted


def test_a_line_is_found_again() -> None:
    runs = {samples: [[0.01 + 0.002 * samples] * 10] for samples in (64, 32, 16)}
    cost = fitted(runs, 0.5)
    assert cost.mid.fixed_seconds == pytest.approx(0.01)
    assert cost.mid.sample_seconds == pytest.approx(0.002)
    assert cost.seconds(8).mid == pytest.approx(0.026)
    assert cost.low == cost.high == cost.mid  # no step differed


def test_processes_that_differ_widen_the_bounds() -> None:
    runs = {64: [[0.9] * 10, [1.1] * 10], 32: [[0.5] * 10, [0.5] * 10]}
    found = fitted(runs, 0.5).seconds(64)
    assert found.low == pytest.approx(found.mid / 1.1)
    assert found.high == pytest.approx(1.1 * found.mid)


def test_of_one_batch_size_the_bounds_are_all_and_nothing() -> None:
    cost = fitted({64: [[1.0] * 10]}, 0.5)
    assert cost.seconds(64).low == cost.seconds(64).high == 1.0
    quarter = cost.seconds(16)
    assert (quarter.low, quarter.high) == (0.25, 1.0)


def test_neither_part_is_below_zero() -> None:
    faster = fitted({64: [[1.0] * 5], 32: [[0.4] * 5]}, 0.5)  # half the samples in less than half the time
    assert (faster.mid.fixed_seconds, faster.mid.sample_seconds > 0) == (0.0, True)
    slower = fitted({64: [[1.0] * 5], 32: [[1.2] * 5]}, 0.5)
    assert slower.mid.sample_seconds == 0.0
    assert 1.0 < slower.mid.fixed_seconds < 1.2


def test_the_spread_is_of_the_scripts_own_batches() -> None:
    cost = fitted({64: [[1.0, 1.0, 2.0]], 32: [[0.5, 5.0, 0.5]]}, 0.5)
    assert cost.spread == (1.0, 1.0, 2.0)


def test_no_steps_are_refused() -> None:
    with pytest.raises(ValueError, match="no step"):
        fitted({64: [[]]}, 0.5)
