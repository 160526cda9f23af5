"""What the parts of a plan gain at least, together."""

from __future__ import annotations

import pytest

from hasten.records.plan import Plan
from hasten.tuning.gains import Gains


def plan_of(*names: str) -> Plan:
    return Plan({name: {} for name in names})


def test_nothing_gains_nothing() -> None:
    assert (Gains().largest, Gains().together(plan_of("a"))) == (1.0, 1.0)


def test_parts_multiply_and_an_ablation_takes_the_place_of_what_was_found_before() -> None:
    gains = Gains()
    for name, speedup in (("a", 1.2), ("b", 1.5), ("a", 1.1), ("gone", 3.0)):
        gains.add(speedup, [name])
    assert gains.together(plan_of("a", "b", "c")) == pytest.approx(1.65)
    assert gains.largest == 3.0


def test_other_settings_gain_over_those_before() -> None:
    gains = Gains()
    gains.add(1.5, ["threads"])
    gains.add(1.1, ["threads"], other_settings=True)
    assert gains.largest == pytest.approx(1.65)


def test_of_a_group_and_its_members_one_counts() -> None:
    gains = Gains()
    gains.add(1.15, ["a", "b"])
    assert gains.together(plan_of("a", "b")) == 1.15
    assert gains.together(plan_of("a")) == 1.0
    gains.add(1.07, ["a"])
    gains.add(1.05, ["b"])
    assert gains.together(plan_of("a", "b")) == pytest.approx(1.07 * 1.05)
