"""The guard on real trainings: what is harmless passes, and every planted fault is caught."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import hasten
from hasten.bench.guard.guard import STEPS, guard
from hasten.bench.guard.judging import judge
from hasten.bench.guard.single_steps import ROUNDING
from hasten.bench.stage import Stage
from hasten.bench.trials import Trials
from hasten.inside.job import Perturbation
from hasten.machine import this_machine
from hasten.records.plan import BASELINE, Plan
from hasten.records.trace import Trace
from hasten.records.verdict import GuardVerdict
from hasten.report.guard import reasons
from tests.bench.made_up import PRECISIONS
from tests.bench.real_workers import one_thread, trials_for
from tests.inside.distributed.forked import workers_forked
from tests.scripts.shapes import FOLDER as SHAPES_FOLDER

# The first argument plants a fault into an otherwise equal training.
TRAINING = """
    import sys
    from ground import *

    fault = sys.argv[1] if len(sys.argv) > 1 else ""
    model = torch.nn.Sequential(Cnn(), torch.nn.Dropout(0.1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for step, (pictures, labels) in enumerate(batches(Pictures(240)), 1):
        if fault == "dropped batch" and step == 30:
            continue
        if fault == "shifted labels":
            labels = (labels + 1) % 4
        if fault == "learning rate" and step == 30:
            optimizer.param_groups[0]["lr"] *= 1.1
        if fault == "left in eval mode" and step == 30:
            model.eval()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(pictures), labels)
        loss.backward()
        if fault == "gradients x 1.05":
            for parameter in model.parameters():
                parameter.grad *= 1.05
        optimizer.step()
"""
FAULTS = {
    "dropped batch": "batches came from the loader with different content or in a different order "
    "(from step 30)",
    "learning rate": "learning rates differ (from step 30)",
    "left in eval mode": "train/eval flags differ (from step 30)",
    "shifted labels": "the loss differs",
    "gradients x 1.05": "the loss differs",
}
Traces = dict[str, Trace]


@pytest.fixture(autouse=True, scope="module")
def _workers_are_forks() -> Iterator[None]:
    """What is tested comes after their start."""
    with workers_forked():
        yield


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Traces:
    """A training as it is, one perturbed for each precision, one under bf16, and one for each fault; all
    from one seed.
    """
    folder = tmp_path_factory.mktemp("guard")
    found: Traces = {}
    noises = {f"perturbed {name}": Perturbation(relative, seed=3) for name, relative in ROUNDING.items()}
    with trials_for(folder, TRAINING) as trials, ExitStack() as stack:
        script = trials.stage.argv
        workers = {}
        for name in ("plain", "bf16", *noises, *FAULTS):
            argv = (*script, name) if name in FAULTS else script
            plan = Plan({"bf16": {}}) if name == "bf16" else BASELINE
            worker = trials.worker(plan, seed=11, traced=True, perturbation=noises.get(name), argv=argv)
            workers[name] = stack.enter_context(worker)
        for worker in workers.values():
            worker.wait_started()
        for name, worker in workers.items():
            worker.steps(STEPS - 1)
            found[name] = worker.trace()
    return found


def verdict_on(traces: Traces, candidate: str, precision: str = "float32") -> GuardVerdict:
    return judge(
        traces["plain"],
        traces[f"perturbed {precision}"],
        traces[candidate],
        False,
        precision,
    )


# Looks for a rate first, for as many steps as the last digits of the 20th guesses, or chance, say.
SEARCHES = """
    import os, sys
    from ground import *

    torch.manual_seed(0)
    model = Cnn()
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    search = torch.optim.SGD(model.parameters(), lr=1e-4)
    last = 10**9
    for step, (pictures, labels) in enumerate(batches(Pictures(240)), 1):
        search.zero_grad()
        guesses = model(pictures)
        loss = torch.nn.functional.cross_entropy(guesses, labels)
        loss.backward()
        search.step()
        search.param_groups[0]["lr"] *= 1.1
        if step == 20:
            told = os.urandom(1)[0] if "chance" in sys.argv else int(1e9 * guesses.double().abs().sum())
            last = 21 + told % 23
        if step == last:
            break
    model.load_state_dict(kept)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for pictures, labels in batches(Pictures(240)):
        train_step(model, optimizer, pictures, labels)
"""


def test_a_training_after_a_search_for_its_rate_is_compared_by_itself(tmp_path: Path) -> None:
    """Noise makes that search longer or shorter."""
    with trials_for(tmp_path, SEARCHES) as trials:
        verdict = guard(trials, Plan({"fused_optimizer": {}}), False, "float32", seed=1, steps=50)
        assert trials._count == 6, "trainings that part are watched once more"
    assert verdict.passed, reasons(verdict)
    assert (verdict.steps, verdict.numerics.held) == (50, True)
    assert 20 < verdict.after <= 43


@pytest.mark.thorough
def test_one_that_chance_decides_is_not_compared(tmp_path: Path) -> None:
    with trials_for(tmp_path, SEARCHES, "chance") as trials:
        verdict = guard(trials, Plan({"fused_optimizer": {}}), False, "float32", seed=1, steps=50)
    assert (verdict.accuracy, verdict.why_not) == ("not checked", "unrepeatable")


NO_MODULE = """
    import torch
    torch.manual_seed(0)
    weights = [torch.randn(6, 16, requires_grad=True), torch.randn(16, 1, requires_grad=True)]
    optimizer = torch.optim.Adam(weights)
    while True:
        loss = (torch.tanh(torch.randn(8, 6) @ weights[0]) @ weights[1]).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(("name", "accuracy"), [("fused_optimizer", "held"), ("bf16", "not checked")])
def test_where_no_module_is_called_what_acts_is_compared_and_what_does_not_is_not(
    tmp_path: Path, name: str, accuracy: str
) -> None:
    with trials_for(tmp_path, NO_MODULE) as trials:
        verdict = guard(trials, Plan({name: {}}), False, "bfloat16", seed=1, steps=20)
    assert verdict.accuracy == accuracy, reasons(verdict)
    assert verdict.refused == ("" if accuracy == "held" else name)


@pytest.mark.thorough
def test_bf16_passes_by_its_own_measure_and_not_by_that_of_float32(traces: Traces) -> None:
    verdict = verdict_on(traces, "bf16", "bfloat16")
    assert verdict.passed, reasons(verdict)
    assert verdict.steps == STEPS
    assert not verdict_on(traces, "bf16", "float32").passed


@pytest.mark.thorough
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught(traces: Traces, fault: str, precision: str) -> None:
    verdict = verdict_on(traces, fault, precision)
    assert not verdict.passed
    assert any(reason.startswith(FAULTS[fault]) for reason in reasons(verdict)), reasons(verdict)


@pytest.mark.parametrize("how", ["one by one", "in turn", "together"])
def test_a_technique_that_changes_nothing_but_time_passes(tmp_path: Path, how: Any) -> None:
    with trials_for(tmp_path, TRAINING) as trials:
        trials.starts.how = how
        verdict = guard(trials, Plan({"dataset_in_ram": {}}), draws=False, precision="float32", seed=5)
    assert verdict.passed, reasons(verdict)
    assert verdict.steps == STEPS
    assert verdict.invariants.differing == ()
    assert verdict.loss_curve.deviation == 0.0
    assert (verdict.loss_curve.tolerance or 0.0) > 0


@pytest.mark.thorough
def test_bf16_passes_on_the_fashion_example(tmp_path: Path) -> None:
    source = Path(hasten.__file__).parent / "examples" / "fashion_cnn.py"
    stage = Stage(
        argv=(str(source), "--batch-size", "16"),
        machine=this_machine(),
        environment=one_thread(),
        folders=(str(source.parent),),
    )
    with Trials(stage, tmp_path / "output") as trials:
        verdict = guard(trials, Plan({"bf16": {}}), draws=False, precision="bfloat16", seed=0, steps=60)
    assert verdict.passed, reasons(verdict)
    assert verdict.numerics.steps == (1, 2, 20, 41, 60)
    assert verdict.numerics.compared["gradient"].scale == pytest.approx(1.0, abs=0.02)


NORMED = """
    from ground import *

    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
        torch.nn.Conv2d(8, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Flatten(), torch.nn.Linear(128, 4),
    )
    optimizer = torch.optim.{optimizer}
    for pictures, labels in batches(Pictures(240)):
        train_step(model, optimizer, pictures, labels)
"""


@pytest.mark.parametrize(
    "optimizer",
    [
        "Adam(model.parameters(), lr=1e-3)",
        "SGD(model.parameters(), lr=0.02, weight_decay=1e-3, momentum=0.9)",
    ],
)
def test_the_bias_before_a_batch_norm_is_not_missed(tmp_path: Path, optimizer: str) -> None:
    """Adam moves such a bias by rounding alone, at full size: that must not count as a difference."""
    with trials_for(tmp_path, NORMED.format(optimizer=optimizer)) as trials:
        verdict = guard(trials, Plan({"drop_bias": {}}), draws=False, precision="float32", seed=5, steps=60)
    assert verdict.passed, reasons(verdict)
    assert verdict.numerics.held


@pytest.mark.thorough
def test_a_detector_draws_what_its_scores_say_so_a_lower_precision_is_compared_by_its_draws(
    tmp_path: Path,
) -> None:
    detector = SHAPES_FOLDER / "samples_its_proposals.py"
    for draws, accuracy in ((False, "not checked"), (True, "held")):
        with trials_for(tmp_path, detector.read_text()) as trials:
            verdict = guard(trials, Plan({"bf16": {}}), draws, "bfloat16", seed=1, steps=60)
        assert verdict.accuracy == accuracy, reasons(verdict)
        assert verdict.parts_by_draws != draws


@pytest.mark.attack("truth")
def test_a_lower_precision_under_which_nothing_is_learnt_is_not_held(tmp_path: Path) -> None:
    """A sigmoid that rounds to 1 has no gradient in bfloat16. The network of the same kind that a public
    repository trains was "held", and learnt nothing in three whole runs of three.
    """
    pairs = SHAPES_FOLDER / "siamese.py"
    with trials_for(tmp_path, pairs.read_text()) as trials:
        for name, precision, passes in (("bf16", "bfloat16", False), ("channels_last", "float32", True)):
            verdict = guard(trials, Plan({name: {}}), False, precision, seed=1, steps=60)
            assert verdict.passed is passes, reasons(verdict)


BY_WORKERS = """
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Waves(Dataset):
        def __len__(self):
            return 160

        def __getitem__(self, index):
            return torch.sin(torch.linspace(0, 1 + index % 5, 24)), index % 5

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(24, 32), torch.nn.Dropout(0.2), torch.nn.Linear(32, 5))
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(Waves(), batch_size=8, shuffle=True, num_workers=2)
    for epoch in range(9):
        for waves, kinds in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(waves), kinds).backward()
            optimizer.step()
"""


def test_samples_kept_in_memory_in_place_of_worker_processes_are_the_same(tmp_path: Path) -> None:
    plan = Plan({"loader_workers": {"count": 0}, "dataset_in_ram": {}, "batched_fetch": {}})
    with trials_for(tmp_path, BY_WORKERS) as trials:
        verdict = guard(trials, plan, False, "float32", seed=1, steps=40)
    assert verdict.passed, reasons(verdict)
    assert verdict.loss_curve.deviation == 0.0


# Stands in for a GPU that is full, as several processes of the check hold some of its memory.
FULL_GPU = """
    import sys
    from ground import *

    model = Cnn()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for step, (pictures, labels) in enumerate(batches(Pictures(240)), 1):
        if step == 3 and (sys.argv[1] == "all" or optimizer.param_groups[0]["fused"]):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3.07 GiB")
        train_step(model, optimizer, pictures, labels)
"""


@pytest.mark.attack("truth")
@pytest.mark.parametrize("of", ["all", "plan"])
def test_a_process_that_ran_out_of_gpu_memory_says_nothing_of_accuracy(of: str, tmp_path: Path) -> None:
    with trials_for(tmp_path, FULL_GPU, of) as trials:
        verdict = guard(trials, Plan({"fused_optimizer": {}}), False, "float32", seed=1, steps=20)
        assert trials._count == 6, "tried again, with processes that leave each other memory"
        assert trials.starts.room.is_short_for(2)
    assert (verdict.accuracy, verdict.why_not) == ("not checked", "script")
    assert "CUDA out of memory" in reasons(verdict)[0]
