"""What was left on for debugging is kept off, bit for bit the same training, and comes back as it was."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from hasten.inside.observing.leftovers import Leftovers
from hasten.inside.techniques.debugging_off import DebuggingOff
from hasten.inside.training import NotApplicable
from hasten.records.observation import Leftover
from hasten.records.plan import BASELINE, Plan
from hasten.testing.workbench import Workbench, workbench

from .made_up import facts, machine

ON = Plan({"debugging_off": {}})


@pytest.fixture
def bench() -> Iterator[Workbench]:
    with workbench() as made, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch warns of anomaly detection
        yield made


def test_it_applies_only_where_something_is_on() -> None:
    assert DebuggingOff.refuse(facts(machine())) == ["nothing of that kind is on"]
    kept = Leftover("torch.use_deterministic_algorithms", "", removable=False)
    assert DebuggingOff.refuse(facts(machine(), leftovers=(kept,)))
    found = Leftover("anomaly detection", "train.py:3", removable=True)
    assert DebuggingOff.refuse(facts(machine(), leftovers=(found,))) == []


def test_anomaly_detection_is_off_for_the_engine_and_on_for_the_script(bench: Workbench) -> None:
    engine = torch.is_anomaly_enabled
    with torch.autograd.detect_anomaly():
        bench.train(1)
        bench.switchboard.switch(ON)
        assert not engine()
        assert torch.is_anomaly_enabled()
        bench.train(2)
        (proof,) = bench.switchboard.proofs()
        assert proof.effective
        assert "2 of anomaly detection" in proof.evidence
        bench.switchboard.switch(BASELINE)
        assert engine()


def test_a_context_around_every_step_is_without_effect(bench: Workbench) -> None:
    """It leaves as it would have without us, whether it ends before or after the removal."""
    engine = torch.is_anomaly_enabled
    bench.switchboard.switch(ON)
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        assert not engine()
        bench.train(1)
    assert not torch.is_anomaly_enabled()
    within = torch.autograd.detect_anomaly()
    with within:
        bench.switchboard.switch(BASELINE)
        assert engine()
    assert not engine()
    assert torch.is_anomaly_check_nan_enabled()


def test_the_losses_are_bit_equal(bench: Workbench) -> None:
    start = bench.snapshot()
    with torch.autograd.detect_anomaly():
        expected = bench.train(4)
        bench.restore(start)
        bench.switchboard.switch(ON)
        assert bench.train(4) == expected


def operators(profiler: torch.profiler.profile) -> int:
    return sum(event.name.startswith("aten::") for event in profiler.events())  # type: ignore[no-untyped-call]


def test_a_running_profiler_collects_nothing_until_the_removal(bench: Workbench) -> None:
    bench.train(1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        bench.switchboard.switch(ON)
        bench.train(2)
        (proof,) = bench.switchboard.proofs()
        assert proof.effective
        assert "2 of the profiler" in proof.evidence
    within_off = operators(profiler)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        bench.train(2)
        bench.switchboard.switch(BASELINE)
    started_while_on = operators(profiler)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        bench.train(2)
    assert within_off == started_while_on == 0
    assert operators(profiler) > 20


def test_what_is_on_is_found_with_its_line(bench: Workbench) -> None:
    leftovers = Leftovers(bench.training)
    torch.autograd.set_detect_anomaly(True)
    torch.autograd.set_detect_anomaly(False)
    leftovers.training_begins()
    assert leftovers.found() == ()
    with torch.autograd.detect_anomaly():
        bench.train(1)
        found = leftovers.found()
    assert [(item.name, item.removable) for item in found] == [("anomaly detection", True)]
    assert found[0].where.split(":")[0].endswith("test_debugging_off.py")


ON_A_GPU = ("CUDA_LAUNCH_BLOCKING=1", "torch.backends.cudnn.deterministic")
AMONG_RANKS = ("TORCH_DISTRIBUTED_DEBUG=DETAIL",)
ANYWHERE = ("torch.use_deterministic_algorithms", "TORCH_LOGS=dynamo")


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("gpu", "ranks", "named"),
    [
        (False, False, ANYWHERE),
        (True, False, ANYWHERE + ON_A_GPU),
        (False, True, ANYWHERE + AMONG_RANKS),
        (True, True, (*ANYWHERE, *ON_A_GPU, *AMONG_RANKS, "NCCL_DEBUG=INFO")),
    ],
    ids=["CPU", "GPU", "ranks", "GPUs"],
)
def test_flags_and_variables_are_told_where_they_matter_and_left(
    gpu: bool, ranks: bool, named: tuple[str, ...], bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scripts set what would matter on another machine: a seed_everything() for GPUs, say."""
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: gpu)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: ranks)
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    for name in (*ON_A_GPU, *AMONG_RANKS, *ANYWHERE, "NCCL_DEBUG=INFO"):
        if "=" in name:
            monkeypatch.setenv(*name.split("="))
    torch.use_deterministic_algorithms(True)
    try:
        found = Leftovers(bench.training).found()
    finally:
        torch.use_deterministic_algorithms(False)
    assert {item.name for item in found} == set(named)
    assert not any(item.removable for item in found)


def test_variables_with_harmless_values_are_none(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "0")
    assert Leftovers(bench.training).found() == ()


@pytest.fixture
def bench_with_table(bench: Workbench, tmp_path: Path) -> Workbench:
    script = tmp_path / "train.py"
    script.write_text("train()\nprint(prof.key_averages().table(row_limit=5))\n")
    bench.training.own_files = lambda: [str(script)]
    return bench


def test_a_profiler_whose_table_is_printed_is_left_on(bench_with_table: Workbench) -> None:
    bench = bench_with_table
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        bench.train(1)
        with pytest.raises(NotApplicable, match=r"reads what the profiler recorded, at train\.py:2"):
            bench.switchboard.switch(ON)
        bench.train(1)
    assert operators(profiler) > 20


def test_anomaly_detection_is_kept_off_beside_such_a_profiler(bench_with_table: Workbench) -> None:
    bench, engine = bench_with_table, torch.is_anomaly_enabled
    with torch.autograd.detect_anomaly():
        bench.switchboard.switch(ON)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            bench.train(2)
        assert not engine()
        (proof,) = bench.switchboard.proofs()
        bench.switchboard.switch(BASELINE)
    assert proof.effective
    assert (
        "2 of anomaly detection; the script reads what the profiler recorded, at train.py:2" in proof.evidence
    )
    assert operators(profiler) > 20
