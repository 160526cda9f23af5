"""Which plans of the small space apply to a script."""

from __future__ import annotations

import pytest
from benchmarks.search_space import TECHNIQUES, from_json, plans_of, space_for, to_json

from hasten.inside.techniques.catalog import CATALOG
from hasten.inside.techniques.exclusion import within
from hasten.records.plan import BASELINE, Plan
from tests.bench.made_up import facts, loader, root, watched_run

MACHINE = {"logical_cpus": 2, "physical_cores": 2}


def test_every_combination_is_there_once_and_can_be_put_in_force() -> None:
    axes = space_for(facts(MACHINE, threads=2))
    plans = plans_of(axes)
    assert plans[0] == BASELINE
    assert len(plans) == len(set(plans)) == 2**4 * 2 * 4
    assert {name for plan in plans for name in plan.techniques} == set(TECHNIQUES)
    assert not any(map(within, plans))
    for plan in plans:
        for name, settings in plan.techniques.items():
            CATALOG[name].check(settings)


def test_samples_are_made_in_one_way_of_four() -> None:
    axes = space_for(facts(MACHINE, threads=2))
    assert [way.key for way in axes["samples"]] == [
        BASELINE.key,
        Plan({"dataset_in_ram": {}}).key,
        *(
            Plan({"loader_workers": {"count": n, "prefetch_factor": 2, "persistent_workers": True}}).key
            for n in (1, 2)
        ),
    ]


def test_it_has_the_very_settings_that_a_tune_tries() -> None:
    for own in (0, 2):
        seen = facts(MACHINE, threads=2, loaders=(loader(workers=own),))
        (_, *ways) = space_for(seen)["samples"]
        tried = [Plan({"loader_workers": how}) for how in CATALOG["loader_workers"].options(seen)]
        assert set(tried) <= set(ways)


@pytest.mark.parametrize(("own", "counts"), [(4, [1, 2, 3]), (2, [1, 3, 4]), (1, [2, 3, 4])])
def test_threads_are_all_numbers_but_the_scripts_own(own: int, counts: list[int]) -> None:
    (plain, *ways) = space_for(facts(threads=own))["threads"]
    assert plain == BASELINE
    assert [way.techniques["threads"]["count"] for way in ways] == counts


def test_what_does_not_apply_is_no_choice() -> None:
    axes = space_for(facts(MACHINE, threads=2, loaders=(), roots=(root(convolutions=0),)))
    assert set(axes) == {"malloc", "bf16", "fused_optimizer", "threads"}
    assert len(plans_of(axes)) == 2**4


def test_where_whole_runs_are_timed_evaluations_are_a_choice_of_three() -> None:
    loaders, run = (loader(), loader(training=False)), watched_run(evaluation=3.0, ended=True)
    seen = facts(MACHINE, threads=2, loaders=loaders, run=run)
    axes = space_for(seen, whole=True)
    in_ram = Plan({"evaluation_in_ram": {}})
    assert axes["evaluation"] == [BASELINE, in_ram, Plan({**in_ram.techniques, "evaluation_bf16": {}})]
    assert len(plans_of(axes)) == 3 * len(plans_of(space_for(seen)))


def test_a_run_without_evaluations_has_nothing_to_choose_there() -> None:
    seen = facts(MACHINE, run=watched_run(ended=True))
    assert "evaluation" not in space_for(seen, whole=True)


def test_it_is_the_same_when_it_is_read_again() -> None:
    axes = space_for(facts(MACHINE, threads=2))
    assert plans_of(from_json(to_json(axes))) == plans_of(axes)
