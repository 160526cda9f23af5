"""Records survive JSON: what a worker, the journal and a plan file write is read back equal."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.inside.job import Job, Perturbation, Sandbox
from hasten.records.cause import Cause
from hasten.records.caution import Caution, Disturbance
from hasten.records.codec import from_json, to_json
from hasten.records.conclusion import Conclusion, Resolution
from hasten.records.observation import PHASES, Observation, Step
from hasten.records.plan import BASELINE, Plan
from hasten.records.reasons import Reason, SetUp, WhyNot
from hasten.records.result import Refused, Tried, TuneResult
from hasten.records.trial import Proof, Ratio, Trial
from hasten.records.verdict import Difference, GuardVerdict, Invariants, TooLittleTime

from ..bench.made_up import loader, machine, observation, optimizer, root, step, trial, verdict

PLAN = Plan({"threads": {"count": 2}, "bf16": {}})
RATIO = Ratio(0.8, 0.75, 0.85, 6, "pairs")
STOPPED = Reason(decision="not held", along=PLAN, names=("a", "b"), guard=verdict(passed=False))

RECORDS: dict[str, Any] = {
    "plan": PLAN,
    "empty plan": BASELINE,
    "machine": machine(quota_cpus=1.5, accelerators=("H200",), environment={"OMP_NUM_THREADS": "1"}),
    "step without samples": step(samples=None, losses=(), evaluations=2),
    "observation": observation(
        roots=(root(dtypes=("bfloat16", "float32"), dropout=True), root(scripted=True)),
        loaders=(loader(), loader(samples=None, batch_size=None, sample_bytes=None, iterable=True)),
        optimizers=(optimizer(), optimizer(can_fuse=False, why_not="LBFGS has no fused form")),
        uses=("autocast",),
    ),
    "observation of nothing": observation(steps=(), roots=(), loaders=(), optimizers=(), batch_size=None),
    "trial": trial([0.8, 0.81, 0.79], PLAN, proofs=(Proof("bf16", True, "4 calls"),), setup_seconds=1.5),
    "failed trial": trial([], PLAN, failure="silent", step_seconds_a=None, step_seconds_b=None),
    "result": TuneResult(
        outcome="gain",
        reason=Conclusion("noise", resolution=Resolution(7, 6, 4, 330.0)),
        plan=PLAN,
        speedup=RATIO.inverted(),
        ratio=RATIO,
        measured=RATIO,
        baseline_step_seconds=0.01,
        baseline_samples_per_second=800.0,
        tried=(
            Tried(
                "bf16", {}, RATIO, BASELINE, True, Reason("gain", "earned", set_up=SetUp(1.5, 300)), "live"
            ),
            Tried("threads", {"count": 1}, None, Plan({"bf16": {}}), False, STOPPED, "guard", 0.5),
        ),
        refused=(
            Refused("malloc", (WhyNot("said", "needs glibc"), WhyNot("no time", untried=({"kind": "b"},)))),
        ),
        guard=verdict(),
        tune_seconds=100.0,
        setup_seconds=2.0,
        breakeven_steps=12,
        causes=(Cause("input", 0.5, "waits", ("dataset_in_ram",)),),
        protection="overlay",
        warnings=(
            Caution("busy", share=0.42),
            Caution("wrote outside", paths=("/data/last.pt",)),
            Caution("disturbed", disturbance=Disturbance(40, 5, 4, 2.5)),
        ),
        machine="this one",
        versions={"torch": "2.13.0"},
    ),
    "refusal": TuneResult("refused", Conclusion("refused", "never trains"), BASELINE),
    "failed guard": verdict(passed=False),
    "guard of a script that does not repeat itself": GuardVerdict(
        "not checked",
        invariants=Invariants(("rates",), (Difference("rates", 7),)),
        why_not="unrepeatable",
        unsteady=(Difference("steps", counts=(60, 40)), Difference("streams", 2)),
    ),
    "guard without time": GuardVerdict(
        "not checked", why_not="budget", budget=TooLittleTime(200, ("bf16", "malloc"))
    ),
    "job": Job(
        argv=("train.py", "--lr", "0.1"),
        machine=machine(),
        plan=PLAN,
        descriptor=5,
        sandbox=Sandbox(("/home",), "/tmp/layers", {"/": "/tmp/prelude"}, required=False),
        seed=0,
        perturbation=Perturbation(1e-6, redraw=True),
    ),
}


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_round_trip(record: Any) -> None:
    back = from_json(type(record), json.loads(json.dumps(to_json(record))))
    assert back == record


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_the_types_come_back_too(record: Any) -> None:
    """Equality would not tell a list from nothing, or 1 from 1.0 or True."""
    back = from_json(type(record), json.loads(json.dumps(to_json(record))))
    assert repr(back) == repr(record)


def test_lists_come_back_as_tuples() -> None:
    """Records are frozen and hashable parts of them are used as keys."""
    back = from_json(Observation, json.loads(json.dumps(to_json(observation()))))
    assert isinstance(back.steps, tuple)
    assert back.steps[0].signature == (0, 1, 1)


@given(
    st.builds(
        Step,
        seconds=st.floats(0, 1e6),
        samples=st.none() | st.integers(0),
        evaluations=st.integers(0),
        restarts=st.integers(0),
        phases=st.fixed_dictionaries({name: st.floats(0, 1e6) for name in PHASES}),
        losses=st.lists(st.floats(allow_nan=False)).map(tuple),
        signature=st.tuples(st.integers(), st.integers(), st.integers()),
    )
)
def test_numbers_come_back_to_the_last_bit(taken: Step) -> None:
    assert from_json(Step, json.loads(json.dumps(to_json(taken)))) == taken


def test_a_loss_that_is_no_number_comes_back_as_such() -> None:
    back = from_json(Step, json.loads(json.dumps(to_json(step(losses=(math.nan, math.inf))))))
    assert math.isnan(back.losses[0])
    assert back.losses[1] == math.inf


def test_a_whole_number_may_stand_for_seconds() -> None:
    """JSON has one kind of number: "1" is a float where the record says so."""
    back = from_json(Perturbation, {"relative": 1})
    assert isinstance(back.relative, float)


@pytest.mark.parametrize("kind", [Observation, Trial, TuneResult, GuardVerdict])
def test_unknown_keys_are_ignored(kind: type[Any]) -> None:
    record = next(record for record in RECORDS.values() if isinstance(record, kind))
    data = to_json(record)
    data["of another version"] = {"x": [1]}
    assert from_json(kind, data) == record


def test_unknown_keys_are_ignored_at_depth() -> None:
    data = to_json(observation())
    for parts in ("steps", "roots", "loaders", "optimizers"):
        data[parts][0]["of another version"] = {"x": [1]}
    assert from_json(Observation, data) == observation()


def test_missing_keys_take_the_default() -> None:
    data = to_json(RECORDS["trial"])
    del data["proofs"], data["failure"], data["setup_seconds"]
    back = from_json(Trial, data)
    assert (back.proofs, back.failure, back.setup_seconds) == ((), None, 0.0)


def test_a_required_key_is_asked_for() -> None:
    data = to_json(RECORDS["trial"])
    del data["method"]
    with pytest.raises(TypeError, match="method"):
        from_json(Trial, data)


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_records_do_not_change(record: Any) -> None:
    first = dataclasses.fields(record)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(record, first, None)
