"""Techniques that exclude each other: one answer whoever is asked first, asked wherever a plan is made."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import hasten
from hasten.bench.fake import ScriptedBench
from hasten.errors import PlanError, UsageError
from hasten.inside.techniques import exclusion
from hasten.inside.techniques.catalog import CATALOG
from hasten.inside.training import NotApplicable
from hasten.launch.one_process import LISTS, environment_of
from hasten.plans.files import (
    SavedPlan,
    changed,
    read_plan,
    write_plan,
)
from hasten.records.observation import STEPS_IN_BACKWARD
from hasten.records.plan import BASELINE, Plan, Settings
from hasten.testing.technique_contract import CATALOG_SETTINGS
from hasten.testing.workbench import workbench
from hasten.tuning.candidate import Candidate
from tests.tuning.searches import search_over

from .made_up import facts, loader, machine

USUAL: dict[str, Settings] = {
    **CATALOG_SETTINGS,
    "processes": {"count": 2, "threads": 1, "bind": "cores"},
    "affinity": {"bind": "compact"},
    "batch_size": {"factor": 2},
    "prune": {"ratio": 0.3},
    "interop_threads": {"count": 1},
    "openmp_runtime": {"kind": "libgomp", "wait": "active"},
    "huge_pages": {"by": "glibc"},
}
"""Settings with which each technique is all that it can be."""
DECLARED = [(name, other) for name in CATALOG for other in exclusion.named_by_either(name)]
"""Every pair that is named by one of the two, in both orders."""
attack = pytest.mark.attack("truth")
pairs = pytest.mark.parametrize(("first", "second"), DECLARED)


def plan_of(*names: str, **settings: Settings) -> Plan:
    return Plan({name: settings.get(name, USUAL.get(name, {})) for name in names})


def words_of(name: str) -> str:
    """As --use takes it."""
    settings = ",".join(
        f"{key}={str(value).lower()}" for key, value in plan_of(name).techniques[name].items()
    )
    return f"{name}:{settings}" if settings else name


@attack
@pytest.mark.parametrize(
    ("first", "second"),
    [("compile", "drop_bias"), ("compile", "prune"), ("processes", "batch_size"), ("bf16", "fp16")],
)
def test_these_are_declared(first: str, second: str) -> None:
    assert {(first, second), (second, first)} <= set(DECLARED)


@attack
@pairs
def test_the_answer_is_the_same_whoever_is_asked_about(first: str, second: str) -> None:
    one = exclusion.within(plan_of(first, second))
    other = exclusion.within(plan_of(second, first))
    assert one is not None
    assert other is not None
    assert one.why == other.why
    assert str(one).startswith(f"{first} and {second} exclude each other: ")
    assert exclusion.against(plan_of(first), second, plan_of(second).techniques[second]) is not None
    assert exclusion.against(plan_of(second), first, plan_of(first).techniques[first]) is not None


@attack
@pairs
def test_a_plan_file_with_both_is_refused(tmp_path: Path, first: str, second: str) -> None:
    path = tmp_path / "plan.toml"
    write_plan(path, SavedPlan(plan_of(first, second)))
    with pytest.raises(
        PlanError, match=f"{first} and {second} exclude each other: .*; take one of the two out"
    ):
        read_plan(path)


@attack
@pairs
def test_the_command_line_with_both_is_refused(first: str, second: str) -> None:
    with pytest.raises(UsageError, match=f"{first} and {second} exclude each other: .*--without"):
        changed(SavedPlan(BASELINE), [words_of(first), words_of(second)], [])
    with pytest.raises(UsageError, match=f"{first} and {second} exclude each other"):
        changed(SavedPlan(plan_of(first)), [words_of(second)], [])
    assert changed(SavedPlan(plan_of(first)), [words_of(second)], [first]).plan == plan_of(second)


@attack
@pairs
def test_a_running_program_is_not_put_under_both(first: str, second: str) -> None:
    applied = hasten.applied(plan_of(first, second).techniques)
    with pytest.raises(PlanError, match=f"^the plan: {first} and {second} exclude each other"), applied:
        raise AssertionError("it was applied")


@attack
@pairs
def test_a_worker_is_not_switched_to_both(first: str, second: str) -> None:
    with workbench() as bench:
        bench.train(1)
        with pytest.raises(NotApplicable, match=f"{first} and {second} exclude each other"):
            bench.switchboard.switch(plan_of(first, second))
        assert bench.switchboard.failed == second
        assert bench.switchboard.proofs() == []


@attack
@pairs
def test_a_search_keeps_the_first_and_tries_no_other_with_it(first: str, second: str) -> None:
    bench = ScriptedBench({first: 0.5, second: 0.5})
    search = search_over(bench)
    search.run([candidate(first), candidate(second)])
    assert all(exclusion.within(plan) is None for asked in bench.asked for plan in asked)
    kept = {row.technique for row in search.tried if row.kept}
    assert len(kept) == 1
    (left_out,) = (row for row in search.comparisons.left_out if row.technique not in kept)
    assert first in left_out.reasons[0].text
    assert second in left_out.reasons[0].text


def candidate(name: str, *settings: Settings) -> Candidate:
    return Candidate(CATALOG[name], settings or [plan_of(name).techniques[name]])


@attack
@given(
    st.lists(st.sampled_from(sorted(CATALOG)), unique=True, max_size=12),
    st.dictionaries(st.sampled_from(sorted(CATALOG)), st.sampled_from([0.5, 0.9, 1.0, 1.2])),
    st.sets(st.sampled_from(sorted(CATALOG)), max_size=4),
)
def test_no_search_asks_for_a_plan_whose_parts_exclude_each_other(
    names: list[str], effects: Mapping[str, float], beside: set[str]
) -> None:
    bench = ScriptedBench(effects)
    search = search_over(bench)
    found = search.run(
        [
            Candidate(CATALOG[name], [plan_of(name).techniques[name]], [plan_of(*sorted(beside - {name}))])
            for name in names
        ]
    )
    assert exclusion.within(found) is None
    assert all(exclusion.within(plan) is None for asked in bench.asked for plan in asked)


@attack
@pytest.mark.parametrize("name", CATALOG)
def test_nothing_is_to_be_tried_with_what_excludes_it(name: str) -> None:
    seen = facts(machine(logical_cpus=16), threads=16)
    for settings in CATALOG[name].options(seen):
        assert exclusion.within(Plan({name: settings, **CATALOG[name].together_with(settings, seen)})) is None


# ---- where the settings decide
GO_TOGETHER = [
    Plan({"loader_workers": {"count": 0}, "dataset_in_ram": {}}),
    Plan({"loader_workers": {"count": 0}, "batched_fetch": {}}),
    Plan({"loader_workers": {"count": 0}, "affinity": {"bind": "compact"}}),
    Plan({"loader_workers": {"count": 2}, "affinity": {"bind": "cores"}}),
    Plan({"threads": {"count": 1}, "processes": {"count": 2}}),
    Plan({"batch_size": {"factor": 2}, "processes": {"count": 1}}),
]


@pytest.mark.parametrize("plan", GO_TOGETHER, ids=lambda plan: plan.label)
def test_with_these_settings_they_go_together(plan: Plan) -> None:
    backwards = Plan(dict(reversed(list(plan.techniques.items()))))
    assert exclusion.within(plan) is None
    assert exclusion.within(backwards) is None


def test_a_search_takes_the_settings_that_can_join_the_plan() -> None:
    bench = ScriptedBench({"loader_workers": 0.5, "affinity": 0.5})
    search = search_over(bench)
    binding = candidate("affinity", {"bind": "compact"}, {"bind": "cores"})
    found = search.run([candidate("loader_workers"), binding])
    assert found == Plan({"loader_workers": {"count": 1}, "affinity": {"bind": "cores"}})


def test_samples_are_kept_where_a_plan_takes_workers_away() -> None:
    def with_a_worker(bench: Any) -> None:
        bench.loader = DataLoader(bench.loader.dataset, batch_size=8, shuffle=True, num_workers=1)

    losses = []
    for plan in (BASELINE, Plan({"loader_workers": {"count": 0}, "dataset_in_ram": {}})):
        with workbench() as bench:
            with_a_worker(bench)
            bench.switchboard.start(plan)
            bench.train(1)
            bench.switchboard.switch(plan)
            torch.manual_seed(5)
            losses.append(bench.train(4))
            assert all(proof.effective for proof in bench.switchboard.proofs())
    assert losses[0] == losses[1]


# ---- what goes together, goes
OF_THE_ENVIRONMENT = [name for name, technique in CATALOG.items() if technique.layer == "environment"]


@pytest.mark.parametrize(
    ("first", "second"),
    [(a, b) for a, b in combinations(OF_THE_ENVIRONMENT, 2) if exclusion.within(plan_of(a, b)) is None],
)
def test_neither_of_two_takes_the_others_variables(first: str, second: str) -> None:
    here = machine(environment={})
    both = environment_of(plan_of(first, second), here)
    for name in (first, second):
        for key, value in environment_of(plan_of(name), here).items():
            assert both[key] == value or (key in LISTS and value in both[key].split(":")), key


@pytest.mark.parametrize("name", ["batch_size", "fp16", "optimizer_in_backward", "processes"])
def test_what_needs_gradients_after_the_backward_pass_is_refused_where_the_script_steps_within_it(
    name: str,
) -> None:
    reasons = CATALOG[name].refuse(facts(uses=(STEPS_IN_BACKWARD,)))
    assert any("step within the backward pass" in reason for reason in reasons)


@pytest.mark.parametrize("name", ["dataset_in_ram", "batched_fetch", "sample_store"])
def test_samples_of_a_data_set_that_changes_each_epoch_are_not_kept(name: str) -> None:
    """Of a recommender that draws its negative samples anew, 4.3 times faster steps were claimed by its first
    epoch.
    """
    changed = loader(changed="NCFData.features_fill", workers=2)
    said = CATALOG[name].refuse(facts(loaders=(changed,)))
    assert any("NCFData.features_fill changes from epoch to epoch" in reason for reason in said)
