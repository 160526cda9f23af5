"""A first epoch that is slower than later ones."""

from __future__ import annotations

import pytest

from hasten.records.run_forecast import Span
from hasten.tuning.run_paces import EVEN, Paces, paces_of


def test_a_run_has_one_first_epoch() -> None:
    paces = Paces(100, 0.5, Span(0.6, 0.5, 0.8))
    plain, planned = paces.over(400, whole=True)
    assert plain == pytest.approx(0.25 + 0.75 * 0.5)
    assert (planned.value, planned.low, planned.high) == pytest.approx(
        (0.25 + 0.75 * 0.6, 0.25 + 0.75 * 0.5, 0.25 + 0.75 * 0.8)
    )
    assert paces.over(60, whole=True) == (1.0, Span(1.0, 1.0, 1.0))
    assert paces.over(100, whole=False) == (0.5, Span(0.6, 0.5, 0.8)), "of a longer run, an epoch more"


@pytest.mark.parametrize("plain", [[], [1.0], [0.9, 1.1], [0.7, 1.5]])
def test_what_differs_within_noise_is_one_pace(plain: list[float]) -> None:
    assert paces_of(100, plain, [], 0.5) == EVEN


def test_both_as_they_were_seen() -> None:
    paces = paces_of(100, [0.25, 0.25], [0.5], ratio=0.5)
    assert paces.plain == pytest.approx(0.25)
    assert paces.planned == Span(0.5, 0.5, 0.5)


@pytest.mark.attack("truth")
def test_a_plan_may_spare_the_first_epoch_what_the_script_spares_the_others() -> None:
    """The script keeps its samples: later epochs are four times as fast. The plan's 2x may be just that."""
    paces = paces_of(100, [0.25], [], ratio=0.5)
    assert paces.planned.value == pytest.approx(0.5), "no faster than plain: nothing is gained there"
    assert paces.planned.low == pytest.approx(0.25), "or twice as fast there, too"
    assert paces_of(100, [0.8 * 0.8], [], ratio=0.5).planned.value == 1.0


def test_where_later_epochs_are_slower_so_they_may_be_under_the_plan() -> None:
    assert paces_of(100, [2.0], [], ratio=0.5).planned == Span(pytest.approx(2.0), 1.0, pytest.approx(2.0))  # type: ignore[arg-type]
