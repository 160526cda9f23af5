"""The contract with the training on a GPU."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

from hasten.inside.techniques.catalog import CATALOG
from hasten.inside.training import NotApplicable
from hasten.records.plan import BASELINE
from hasten.testing.technique_contract import (
    BENCHES,
    STARTED,
    bench_of,
    check_checkpoints_look_the_same,
    check_proof,
    check_steps_leave_no_trace,
    check_switching_alone_leaves_no_trace,
    check_training_stays_close,
    live_on,
    pairs_of,
    plan_of,
    trained_from_the_start,
)
from hasten.testing.workbench import Workbench, adam_by_parameter, normed_cnn, workbench

if not torch.cuda.is_available():
    pytest.skip(
        "torch finds no GPU here", allow_module_level=True
    )  # all of them: one line instead of hundreds

# torchao's:
pytestmark = pytest.mark.filterwarnings("ignore:torch.get_autocast_gpu_dtype:DeprecationWarning")
LIVE = live_on("cuda")
_IN_WORKERS = ("persistent_workers",)  # it acts on loaders with workers, and has tests of its own with those
TOLERANCES = {"float32": 1e-4, "tfloat32": 1e-2, "float16": 1e-2, "bfloat16": 3e-2, "float8": 2e-1}


@pytest.fixture(autouse=True)
def _the_same_sums_every_time() -> Iterator[None]:
    """Kernels that add in another order every time could not be compared bit by bit."""
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def wide_cnn() -> torch.nn.Module:
    """With linear layers whose sides and rows float8 kernels take."""
    first, second, _, _ = normed_cnn().children()
    by_row = torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 16)
    return torch.nn.Sequential(
        first, second, torch.nn.Flatten(2), *by_row, torch.nn.Flatten(), torch.nn.Linear(128, 4)
    )


@pytest.fixture
def bench() -> Iterator[Workbench]:
    with workbench(make_optimizer=adam_by_parameter, make_model=wide_cnn, device="cuda") as made:
        yield made


def or_not_here(name: str, bench: Workbench) -> None:
    """Skip, with the reason, what does not apply."""
    bench.train(1)
    try:
        bench.switchboard.switch(plan_of(name))
    except NotApplicable as reason:
        pytest.skip(f"{name} does not apply: {reason}")
    bench.switchboard.switch(BASELINE)


@pytest.mark.parametrize("name", LIVE)
def test_it_leaves_no_trace(bench: Workbench, name: str) -> None:
    or_not_here(name, bench)
    check_switching_alone_leaves_no_trace(bench, plan_of(name))
    check_steps_leave_no_trace(bench, plan_of(name))


@pytest.mark.parametrize(("first", "second"), pairs_of(LIVE))
def test_every_ordered_pair_leaves_no_trace(bench: Workbench, first: str, second: str) -> None:
    or_not_here(first, bench)
    or_not_here(second, bench)
    check_steps_leave_no_trace(bench, plan_of(first), plan_of(first, second), plan_of(second))


@pytest.mark.parametrize("name", LIVE)
def test_training_stays_close(bench: Workbench, name: str) -> None:
    or_not_here(name, bench)
    check_training_stays_close(bench, plan_of(name), TOLERANCES[CATALOG[name].precision])


@pytest.mark.parametrize("name", [name for name in LIVE if name not in ("cudnn_benchmark", *BENCHES)])
def test_the_proof_needs_the_effect(bench: Workbench, name: str) -> None:
    or_not_here(name, bench)
    check_proof(bench, name)


@pytest.mark.parametrize("name", [name for name in LIVE if name in BENCHES])
def test_the_proof_needs_the_effect_in_a_training_of_its_own(name: str) -> None:
    with BENCHES[name]("cuda") as made:
        check_proof(made, name)


def test_the_proof_of_choosing_kernels_by_time(bench: Workbench) -> None:
    torch.use_deterministic_algorithms(False)  # with which the technique does not go
    check_proof(bench, "cudnn_benchmark")


@pytest.mark.parametrize("name", LIVE)
def test_checkpoints_look_the_same(bench: Workbench, name: str) -> None:
    or_not_here(name, bench)
    check_checkpoints_look_the_same(bench, plan_of(name))


@pytest.mark.parametrize("name", [name for name in STARTED if name not in _IN_WORKERS])
def test_a_process_that_starts_under_it_trains_the_same(name: str) -> None:
    with bench_of(name, "cuda") as bench:
        expected = trained_from_the_start(bench, BASELINE)
    with bench_of(name, "cuda") as bench:
        assert trained_from_the_start(bench, plan_of(name)) == expected
