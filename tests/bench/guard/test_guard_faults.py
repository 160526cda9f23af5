"""The guard under planted faults, each a technique that quietly spoils a real training, and under harmless
plans.

All workers train from one seed, so one reference serves them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from hasten.bench.guard.checked_steps import Watched, watch
from hasten.bench.guard.judging import verdict_on
from hasten.bench.guard.single_steps import ROUNDING
from hasten.inside.job import Perturbation
from hasten.records.plan import BASELINE, Plan
from hasten.records.verdict import GuardVerdict
from hasten.report.guard import reasons
from tests.bench import faulty_techniques
from tests.bench.faulty_techniques import PLANTED, SLIGHT, TRAINING, TRAININGS
from tests.bench.known_techniques import known_to_workers
from tests.bench.made_up import PRECISIONS
from tests.bench.real_workers import trials_for
from tests.inside.distributed.forked import workers_forked

STEPS = 40
EXACT = ("dataset_in_ram", "fused_optimizer", "malloc")
HARMLESS = {
    "adam": (*EXACT, "bf16", "channels_last"),
    "tiny loss": ("bf16", "channels_last"),
    "augmented": ("fused_optimizer",),
}
NOISES = {
    **{name: Perturbation(relative, seed=3) for name, relative in ROUNDING.items()},
    "redrawn": Perturbation(ROUNDING["float32"], redraw=True, seed=3),
    "redrawn otherwise": Perturbation(ROUNDING["float32"], redraw=True, seed=5),
    "redrawn again": Perturbation(ROUNDING["float32"], redraw=True, seed=6),
}
Trainings = dict[tuple[str, str], Watched]


@pytest.fixture(scope="module")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trainings]:
    """By training and technique; "plain" is the reference, and the perturbed have their noise's name."""
    with known_to_workers(faulty_techniques.__file__, faulty_techniques.FAULTS):
        found: Trainings = {}
        for kind, arguments in TRAININGS.items():
            names = (*HARMLESS.get(kind, ()), *PLANTED[kind], *((SLIGHT,) if kind == "adam" else ()))
            folder = tmp_path_factory.mktemp("faults")
            with workers_forked(), trials_for(folder, TRAINING, *arguments) as trials, ExitStack() as stack:
                workers = {
                    "plain": trials.worker(BASELINE, seed=11, traced=True),
                    **{
                        name: trials.worker(BASELINE, seed=11, traced=True, perturbation=noise)
                        for name, noise in NOISES.items()
                        if not name.startswith("redrawn") or kind == "adam"
                    },
                    **{name: trials.worker(Plan({name: {}}), seed=11, traced=True) for name in names},
                }
                for worker in workers.values():
                    stack.enter_context(worker)
                reference, *others = workers.values()
                for worker in workers.values():
                    worker.wait_started()
                first, watched = watch(reference, others, STEPS, trials.aside, trials.limit)
                found |= {(kind, name): one for name, one in zip(workers, [first, *watched], strict=True)}
        yield found


def verdict(
    trainings: Trainings, kind: str, name: str, precision: str = "float32", draws: bool = False
) -> GuardVerdict:
    perturbed = trainings[kind, "redrawn" if draws else precision]
    return verdict_on(trainings[kind, "plain"], perturbed, trainings[kind, name], draws, precision)


BATCHES = "batches came from the loader with different content or in a different order"
CAUGHT = {
    ("adam", "gradients_scaled"): "the gradient is 1.050 times the baseline's",
    ("adam", "one_gradient_scaled"): "the gradient of 0.weight is 2.000 times the baseline's",
    ("adam", "optimizer_reset"): "what the optimizer keeps (exp_avg_sq)",
    ("adam", "optimizer_restrided"): "what the optimizer keeps (exp_avg)",
    ("sgd", "gradients_scaled"): "the gradient is 1.050 times the baseline's",
    ("sgd", "updates_scaled"): "the optimizer's update is 1.020 times the baseline's",
    ("sgd", "optimizer_reset"): "what the optimizer keeps (momentum_buffer)",
    ("sgd", "optimizer_restrided"): "what the optimizer keeps (momentum_buffer)",
    ("sgd", "statistics_frozen"): "the change of buffers in one step (running statistics) is 0.000 times",
    ("sgd", "dropout_left_in_eval"): "train/eval flags differ (from step 1)",
    ("sgd", "labels_shifted"): BATCHES,
    ("sgd", "batch_dropped"): BATCHES,
    ("sgd", "batch_twice"): "the loss differs",
    ("sgd", "schedule_twice"): "learning rates differ",
    ("tiny loss", "half_without_scaler"): "the gradient",
    ("augmented", "stale_cache"): BATCHES,
}


def test_every_planted_fault_has_its_name() -> None:
    assert {(kind, name) for kind, names in PLANTED.items() for name in names} == set(CAUGHT)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("kind", "name"), CAUGHT)
def test_a_fault_is_caught_by_its_name(trainings: Trainings, kind: str, name: str, precision: str) -> None:
    found = verdict(trainings, kind, name, precision)
    assert not found.passed
    assert any(reason.startswith(CAUGHT[kind, name]) for reason in reasons(found)), reasons(found)


def test_counts_that_an_optimizer_began_again_are_named(trainings: Trainings) -> None:
    found = verdict(trainings, "adam", "optimizer_reset", "bfloat16")
    assert any(reason.startswith("step of 0.weight") for reason in reasons(found)), reasons(found)


def test_a_fused_optimizer_passes_under_random_augmentation(trainings: Trainings) -> None:
    found = verdict(trainings, "augmented", "fused_optimizer")
    assert found.passed, reasons(found)


@pytest.mark.parametrize("name", EXACT)
def test_an_exact_technique_passes(trainings: Trainings, name: str) -> None:
    found = verdict(trainings, "adam", name)
    assert found.passed, reasons(found)
    assert found.numerics.steps == (1, 2, 13, 27, 40)
    assert found.numerics.compared["gradient"].residual == pytest.approx(0.0, abs=1e-5)
    assert found.numerics.compared["update"].residual == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("kind", ["adam", "tiny loss"])
def test_channels_last_passes_by_the_measure_of_float32(trainings: Trainings, kind: str) -> None:
    """With dropout and without: its masks are the same."""
    found = verdict(trainings, kind, "channels_last")
    assert found.passed, reasons(found)


def test_other_draws_pass_only_where_the_plan_may_draw(trainings: Trainings) -> None:
    """By two baselines with other draws: one is sometimes too little to tell."""
    plain, one, another, drawn = (
        trainings["adam", name] for name in ("plain", "redrawn", "redrawn again", "redrawn otherwise")
    )
    found = verdict_on(plain, one, drawn, True, "float32", [another])
    assert found.passed, reasons(found)
    assert found.numerics.draws
    assert (found.numerics.compared["gradient"].residual_tolerance or 0.0) > 0.1
    assert not verdict(trainings, "adam", "redrawn otherwise").passed


def test_one_percent_of_one_layer_is_caught(trainings: Trainings) -> None:
    found = verdict(trainings, "adam", SLIGHT)
    assert not found.passed
    assert any(
        reason.startswith("the gradient of 0.weight is 1.0100 times the baseline's in most of 5 steps")
        for reason in reasons(found)
    ), reasons(found)


@pytest.mark.parametrize("kind", ["adam", "tiny loss"])
def test_bf16_passes_by_its_own_measure(trainings: Trainings, kind: str) -> None:
    found = verdict(trainings, kind, "bf16", "bfloat16")
    assert found.passed, reasons(found)
    assert found.numerics.compared["gradient"].scale == pytest.approx(1.0, abs=0.01)


def test_a_bias_before_a_normalisation_is_not_compared_alone(trainings: Trainings) -> None:
    """Its gradient is nothing but rounding, which bf16 makes thousands of times larger."""
    found = verdict(trainings, "adam", "bf16", "bfloat16")
    assert found.numerics.worst_tensor is not None
    assert found.numerics.worst_tensor.tensor != "0.bias"
