"""The contract, over the whole catalogue and every ordered pair of it."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.inside.techniques.catalog import CATALOG
from hasten.inside.techniques.exclusion import within
from hasten.machine import this_machine
from hasten.records.plan import BASELINE
from hasten.records.whole_run import PARTS
from hasten.testing.technique_contract import (
    BENCHES,
    LIVE,
    PAIRS,
    STARTED,
    bench_of,
    check_checkpoints_look_the_same,
    check_later_training,
    check_proof,
    check_steps_leave_no_trace,
    check_switching_alone_leaves_no_trace,
    check_training_stays_close,
    check_what_the_script_drops_is_freed,
    plan_of,
    trained_from_the_start,
)
from hasten.testing.workbench import adam_by_parameter, normed_cnn, workbench

from .made_up import facts, loader

training = partial(workbench, make_model=normed_cnn, make_optimizer=adam_by_parameter)
TOLERANCES = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 3e-2}


def compatible(names: list[str]) -> bool:
    return within(plan_of(*names)) is None


@pytest.mark.parametrize("name", LIVE)
def test_switching_alone_leaves_no_trace(name: str) -> None:
    with training() as bench:
        check_switching_alone_leaves_no_trace(bench, plan_of(name))


@pytest.mark.parametrize("name", LIVE)
def test_steps_under_it_leave_no_trace(name: str) -> None:
    with training() as bench:
        check_steps_leave_no_trace(bench, plan_of(name))


# Compiling takes seconds: these are the ones whose hooks and dtypes lie closest to it.
COMPILED = {("compile", "bf16"), ("fused_optimizer", "compile"), ("compile", "channels_last")}


def is_ordinary(first: str, second: str) -> bool:
    return "compile" not in (first, second) or (first, second) in COMPILED


def is_next(first: str, second: str) -> bool:
    """Each with the next two of the catalogue; all others, and the other order, in the thorough run."""
    apart = (LIVE.index(second) - LIVE.index(first)) % len(LIVE)
    return (first, second) in COMPILED or (is_ordinary(first, second) and apart <= 2)


def pairs(ordinary: Callable[[str, str], bool]) -> list[Any]:
    return [pair if ordinary(*pair) else pytest.param(*pair, marks=pytest.mark.thorough) for pair in PAIRS]


@pytest.mark.parametrize(("first", "second"), pairs(is_next))
def test_every_ordered_pair_leaves_no_trace(first: str, second: str) -> None:
    with training() as bench:
        check_switching_alone_leaves_no_trace(bench, plan_of(first, second))
        check_steps_leave_no_trace(bench, plan_of(first), plan_of(first, second), plan_of(second))


@settings(max_examples=12)
@given(st.lists(st.lists(st.sampled_from(LIVE), unique=True).filter(compatible), min_size=1, max_size=4))
def test_any_sequence_of_plans_leaves_no_trace(sequence: list[list[str]]) -> None:
    with training() as bench:
        check_steps_leave_no_trace(bench, *(plan_of(*names) for names in sequence))


@pytest.mark.parametrize("name", LIVE)
def test_training_stays_close(name: str) -> None:
    with training() as bench:
        check_training_stays_close(bench, plan_of(name), TOLERANCES[CATALOG[name].precision])


@pytest.mark.parametrize(
    ("first", "second"),
    pairs(is_next),
)
def test_training_stays_close_under_every_ordered_pair(first: str, second: str) -> None:
    tolerance = max(TOLERANCES[CATALOG[name].precision] for name in (first, second))
    with training() as bench:
        check_training_stays_close(bench, plan_of(first, second), tolerance)


@pytest.mark.parametrize("name", LIVE)
def test_the_proof_needs_the_effect(name: str) -> None:
    reasons = CATALOG[name].refuse_machine(this_machine())
    if reasons:
        pytest.skip(f"{name} cannot take effect on this machine: {'; '.join(reasons)}")
    with BENCHES[name]("cpu") if name in BENCHES else training() as bench:
        check_proof(bench, name)


@pytest.mark.parametrize("name", LIVE)
def test_it_is_in_force_in_a_later_training_too(name: str) -> None:
    reasons = CATALOG[name].refuse_machine(this_machine())
    if reasons:
        pytest.skip(f"{name} cannot take effect on this machine: {'; '.join(reasons)}")
    with BENCHES[name]("cpu") if name in BENCHES else training() as bench:
        check_later_training(bench, name)


@pytest.mark.parametrize("name", LIVE)
def test_what_the_script_drops_is_freed(name: str) -> None:
    with BENCHES[name]("cpu") if name in BENCHES else training() as bench:
        check_what_the_script_drops_is_freed(bench, name)


@pytest.mark.parametrize("name", LIVE)
def test_checkpoints_look_the_same(name: str) -> None:
    with training() as bench:
        check_checkpoints_look_the_same(bench, plan_of(name))


SUITED: dict[str, dict[str, Any]] = {
    "sample_store": {"loaders": (loader(workers=2),)},
    "batched_to_tensor": {"loaders": (loader(pictures=True),)},
}
"""What is seen of a script that a technique applies to, if that is not the usual one."""


@pytest.mark.skipif(sys.platform != "linux", reason="they are refused on other systems")
@pytest.mark.parametrize("name", STARTED)
def test_a_process_that_starts_under_it_trains_the_same(name: str) -> None:
    if refused := CATALOG[name].refuse(facts(**SUITED.get(name, {}))):
        pytest.skip(f"on this CPU: {refused[0]}")
    with bench_of(name, "cpu") as bench:
        expected = trained_from_the_start(bench, BASELINE)
    with bench_of(name, "cpu") as bench:
        assert trained_from_the_start(bench, plan_of(name)) == expected


@pytest.mark.parametrize("name", list(CATALOG))
def test_settings_worth_trying_can_be_carried_out(name: str) -> None:
    options = CATALOG[name].options(facts(threads=3))
    assert options
    for option in options:
        CATALOG[name].check(option)
        assert CATALOG[name].by_hand(option)


@pytest.mark.parametrize("name", list(CATALOG))
def test_a_technique_says_what_it_is(name: str) -> None:
    technique = CATALOG[name]
    assert technique.name == name
    assert technique.summary
    assert technique.__module__.rsplit(".", 1)[-1] == name
    assert set(technique.conflicts) <= set(CATALOG)
    assert technique.parts
    assert set(technique.parts) <= set(PARTS)
    assert all(technique.conflicts.values())
