"""The contract, over the whole catalogue and every ordered pair of it."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.inside.techniques.catalog import CATALOG
from hasten.records.plan import Plan
from hasten.testing.technique_contract import (
    LIVE,
    check_checkpoints_look_the_same,
    check_proof,
    check_steps_leave_no_trace,
    check_switching_alone_leaves_no_trace,
    check_training_stays_close,
)
from hasten.testing.workbench import normed_cnn, workbench

TOLERANCES = {"float32": 1e-4, "bfloat16": 3e-2}


def plan_of(*names: str) -> Plan:
    return Plan({name: {} for name in names})


@pytest.mark.parametrize("name", LIVE)
def test_switching_alone_leaves_no_trace(name: str) -> None:
    with workbench(make_model=normed_cnn) as bench:
        check_switching_alone_leaves_no_trace(bench, plan_of(name))


@pytest.mark.parametrize("name", LIVE)
def test_steps_under_it_leave_no_trace(name: str) -> None:
    with workbench(make_model=normed_cnn) as bench:
        check_steps_leave_no_trace(bench, plan_of(name))


@pytest.mark.parametrize(("first", "second"), list(permutations(LIVE, 2)))
def test_every_ordered_pair_leaves_no_trace(first: str, second: str) -> None:
    with workbench(make_model=normed_cnn) as bench:
        check_switching_alone_leaves_no_trace(bench, plan_of(first, second))
        check_steps_leave_no_trace(bench, plan_of(first), plan_of(first, second), plan_of(second))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.sampled_from(LIVE), unique=True), min_size=1, max_size=4))
def test_any_sequence_of_plans_leaves_no_trace(sequence: list[list[str]]) -> None:
    with workbench(make_model=normed_cnn) as bench:
        check_steps_leave_no_trace(bench, *(plan_of(*names) for names in sequence))


@pytest.mark.parametrize("name", LIVE)
def test_training_stays_close(name: str) -> None:
    with workbench(make_model=normed_cnn) as bench:
        check_training_stays_close(bench, plan_of(name), TOLERANCES[CATALOG[name].precision])


@pytest.mark.parametrize(("first", "second"), list(permutations(LIVE, 2)))
def test_training_stays_close_under_every_ordered_pair(first: str, second: str) -> None:
    precision = min(CATALOG[first].precision, CATALOG[second].precision)  # "bfloat16" sorts before "float32"
    with workbench(make_model=normed_cnn) as bench:
        check_training_stays_close(bench, plan_of(first, second), TOLERANCES[precision])


@pytest.mark.parametrize("name", LIVE)
def test_the_proof_needs_the_effect(name: str) -> None:
    with workbench(make_model=normed_cnn) as bench:
        check_proof(bench, name)


@pytest.mark.parametrize("name", LIVE)
def test_checkpoints_look_the_same(name: str) -> None:
    with workbench(make_model=normed_cnn) as bench:
        check_checkpoints_look_the_same(bench, plan_of(name))


@pytest.mark.parametrize("name", list(CATALOG))
def test_a_technique_says_what_it_is(name: str) -> None:
    technique = CATALOG[name]
    assert technique.name == name
    assert technique.summary
    assert technique.__module__.rsplit(".", 1)[-1] == name
    assert technique.conflicts <= set(CATALOG)
