"""Both benches on real trainings. Nothing here is about speed: only about what is told, and what is left."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hasten.bench.comparing import abba_blocks
from hasten.bench.comparing.live import LiveBench
from hasten.bench.comparing.pairs import PairsBench
from hasten.bench.comparing.steps import Rhythm
from hasten.bench.script_bench import ScriptBench
from hasten.bench.workers import process
from hasten.bench.workers.process import WorkerProcess
from hasten.bench.workers.process_start import start_process
from hasten.records.plan import BASELINE, Plan
from hasten.records.trial import Trial
from tests.bench.real_workers import PLAIN, children, trials_for
from tests.inside.distributed.forked import workers_forked

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

RHYTHM = Rhythm(evaluations=0, restarts=0, cycle=1, cycle_seconds=0.01)
BLOCK = 11  # steps, with this rhythm
IN_RAM, FUSED, LAST = (Plan({name: {}}) for name in ("dataset_in_ram", "fused_optimizer", "channels_last"))

# RMSprop has no fused form, and view_as needs the usual order of memory.
VIEWS = """
    from ground import *

    model = Cnn(flatten=lambda rows: rows.view_as(torch.empty(len(rows), rows[0].numel())))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4)
    for pictures, labels in batches(Pictures()):
        train_step(model, optimizer, pictures, labels)
"""

WITH_WORKERS = """
    from ground import *

    model = Cnn()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Pictures(), batch_size=8, shuffle=True, num_workers=1)
    while True:
        for pictures, labels in loader:
            train_step(model, optimizer, pictures, labels)
"""

FAILS_AT_STEP_70 = """
    import os, signal, sys
    from ground import *

    model = Cnn()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, (pictures, labels) in enumerate(batches(Pictures()), 1):
        if step == 70 and sys.argv[1] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if step == 70 and sys.argv[1] == "hangs":
            time.sleep(1000)
        if step == 70 and sys.argv[1] == "diverges":
            optimizer.param_groups[0]["lr"] = float("nan")
        train_step(model, optimizer, pictures, labels)
"""
FAILURES = {
    "killed": "the script was killed by SIGKILL",
    "hangs": "it seems to hang",
    "diverges": "the loss is no longer a number",
}


@pytest.fixture(autouse=True, scope="module")
def _workers_are_forks() -> Iterator[None]:
    """What is tested comes after their start."""
    with workers_forked():
        yield


def workers_started(folder: Path) -> int:
    return len(list((folder / "output").glob("worker-*.stderr")))


@pytest.fixture(scope="module")
def live_trials(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[Trial], Path]]:
    """Four trials, one after another on one live bench; what they left is checked at the end."""
    before = children()
    folder = tmp_path_factory.mktemp("live")
    with trials_for(folder, VIEWS) as trials, ScriptBench(trials, RHYTHM) as bench:
        done = [bench.compare(BASELINE, plan, 0.0) for plan in (IN_RAM, FUSED, LAST, IN_RAM)]
        yield done, folder
    assert children() == before


def test_a_technique_with_an_effect_gets_its_ratio_and_proof(
    live_trials: tuple[list[Trial], Path],
) -> None:
    trial = live_trials[0][0]
    assert trial.failure is None
    assert trial.method == "live"
    assert trial.ratio is not None
    assert trial.ratio.count == len(trial.log_ratios) >= abba_blocks.LEAST_ABBA_BLOCKS
    (proof,) = trial.proofs
    assert (proof.technique, proof.effective) == ("dataset_in_ram", True)
    assert "came from memory" in proof.evidence
    assert trial.setup_seconds > 0
    assert trial.step_seconds_a is not None


def test_a_technique_that_cannot_apply_fails_with_its_reason(live_trials: tuple[list[Trial], Path]) -> None:
    trial = live_trials[0][1]
    assert (
        trial.failure
        == "fused_optimizer: no optimizer of the script's can be fused: RMSprop has no fused form in torch"
    )
    assert trial.ratio is None
    assert trial.upper() == math.inf


def test_a_script_that_raises_under_a_plan_is_named_with_its_error(
    live_trials: tuple[list[Trial], Path],
) -> None:
    trial = live_trials[0][2]
    assert trial.failure is not None
    assert trial.failure.startswith("the script raised RuntimeError: view size is not compatible")
    assert trial.ratio is None


def test_after_failures_the_bench_goes_on(live_trials: tuple[list[Trial], Path]) -> None:
    """Only the error cost a worker: the refusal left it as it was."""
    trials, folder = live_trials
    assert trials[3].failure is None
    assert trials[3].ratio is not None
    assert workers_started(folder) == 2


def test_a_script_that_ends_in_mid_trial_goes_on_in_the_next_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(abba_blocks, "LEAST_ABBA_BLOCKS", 2)
    steps = 1 + 10 + 2 * 3 + 6 * BLOCK  # start, warm-up, settling of both, an ABBA block and a half
    source = PLAIN.replace("Pictures()", f"Pictures(), steps={steps}")
    with trials_for(tmp_path, source) as trials, ScriptBench(trials, RHYTHM) as bench:
        trial = bench.compare(BASELINE, IN_RAM, 0.0)
    assert trial.failure is None
    assert len(trial.log_ratios) == 2
    assert workers_started(tmp_path) == 2


@pytest.mark.parametrize("how", FAILURES)
def test_a_live_trial_in_which_the_script_fails_is_a_failed_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(process, "SILENCE_SECONDS", 3.0)
    monkeypatch.setattr(WorkerProcess, "_expected", lambda *_: 0.0)
    before = children()
    with trials_for(tmp_path, FAILS_AT_STEP_70, how) as trials:
        bench = LiveBench(trials, RHYTHM)
        trial = bench.compare(BASELINE, IN_RAM, 0.0)
        assert children() == before, "a worker that is good for nothing is still there"
    assert trial.failure is not None
    assert FAILURES[how] in trial.failure
    assert trial.ratio is None


def test_pairs_get_their_ratio_and_proofs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "start_process", start_process)  # malloc is a process's own
    before = children()
    plan = Plan({"malloc": {}, "dataset_in_ram": {}})
    with trials_for(tmp_path, VIEWS) as trials:
        trial = PairsBench(trials, RHYTHM).compare(BASELINE, plan, 2)
        assert children() == before
    assert trial.failure is None
    assert trial.ratio is not None
    assert (trial.ratio.count, trial.ratio.unit) == (2, "pairs")
    assert {proof.technique: proof.effective for proof in trial.proofs} == {
        "malloc": True,
        "dataset_in_ram": True,
    }
    assert workers_started(tmp_path) == 4


def test_a_store_of_samples_is_shared_by_trials_and_goes_with_them(tmp_path: Path) -> None:
    with trials_for(tmp_path, WITH_WORKERS) as trials:
        trial = PairsBench(trials, RHYTHM).compare(BASELINE, Plan({"sample_store": {}}), 2)
        (store,) = Path(trials.samples).glob("*/header.json")
    assert trial.failure is None
    (proof,) = trial.proofs
    assert proof.effective
    assert str(store.parent) in proof.evidence
    assert not store.exists()
    assert not list(tmp_path.rglob(store.parent.name))


@pytest.mark.parametrize(
    ("plan", "failure"),
    [
        (
            FUSED,
            "fused_optimizer: no optimizer of the script's can be fused: RMSprop has no fused form in torch",
        ),
        (LAST, "the script raised RuntimeError: view size is not compatible"),
    ],
)
def test_a_pair_that_cannot_train_under_the_plan_is_a_failed_trial(
    tmp_path: Path, plan: Plan, failure: str
) -> None:
    before = children()
    with trials_for(tmp_path, VIEWS) as trials:
        trial = PairsBench(trials, RHYTHM).compare(BASELINE, plan, 4)
        assert children() == before
    assert trial.failure is not None
    assert trial.failure.startswith(failure)
    assert trial.ratio is None
    assert workers_started(tmp_path) == 2


def test_a_pair_in_which_a_worker_is_killed_is_a_failed_trial(tmp_path: Path) -> None:
    before = children()
    with trials_for(tmp_path, FAILS_AT_STEP_70, "killed") as trials:
        trial = PairsBench(trials, RHYTHM).compare(BASELINE, IN_RAM, 4)
        assert children() == before
    assert trial.failure is not None
    assert FAILURES["killed"] in trial.failure
    assert trial.ratio is None


GIVES_BACK = """
    from ground import *

    torch.cuda.is_initialized = lambda: True
    torch.cuda.empty_cache = lambda: print("given back", flush=True)
    model = Cnn()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for pictures, labels in batches(Pictures()):
        train_step(model, optimizer, pictures, labels)
"""


@pytest.mark.parametrize(
    ("short", "at_once", "times"), [(True, 2, 3), (True, 1, 0), (False, 2, 0)], ids=["short", "alone", "room"]
)
def test_workers_that_do_not_fit_onto_a_gpu_together_give_back_what_they_can(
    tmp_path: Path, short: bool, at_once: int, times: int
) -> None:
    """Before it is heard that the first step is done, that three more are, and what the plan did."""
    with trials_for(tmp_path, GIVES_BACK) as trials:
        if short:
            trials.starts.room.failed("torch.OutOfMemoryError: CUDA out of memory")
        with trials.worker(at_once=at_once) as worker:
            worker.wait_started()
            worker.steps(3)
            worker.proofs()
    assert (tmp_path / "output/worker-001.stdout").read_text().count("given back") == times
