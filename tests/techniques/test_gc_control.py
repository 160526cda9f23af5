"""No full collections in steps, and a collector that looks unchanged to any other code."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hasten.inside.techniques import gc_control
from hasten.inside.techniques.gc_control import GcControl
from hasten.inside.techniques.support.frozen_collector import FrozenCollector
from hasten.inside.training import NotApplicable
from hasten.records.plan import BASELINE, Plan
from hasten.records.trial import Proof
from hasten.records.whole_run import Part, WatchedRun
from hasten.testing.workbench import Workbench, workbench

from ..thorough import cases
from .made_up import facts, machine

PLAN = Plan({"gc_control": {}})


class Cycle:
    """Only a collection frees it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _collector_as_it_was() -> Iterator[None]:
    """And nothing else's garbage in what is counted."""
    gc.collect()
    before = (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), list(gc.callbacks))
    yield
    after = (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), list(gc.callbacks))
    gc.enable()
    gc.unfreeze()
    gc.set_threshold(*before[1])
    assert after == before


@pytest.fixture
def bench() -> Iterator[Workbench]:
    """In force, after the steps that it waits for."""
    with workbench() as made:
        made.switchboard.start(PLAN)
        made.switchboard.switch(PLAN)
        made.train(3)
        yield made


def proof(bench: Workbench) -> Proof:
    (found,) = bench.switchboard.proofs()
    return found


def frozen() -> bool:
    """Whether the technique counts collections: whatever stands in the place of the collector's functions."""
    return any(isinstance(getattr(each, "__self__", None), FrozenCollector) for each in gc.callbacks)


# ---- what it does
def test_full_collections_are_put_off_and_counted() -> None:
    thresholds = gc.get_threshold()
    gc.set_threshold(100, 2, 2)
    try:
        with workbench() as bench:
            bench.switchboard.start(PLAN)
            bench.switchboard.switch(PLAN)
            bench.train(3)
            assert not proof(bench).effective
            full = gc.get_stats()[2]["collections"]
            many = [[number] for number in range(len(gc.get_objects()) // 2)]
            assert gc.get_stats()[2]["collections"] == full
            assert proof(bench).effective
            del many
            bench.switchboard.switch(BASELINE)
    finally:
        gc.set_threshold(*thresholds)


def test_it_waits_until_the_first_steps_are_over() -> None:
    with workbench() as bench:
        bench.switchboard.start(PLAN)
        bench.switchboard.switch(PLAN)
        bench.train(1)
        assert not frozen()
        bench.train(1)
        assert frozen()


def test_models_that_come_one_after_the_other_do_not_collect_each_time(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def again() -> None:
        bench.switchboard.switch(BASELINE)
        bench.switchboard.switch(PLAN)
        bench.train(3)

    monkeypatch.setattr(gc_control, "_COST", 1e-9)
    again()
    assert not frozen()
    monkeypatch.setattr(gc_control, "_COST", float("inf"))
    bench.train(1)
    assert frozen()


def test_young_objects_are_collected_as_usual(bench: Workbench) -> None:
    before = gc.get_stats()[0]["collections"]
    many = [[number] for number in range(5000)]
    assert gc.get_stats()[0]["collections"] > before
    del many


def test_removal_leaves_nothing(bench: Workbench) -> None:
    bench.switchboard.switch(BASELINE)
    assert not frozen()
    assert gc.get_freeze_count() == 0


def test_an_epoch_that_begins_collects_what_came_since(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gc_control, "_COST", float("inf"))
    kept = Cycle()
    ref = weakref.ref(kept)
    gc.collect(1)
    gc.collect(1)  # it is old now
    del kept
    gc.collect(1)
    assert ref() is not None
    iter(bench.loader)
    assert ref() is None
    assert "1 at epoch turns" in proof(bench).evidence


@pytest.mark.thorough
def test_collections_at_epoch_turns_are_paid_for_first(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gc_control, "_COST", 1e-9)
    for _ in range(5):
        iter(bench.loader)
    assert "0 at epoch turns" in proof(bench).evidence


@pytest.mark.thorough
def test_memory_that_grows_has_everything_collected(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    held = [2**30]
    monkeypatch.setattr(gc_control, "_resident_bytes", lambda: held[0])
    monkeypatch.setattr(gc_control, "_LOOK_EACH", 1)
    with workbench() as bench:
        cycle: Cycle | None = Cycle()
        ref = weakref.ref(cycle)
        bench.switchboard.start(PLAN)
        bench.switchboard.switch(PLAN)
        bench.train(3)
        cycle = None
        bench.train(1)
        assert ref() is not None  # frozen
        held[0] += 2**29
        bench.train(2)
        assert ref() is None
        assert "1 as memory grew" in proof(bench).evidence
        assert capsys.readouterr().err == (
            "hasten: gc_control collects everything: memory has grown by 512 MiB\n"
        )


# ---- the script's own ways
WAYS: dict[str, Callable[[], object]] = {
    "disable": lambda: gc.disable(),
    "enable": lambda: gc.enable(),
    "set_threshold": lambda: gc.set_threshold(500, 5, 5),
    "freeze": lambda: gc.freeze(),
    "unfreeze": lambda: gc.unfreeze(),
}


@pytest.mark.parametrize("name", cases(WAYS, ["disable", "freeze"]))
def test_the_script_has_its_way_at_once(bench: Workbench, name: str) -> None:
    own = gc.get_threshold()
    WAYS[name]()
    assert not frozen()
    assert gc.isenabled() is (name != "disable")
    assert gc.get_threshold() == ((500, 5, 5) if name == "set_threshold" else own)
    assert (gc.get_freeze_count() > 0) is (name == "freeze")
    assert proof(bench) == Proof("gc_control", False, f"the script calls gc.{name}() itself")
    bench.train(3)
    assert not frozen()
    gc.enable()
    gc.unfreeze()
    gc.set_threshold(*own)


def test_the_scripts_own_collection_is_of_everything() -> None:
    with workbench() as bench:
        cycle: Cycle | None = Cycle()
        ref = weakref.ref(cycle)
        bench.switchboard.start(PLAN)
        bench.switchboard.switch(PLAN)
        bench.train(3)
        cycle = None
        gc.collect(1)
        assert ref() is not None
        assert gc.collect() >= 1
        assert ref() is None
        assert frozen()


def test_the_script_sees_its_own_collector(bench: Workbench) -> None:
    assert gc.get_threshold()[2] < 1000
    assert gc.get_freeze_count() == 0
    known = Cycle()
    gc.collect()  # and so frozen
    assert any(thing is known for thing in gc.get_objects())
    assert any(holder is vars(known) or holder is known for holder in gc.get_referrers(known))


def test_a_forked_process_has_the_collector_as_it_was(bench: Workbench) -> None:
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(into, repr((gc.get_threshold(), gc.get_freeze_count(), frozen())).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(out, 1000).decode() == repr((gc.get_threshold(), 0, False))
    os.close(out)
    os.close(into)
    assert frozen()


@pytest.mark.parametrize(
    ("own", "reason"),
    [(gc.disable, "switched the collector off"), (gc.freeze, "frozen objects itself")],
)
def test_a_script_that_has_its_way_already(own: Callable[[], object], reason: str) -> None:
    own()
    try:
        with workbench() as bench:
            bench.switchboard.start(PLAN)
            with pytest.raises(NotApplicable, match=reason):
                bench.switchboard.switch(PLAN)
    finally:
        gc.enable()
        gc.unfreeze()


# ---- refused
def watched(**seconds: float) -> WatchedRun:
    other = Part("other", 100.0 - sum(seconds.values()), 1)
    parts = (*(Part(name, value, 1) for name, value in seconds.items()), other)
    return WatchedRun(100.0, True, parts)


@pytest.mark.parametrize(
    ("run", "reasons"),
    [
        (watched(garbage=0.2), ["collections take 0.2% of a run"]),
        (watched(garbage=5.0), []),
        (None, ["where the time of a run goes was not watched"]),
    ],
)
def test_it_is_refused_where_collections_take_no_time(run: Any, reasons: list[str]) -> None:
    assert GcControl.refuse(facts(run=run)) == reasons


def test_later_collectors_are_refused() -> None:
    assert GcControl.refuse_machine(machine(python="3.13.1")) == []
    (said,) = GcControl.refuse_machine(machine(python="3.14.0"))
    assert "3.14.0" in said
