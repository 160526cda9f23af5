"""Which techniques are worth trying, in what order, and which are refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from hasten.causes import find_causes
from hasten.inside.techniques.base import RISKS, Risk
from hasten.inside.techniques.catalog import CATALOG
from hasten.records.cause import Cause
from hasten.records.facts import Facts
from hasten.records.plan import Plan
from hasten.records.reasons import WhyNot
from hasten.records.whole_run import Part, WatchedRun
from hasten.report.reasons import why_not_words
from hasten.tuning.candidates import choose, list_for_script, shown_late, with_remedies_here
from tests.bench.made_up import facts, loader, optimizer, root, step
from tests.bench.paper_epochs import outside

INPUT = Cause("input", 0.7, "", ("dataset_in_ram",))
COMPUTE = Cause("compute", 0.2, "", ("bf16", "channels_last", "malloc"))
OPTIMIZER = Cause("optimizer", 0.5, "", ("fused_optimizer",))


def names(found: Facts, causes: list[Cause], risk: Risk = "close") -> list[str]:
    return [candidate.technique.name for candidate in choose(found, causes, risk)[0]]


def refusals(found: Facts, risk: Risk) -> dict[str, tuple[str, ...]]:
    return {row.technique: tuple(map(why_not_words, row.reasons)) for row in choose(found, [], risk)[1]}


def test_what_the_costliest_cause_suggests_comes_first() -> None:
    order = names(facts(), [COMPUTE, INPUT, OPTIMIZER])
    assert order[:4] == ["dataset_in_ram", "fused_optimizer", "bf16", "channels_last"]
    order = names(facts(), [Cause("compute", 0.9, "", COMPUTE.techniques), INPUT])
    assert order[:4] == ["bf16", "channels_last", "malloc", "dataset_in_ram"]


@pytest.mark.parametrize(("padding", "first"), [(0.3, "bf16"), (0.5, "pad_trim"), (0.7, "pad_trim")])
def test_padding_comes_before_compute_where_it_is_half_of_that(padding: float, first: str) -> None:
    steps = tuple(step(shares={"forward": 0.3, "backward": 0.6}) for _ in range(30))
    padded = facts(steps=steps, padding=padding)
    assert names(padded, find_causes(padded))[0] == first


def test_without_causes_the_catalogues_order_stands() -> None:
    live = [
        name
        for name, technique in CATALOG.items()
        if technique.scope == "live" and not technique.not_tried and not technique.refuse(facts())
        if not technique.changes_training(technique.options(facts())[0])
    ]
    assert len(live) > 3
    live.sort(key=lambda name: CATALOG[name].slow_to_set_up)
    assert names(facts(), [])[: len(live)] == live


def test_what_is_slow_to_set_up_comes_after_what_is_tried_at_little_cost() -> None:
    compute = Cause("compute", 0.9, "", ("compile", "channels_last"))
    order = names(facts({"cxx": "g++"}), [compute, OPTIMIZER])
    assert order.index("channels_last") < order.index("fused_optimizer") < order.index("compile")
    assert order.index("compile") < order.index("malloc")  # which needs new processes


def test_what_shows_late_comes_after_all_else_that_is_tried_live() -> None:
    """By then the training has gone on."""
    found = facts(
        steps=(step(0.01),), tiny_seconds=5e-9, optimizers=(optimizer(kept=0.9, silent=10**6),), threads=2
    )
    candidates, _ = choose(found, [COMPUTE, OPTIMIZER], "close")
    live = [one.technique.name for one in candidates if one.technique.scope == "live"]
    assert live[-1] == "denormals"
    assert list(shown_late(candidates, found)) == ["denormals"]
    assert shown_late(candidates, facts()) == {}


def test_what_needs_new_processes_comes_after_what_is_tried_live() -> None:
    cause = Cause("threads", 0.2, "", ("threads",))
    scopes = [CATALOG[name].scope for name in names(facts(threads=16), [cause, INPUT])]
    assert scopes == sorted(scopes, key=lambda scope: scope != "live")
    assert {"process", "launch"} <= set(scopes)


def test_but_not_where_the_number_of_threads_makes_all_else_take_long() -> None:
    """Ultralytics leaves a core to others: of two, half of a step. Compared later, it was not compared."""
    idle = Cause("threads", 0.46, "", ("threads",))
    watched, compute = run_of(1, steps=4.0), replace(COMPUTE, share=0.9)
    candidates, _ = choose(facts(threads=16, run=watched), [compute, idle], "close")
    assert [one.technique.name for one in candidates if one.first] == ["threads"]
    order = [one.technique.name for one in candidates]
    assert order == [
        "threads",
        *(name for name in names(facts(threads=16, run=watched), [compute]) if name != "threads"),
    ]


def test_but_not_where_it_answers_the_costliest_cause() -> None:
    waiting = Cause("input", 0.56, "", ("dataset_in_ram", "loader_workers"))
    order = names(facts(threads=16), [waiting, COMPUTE])
    assert order[:3] == ["dataset_in_ram", "loader_workers", "bf16"]


def run_of(ended_epochs: int, **seconds: float) -> WatchedRun:
    """``seconds`` by part, a blank as an underscore."""
    parts = tuple(Part(name.replace("_", " "), taken, 1) for name, taken in seconds.items())
    return WatchedRun(sum(seconds.values()), False, parts, ended_epochs, whole_epochs=parts)


@pytest.mark.parametrize(
    ("watched", "early"),
    [
        (run_of(1, steps=4.0), True),  # after a start of two seconds
        (run_of(1, steps=20.0), True),
        (run_of(1, steps=60.0), False),
        (run_of(0, steps=1.0), False),  # nobody knows how long a run is
        (replace(run_of(0, steps=1.0), planned_steps=30), True),
        (replace(run_of(1, steps=4.0), planned_steps=30), False),
    ],
)
def test_what_shortens_the_start_comes_last_unless_that_takes_much_of_a_run(
    watched: WatchedRun, early: bool
) -> None:
    order = names(facts({"cxx": "g++"}, threads=16, run=watched), [INPUT, COMPUTE])
    starts, whole_processes = order.index("lazy_dynamo"), order.index("loader_workers")
    assert order.index("compile") < starts  # which it excludes
    assert (starts < whole_processes) is early
    assert early or order[-2:] == ["lazy_dynamo", "frozen_imports"]


def test_it_never_comes_before_what_it_excludes() -> None:
    """Else a script that waits for data would not be compiled, because its start is long."""
    waits = [Cause("input", 0.8, "", ("loader_workers",)), Cause("compute", 0.1, "", ("compile",))]
    order = names(facts({"cxx": "g++"}, threads=16, run=run_of(1, steps=2.0)), waits)
    assert order.index("loader_workers") < order.index("compile") < order.index("lazy_dynamo")


@pytest.mark.parametrize(
    ("watched", "part", "share"),
    [
        (run_of(1, steps=2.0, evaluation=8.0), "evaluation", 0.8),
        (run_of(1, steps=10.0, evaluation=0.05), "evaluation", "0.5%"),
        (run_of(1, steps=10.0), "evaluation", "0.0%"),
        (run_of(0, steps=10.0), "evaluation", None),  # no epoch was seen to its end
        (run_of(1, steps=2.0, epoch_turns=8.0), "evaluation", None),  # what is it that takes so long?
        (run_of(1, steps=2.0, epoch_turns=8.0), "garbage", "0.0%"),
        (run_of(1, steps=2.0, epoch_turns=8.0), "epoch turns", 0.8),
        (None, "evaluation", None),
        (run_of(1, steps=18.0), "start", 0.1),  # of two seconds, and a run has one epoch at least
        (run_of(1, steps=398.0), "start", "0.5%"),
        (run_of(0, steps=9.0), "start", None),
        (replace(run_of(1, steps=18.0), planned_steps=11), "start", 0.01),  # each of 18 s
        (replace(run_of(1, steps=18.0), planned_steps=1000), "start", 0.01),  # it may be stopped before
        (replace(run_of(0, steps=9.0), planned_steps=2), "start", 0.1),
    ],
)
def test_what_takes_no_percent_of_a_run_is_not_tried(
    watched: WatchedRun | None, part: str, share: float | str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CATALOG, "outside", outside("outside", part))
    candidates, refused = choose(facts(run=watched), [], "close")
    tried = [one.share for one in candidates if one.technique.name == "outside"]
    why = [why_not_words(why) for row in refused if row.technique == "outside" for why in row.reasons]
    if isinstance(share, str):
        assert tried == []
        assert len(why) == 1
        assert f" takes {share} of a run at most" in why[0]
    else:
        assert tried == [pytest.approx(share) if share is not None else None]


def test_evaluations_of_every_step_are_tried_as_steps_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CATALOG, "outside", outside("outside", "evaluation"))
    for within in (frozenset[str](), frozenset({"evaluation"})):
        found = choose(facts(run=run_of(1, steps=9.0, evaluation=9.0)), [], "close", within=within)[0]
        (one,) = [one for one in found if one.technique.name == "outside"]
        assert one.outside_steps is not bool(within)
        assert one.share == (None if within else pytest.approx(0.5, abs=0.1))


def test_worker_processes_are_tried_with_threads_that_leave_them_cores() -> None:
    candidates, _ = choose(facts(threads=16), [], "close")
    (workers,) = [one for one in candidates if one.technique.name == "loader_workers"]
    plans = [workers.added_to(Plan({"bf16": {}}), number) for number in range(len(workers.options))]
    assert [(plan.techniques["loader_workers"]["count"], plan.techniques["threads"]) for plan in plans] == [
        (2, {"count": 2}),
        (4, {"count": 1}),
        (1, {"count": 3}),
    ]
    assert all("bf16" in plan.techniques for plan in plans)
    kept = workers.added_to(Plan({"threads": {"count": 3}}), 0)
    assert kept.techniques["threads"] == {"count": 3}  # what was found before stays


@pytest.mark.parametrize(("risk", "ruled_out", "carried"), [
    ("close", {}, {"dataset_in_ram", "batched_fetch"}),
    ("exact", {}, {"dataset_in_ram", "batched_fetch"}),
    ("close", {"dataset_in_ram": "without"}, {"batched_fetch"}),
])  # fmt: skip
def test_no_workers_are_tried_first_with_what_then_keeps_the_samples(
    risk: Risk, ruled_out: dict[str, str], carried: set[str]
) -> None:
    """Most tutorials read small pictures by worker processes, which take processors from the training."""
    seen = facts(loaders=(loader(workers=4, random=""),))
    candidates, refused = choose(seen, [], risk, ruled_out)
    (workers,) = [one for one in candidates if one.technique.name == "loader_workers"]
    assert workers.options[0] == {"count": 0}
    assert workers.carries == carried
    plan = workers.added_to(Plan({}), 0)
    assert set(plan.techniques) == {*carried, "loader_workers"}
    assert not carried & set(workers.added_to(Plan({}), 1).techniques)
    assert {row.technique for row in refused} >= carried, "by themselves they do not apply"
    order = names(seen, [INPUT], risk)
    assert order.index("loader_workers") < order.index("sample_store")
    assert set(workers.added_to(Plan({"sample_store": {}}), 0).techniques) >= carried


@pytest.mark.parametrize("other", [{"samples": 10**9}, {"random": "it is drawn anew"}])
def test_samples_that_are_not_kept_are_no_reason_to_try_no_workers_first(other: dict[str, Any]) -> None:
    seen = facts(loaders=(replace(loader(workers=4, random=""), **other),))
    (workers,) = [one for one in choose(seen, [], "close")[0] if one.technique.name == "loader_workers"]
    assert workers.carries == frozenset()
    assert workers.options[-1] == {"count": 0}


def test_threads_that_the_user_has_set_are_left_alone() -> None:
    found = facts(threads=16)
    mine = replace(found, machine=replace(found.machine, environment={"OMP_NUM_THREADS": "16"}))
    candidates, _ = choose(mine, [], "close")
    (workers,) = [one for one in candidates if one.technique.name == "loader_workers"]
    assert list(workers.added_to(Plan({}), 0).techniques) == ["loader_workers"]


def test_every_technique_is_either_a_candidate_or_refused_with_a_reason() -> None:
    candidates, refused = choose(facts(), [], "close")
    told = [candidate.technique.name for candidate in candidates] + [row.technique for row in refused]
    assert sorted(told) == sorted(CATALOG)
    assert all(row.reasons for row in refused)
    assert all(candidate.options for candidate in candidates)


def test_what_does_not_apply_is_refused_with_its_own_reasons() -> None:
    reasons = refusals(facts(roots=(root(convolutions=0, dtypes=("float64",)),), loaders=()), "close")
    assert reasons["channels_last"] == ("the model has no 2-d convolutions",)
    assert reasons["bf16"] == ("parameters are not all float32",)
    assert reasons["dataset_in_ram"] == ("the training reads from no DataLoader",)


@pytest.mark.parametrize(
    ("risk", "allowed"), [("exact", False), ("draws", False), ("close", True), ("training", True)]
)
def test_a_risk_above_what_is_asked_for_is_refused(risk: Risk, allowed: bool) -> None:
    assert ("bf16" in names(facts(), [], risk)) is allowed
    if not allowed:
        assert refusals(facts(), risk)["bf16"] == (f"the risk here is 'close', above --risk {risk}",)


@pytest.mark.parametrize(("random", "allowed"), [("it is drawn anew", False), ("", True)])
def test_it_is_the_risk_with_this_script_that_counts(random: str, allowed: bool) -> None:
    """Worker processes are exact, but where samples are random other numbers are drawn."""
    found = facts(loaders=(loader(random=random),))
    assert ("loader_workers" in names(found, [], "exact")) is allowed
    assert "loader_workers" in names(found, [], "draws")


def test_a_refusal_tells_the_risk_in_addition_to_the_other_reasons() -> None:
    reasons = refusals(facts(roots=(root(dtypes=("float64",)),)), "exact")["bf16"]
    assert reasons == ("parameters are not all float32", "the risk here is 'close', above --risk exact")


def test_what_cannot_be_tried_is_refused_with_its_reason() -> None:
    candidates, refused = choose(facts(), [], "exact", {"bf16": "not today"})  # nor would its risk be allowed
    assert "bf16" not in [candidate.technique.name for candidate in candidates]
    assert {row.technique: row.reasons for row in refused}["bf16"] == (WhyNot("said", "not today"),)


def test_a_higher_risk_only_adds_candidates() -> None:
    allowed = [set(names(facts(), [], risk)) for risk in RISKS]
    assert all(lower <= higher for lower, higher in pairwise(allowed))


def test_a_cause_names_only_remedies_that_apply_here() -> None:
    without_convolutions = facts(roots=(root(convolutions=0),))
    (told,) = with_remedies_here([COMPUTE], without_convolutions)
    assert told.techniques == ("bf16", "malloc")
    (told,) = with_remedies_here([Cause("input", 0.7, "", ("made_up",))], facts())
    assert told.techniques == ()


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("seen", "left"),
    [
        ({}, ("bf16", "channels_last", "malloc")),
        ({"obstacles": ("it calls forward itself",)}, ()),
        ({"roots": ()}, ("malloc",)),
    ],
    ids=["a model", "an obstacle", "no module"],
)
def test_what_cannot_be_switched_is_no_remedy(seen: dict[str, Any], left: tuple[str, ...]) -> None:
    (told,) = with_remedies_here([COMPUTE], facts(**seen))
    assert told.techniques == left


@pytest.mark.parametrize(("device", "on_cpu"), [("cpu", True), ("cuda:0", False)])
def test_without_a_module_the_optimizer_tells_where_it_trains(device: str, on_cpu: bool) -> None:
    found = facts(roots=(), optimizers=(optimizer(devices=(device,)),))
    assert found.on_cpu is on_cpu
    assert refusals(found, "close")["compile"][0] == "no module is called in its training steps"


def test_the_list_for_a_script_tells_what_cannot_be_tried() -> None:
    reason = "t.py:7: Trainer(model) makes the script one of several ranks by itself"
    listing = list_for_script("t.py", facts(), {"processes": reason})
    entries = {entry.name: entry for entry in listing.entries}
    assert entries["processes"].reasons[0] == reason
    assert not entries["processes"].options
    assert reason not in entries["threads"].reasons


def test_what_hinders_all_techniques_is_in_the_list_once() -> None:
    """A paragraph with advice: it would be most of the list."""
    obstacle = "t.py:7 calls Net.forward(...) directly, not Net.__call__. Call the module instead"
    listing = list_for_script("t.py", facts(obstacles=(obstacle,)))
    assert listing.obstacles == (obstacle,)
    assert {entry.reasons[0] for entry in listing.entries} == {"the script cannot be tuned"}
    assert not any(entry.options for entry in listing.entries)
    assert list_for_script("t.py", facts()).obstacles == ()
