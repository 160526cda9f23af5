"""What takes little of a run cannot give much: known before it is tried, and again after each gain."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import pytest

from hasten.bench.fake import ScriptedBench
from hasten.causes.of_the_run import bound_of
from hasten.inside.techniques.catalog import CATALOG
from hasten.records.facts import Facts
from hasten.records.observation import PHASES
from hasten.records.plan import Plan
from hasten.records.trial import Trial
from hasten.report.reasons import why_not_words
from hasten.tuning.bounds import Bounds
from hasten.tuning.candidate import Candidate
from hasten.tuning.candidates import choose
from hasten.tuning.comparisons import Comparisons
from hasten.tuning.deadline import Deadline
from hasten.tuning.search import Search
from tests.bench.made_up import facts, loader, step, trial, watched_run
from tests.tuning.searches import ENDLESS

FORWARD = (step(shares={"forward": 1.0}),) * 30
FUSED, FETCH = CATALOG["fused_optimizer"], CATALOG["batched_fetch"]


def test_phases_are_those_of_a_step_and_of_what_makes_steps_shorter() -> None:
    named = [technique for technique in CATALOG.values() if technique.phases]
    assert len(named) > 4
    for technique in named:
        assert set(technique.phases) <= set(PHASES)
        assert "steps" in technique.parts


def candidate_of(name: str) -> Candidate:
    return Candidate(CATALOG[name], [{}])


def taking(**shares: float) -> Facts:
    """Steps of which the phases take so much, and forward passes the rest."""
    shares["forward"] = 1 - sum(shares.values())
    return facts(steps=(step(shares=shares),) * 30)


def refused(found: Facts) -> dict[str, str]:
    rows = choose(found, [], "close")[1]
    return {row.technique: "; ".join(map(why_not_words, row.reasons)) for row in rows}


def test_an_update_that_takes_hardly_any_time_is_not_made_faster() -> None:
    why = refused(taking(optimizer=0.006, data=0.3))["fused_optimizer"]
    assert why == "the update takes 0.6% of a run: it cannot gain more than 1.2% of it"
    assert "fused_optimizer" not in refused(taking(optimizer=0.02, data=0.3))


@pytest.mark.parametrize(("data", "workers", "bounded"), [(0.0, 0, True), (0.1, 0, False), (0.0, 2, False)])
def test_workers_gain_no_more_than_is_waited_for_data_unless_there_are_some(
    data: float, workers: int, bounded: bool
) -> None:
    """Others may take less of the processors, where some make samples already."""
    found = replace(taking(data=data), observation=replace(
        taking(data=data).observation, loaders=(loader(workers=workers),)
    ))  # fmt: skip
    assert ("cannot gain" in refused(found).get("loader_workers", "")) == bounded


def test_a_bound_is_of_the_run_and_what_else_waits_counts() -> None:
    run = watched_run({"steps": 50.0, "evaluation": 30.0, "saving": 20.0}, epochs=1)
    seen = replace(taking(data=0.1, optimizer=0.1).observation, run=run)
    bounds = Bounds.seen(Facts(facts().machine, seen))
    assert bounds.of(FUSED) == pytest.approx(bound_of(0.05))
    assert bounds.of(FETCH) == pytest.approx(bound_of(0.05 + 0.3))


def test_a_wait_that_comes_every_few_steps_counts_by_its_mean() -> None:
    steps = (step(shares={"forward": 1.0}), step(shares={"forward": 1.0}), step(shares={"data": 1.0})) * 10
    assert Bounds.seen(facts(steps=steps)).of(FETCH) == pytest.approx(bound_of(1 / 3))


@pytest.mark.parametrize(
    "unknown",
    [
        facts(steps=FORWARD, loaders=(loader(workers=2),)),
        facts({"accelerators": ("H200",)}, steps=FORWARD, roots=(), optimizers=()),  # on no known device
        facts(steps=()),
    ],
)
def test_where_it_is_not_known_nothing_is_left_out(unknown: Facts) -> None:
    """Processes of a loader take the processors from the passes of the step; of a GPU, no phase is known."""
    assert Bounds.seen(unknown).of(FETCH) is None


def test_what_makes_any_part_of_a_step_shorter_has_no_bound() -> None:
    assert Bounds.seen(taking(data=0.1)).of(CATALOG["compile"]) is None


def gained(seconds: dict[str, float], ratio: float) -> Bounds:
    """After a gain by which a step's phases take so long."""
    found = trial([ratio] * 6, Plan({"a": {}}), method="live", phases_b=seconds)
    return Bounds.seen(taking(data=0.5, optimizer=0.25)).adopting(found)


def test_after_a_gain_what_is_left_takes_more_of_a_step_or_less() -> None:
    after = gained({"data": 0.004, "optimizer": 0.004, "forward": 0.002}, ratio=0.5)
    assert after.of(FUSED) == pytest.approx(bound_of(0.4))
    assert after.of(FETCH) == pytest.approx(bound_of(0.4))
    gone = gained({"data": 0.0, "optimizer": 0.004, "forward": 0.006}, ratio=0.5)
    assert gone.of(FETCH) == 0.0
    assert gone.why_not(FETCH) is not None
    assert gone.of(FUSED) == pytest.approx(bound_of(0.4))


def test_other_parts_of_a_run_take_more_of_it_when_steps_are_shorter() -> None:
    run = watched_run({"steps": 50.0, "evaluation": 50.0}, epochs=1)
    seen = replace(taking(data=0.5, optimizer=0.2).observation, run=run)
    bounds = Bounds.seen(Facts(facts().machine, seen))
    found = trial([0.5] * 6, Plan({"a": {}}), method="live", phases_b={"optimizer": 0.2, "forward": 0.8})
    assert bounds.adopting(found).of(FUSED) == pytest.approx(bound_of(0.2 * 0.5 / 1.5))


def test_a_comparison_that_timed_no_phases_tells_the_time_of_a_step() -> None:
    """A phase may take as long as before: then it takes more of a step, and all of it at most."""
    bounds = Bounds.seen(taking(data=0.6))
    faster = bounds.adopting(trial([0.5] * 6, Plan({"a": {}})))
    assert faster == replace(bounds, step=0.5)
    assert faster.share(CATALOG["dataset_in_ram"]) == 1.0


def test_a_comparison_of_other_parts_of_a_run_changes_nothing() -> None:
    bounds = Bounds.seen(taking(data=0.5))
    evaluated = trial([0.5] * 6, Plan({"a": {}})).over_stretches(("evaluation",), ())
    assert bounds.adopting(evaluated) == bounds


class TimingPhases(ScriptedBench):
    """Once data no longer are waited for, passes take all of a step."""

    def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
        return replace(super().compare(a, b, seconds), phases_b={"data": 0.0001, "forward": 0.0199})


def test_what_a_gain_has_made_small_is_not_tried_any_more() -> None:
    def found_with(bench: ScriptedBench) -> Search:
        comparisons = Comparisons(bench, Deadline(ENDLESS), lambda *_: None, lambda _: None)
        search = Search(comparisons, Bounds.seen(taking(data=0.8)))
        search.run([candidate_of("dataset_in_ram"), candidate_of("batched_fetch")])
        return search

    effects = {"dataset_in_ram": 0.5, "batched_fetch": 0.9}
    before = found_with(ScriptedBench(effects))
    assert set(before.found.techniques) == {"dataset_in_ram", "batched_fetch"}
    after = found_with(TimingPhases(effects))
    assert set(after.found.techniques) == {"dataset_in_ram"}
    (left,) = after.comparisons.left_out
    assert why_not_words(left.reasons[0]).startswith("waiting for data takes 0.5% of a run")


def test_the_share_of_a_start_is_of_a_run_of_known_length() -> None:
    """What comes around steps counts; on a GPU, where phases say nothing, the start is known as well."""
    run = watched_run({"steps": 50.0, "evaluation": 30.0, "saving": 20.0}, epochs=1)
    found = taking(data=0.1)
    each = fmean(one.seconds for one in found.observation.steps)
    seen = replace(found.observation, run=run, start_seconds=40 * each)
    assert Bounds.seen(Facts(facts().machine, seen)).share_of_start(20) == pytest.approx(0.5)
    faster = replace(Bounds.seen(Facts(facts().machine, replace(seen, run=None))), step=0.5)
    assert faster.share_of_start(80) == pytest.approx(0.5)
    assert Bounds().share_of_start(20) == 0


def test_evaluations_of_every_step_are_not_counted_once_more() -> None:
    """Beside them, an update seemed to take less of a run than it does."""
    seen = facts(
        steps=(step(shares={"optimizer": 0.012, "forward": 0.988}),) * 30,
        run=watched_run(steps=10.0, evaluation=10.0, epochs=1),
    )
    small, large = (Bounds.seen(seen, within) for within in (set[str](), {"evaluation"}))
    assert small.share(FUSED) == pytest.approx(0.006)
    assert large.share(FUSED) == pytest.approx(0.012)
    assert small.why_not(FUSED) is not None
    assert large.why_not(FUSED) is None
