"""Every shape of program that people write: seen rightly, each technique proven on it or refused."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from hasten.bench.observe import WatchOn, observe
from hasten.bench.trials import Trials
from hasten.errors import HastenError, Refusal, ScriptError, WorkerError
from hasten.records.plan import Plan
from hasten.report.words import trainings_words

from ..cli.conftest import Project
from ..inside.distributed.forked import workers_forked
from .libraries import LIBRARY_SCRIPTS, LibraryScript
from .shapes import REFUSED, TUNABLE, Shape
from .trial import Outcome, follow, trials_for

SLOW = {"long_steps"}  # 20 s a step: see test_slow_steps_are_refused_within_the_budget
# Where a technique does otherwise than apply or refuse, and why that is right.
EXCEPTIONS = {
    ("sparse_embedding", "bf16"): "no effect",  # products of vectors alone: autocast lowers nothing
    ("no_dataloader", "bf16"): "no effect",  # an embedding is all there is
    ("batch_sampler", "batched_fetch"): "no effect",  # its sequences differ in length
    ("forward_forward", "batched_fetch"): "no effect",  # it takes one batch, before its first optimizer
    ("graph_full_batch", "bf16"): "fails",  # torch.sparse.mm has no backward pass in bfloat16
    ("private_gradients", "bf16"): "fails",  # its hooks multiply what autocast lowers with what it does not
    ("custom_collate", "dataset_in_ram"): "no effect",  # its batches may write into samples that it holds
    ("million_objects", "dataset_in_ram"): "no effect",  # the same
    ("hf_trainer_accumulation", "dataset_in_ram"): "no effect",  # the same
}
# Steps that end without a loss of their own, or with another than is printed.
OTHER_LOSSES = {
    "gan_three_backwards": "two losses make a critic's step, and their sum is printed",
    "one_backward_two_optimizers": "only one of two steps has a backward pass",
    "translation": "as above",
    "per_sample_gradients": "no backward pass has a loss",
    "lbfgs": "many losses a step; the first is printed",
    "frozen_network": "as above",
    "accumulation_with_remainder": "each of four losses is divided by four; their sum is printed",
    "hf_trainer_accumulation": "as above",
    "accelerate_accumulate": "as above",
    "with_grad_scaler": "the loss is scaled when its backward pass runs",
    "prints_100_mb": "most of its output is left out",
    "very_short_steps": "each hundredth is printed",
}


# All others, too, are switched on and off by benchmarks/compatibility.py.
SWITCHED = ("dataset_in_ram", "batched_fetch", "bf16", "channels_last", "fused_optimizer")

ALWAYS = {
    *(
        "module_level",
        "gan_critic_steps",
        "lbfgs",
        "one_update",
        "accumulation_with_remainder",
        "with_grad_scaler",
    ),
    *("no_dataloader", "loader_workers_fork", "with_compile", "ddp_torchrun", "cross_validation"),
    *("raw_tensors", "learning_rate_finder", "steps_in_backward", "per_sample_gradients"),
    *("hf_trainer", "lightning_trainer"),
}
REFUSED_ALWAYS = {"scripted_root", "trains_in_children", "functional_call", "hangs", "raises"}
# These start as forks of a process that has torch. A library, and TorchScript, ask how they were started.
FORKED = (ALWAYS | REFUSED_ALWAYS) - {
    "hf_trainer",
    "lightning_trainer",
    "scripted_root",
    "trains_in_children",
}


def workers(shape: Shape) -> AbstractContextManager[None]:
    return workers_forked() if shape.name in FORKED else nullcontext()


def ordinarily(shapes: Iterable[Shape], always: Collection[str]) -> list[Any]:
    return [
        shape if shape.name in always else pytest.param(shape, marks=pytest.mark.thorough) for shape in shapes
    ]


FOLLOWED = ordinarily([shape for shape in (*TUNABLE, *LIBRARY_SCRIPTS) if shape.name not in SLOW], ALWAYS)
TOLD = ordinarily(REFUSED, REFUSED_ALWAYS)


@pytest.mark.parametrize("shape", FOLLOWED, ids=lambda s: s.name)
def test_it_is_seen_rightly_and_each_technique_proven_on_it(shape: Shape, tmp_path: Path) -> None:
    if isinstance(shape, LibraryScript) and shape.missing:
        pytest.skip(f"{', '.join(shape.missing)} is not installed here")
    folder = tmp_path / "work"
    folder.mkdir()
    with (
        workers(shape),
        trials_for(shape.path, folder, shape.arguments, evaluations=shape.evaluations) as trials,
    ):
        outcome = follow(trials, SWITCHED)
    for holds in (
        it_runs_to_its_end_and_every_step_is_seen,
        what_is_seen_is_what_there_is,
        a_steps_time_is_divided_without_rest,
        losses_are_those_that_the_script_prints,
        each_technique_takes_effect_or_says_why_not,
    ):
        holds(shape, outcome)


def it_runs_to_its_end_and_every_step_is_seen(shape: Shape, outcome: Outcome) -> None:
    assert outcome.ended is not None
    failing = {name for (script, name), what in EXCEPTIONS.items() if (script, what) == (shape.name, "fails")}
    tried = {name for name, (what, _) in outcome.techniques.items() if what != "refused"}
    if failing & tried:  # a processor without bfloat16 is not asked
        assert outcome.ended.how == "raised"
        return
    assert (outcome.ended.how, outcome.ended.detail) == ("completed", "")
    if shape.steps is not None:
        lines = [line for line in outcome.printed.splitlines() if line.startswith("step ")]
        assert len(outcome.steps) == shape.steps
        if shape.name != "prints_100_mb":  # of whose output both ends are kept
            assert len(lines) == shape.steps


def what_is_seen_is_what_there_is(shape: Shape, outcome: Outcome) -> None:
    seen = outcome.observation
    assert seen is not None
    assert (seen.cycle, seen.batch_size) == (shape.cycle, shape.batch_size)
    roots = tuple(root.name.rsplit(".", 1)[-1] for root in seen.roots)
    assert bool(roots) == bool(shape.roots)
    assert roots == shape.roots[: len(roots)], "later ones come later"
    optimizers = tuple(optimizer.name for optimizer in seen.optimizers)
    assert optimizers == shape.optimizers[: len(optimizers)]
    assert bool(optimizers) == bool(shape.optimizers)
    assert seen.obstacles == ()


def a_steps_time_is_divided_without_rest(shape: Shape, outcome: Outcome) -> None:
    for step in outcome.steps:
        assert sum(step.phases.values()) == pytest.approx(step.seconds, rel=1e-6)
        assert all(seconds >= 0 for seconds in step.phases.values())


def losses_are_those_that_the_script_prints(shape: Shape, outcome: Outcome) -> None:
    assert all(math.isfinite(loss) for step in outcome.steps for loss in step.losses)
    printed = [float(line.split()[2]) for line in outcome.printed.splitlines() if line.startswith("step ")]
    seen = [step.losses[-1] for step in outcome.steps if step.losses]
    assert (printed == seen) == (shape.name not in OTHER_LOSSES)


def each_technique_takes_effect_or_says_why_not(shape: Shape, outcome: Outcome) -> None:
    for name, (what, why) in outcome.techniques.items():
        if what == "refused":
            assert why
        else:
            assert what == EXCEPTIONS.get((shape.name, name), "applied"), why


def test_a_plan_waits_for_what_is_trained(tmp_path: Path) -> None:
    """When the model is first called there is neither an optimizer nor a batch that the plan could act on."""
    shape = next(shape for shape in TUNABLE if shape.name == "prints_shapes_first")
    folder = tmp_path / "work"
    folder.mkdir()
    plan = Plan({"dataset_in_ram": {}, "fused_optimizer": {}})
    with workers_forked(), trials_for(shape.path, folder) as trials, trials.worker(plan) as worker:
        worker.wait_started()
        worker.steps(30)
        assert [(proof.technique, proof.effective) for proof in worker.proofs()] == [
            ("dataset_in_ram", True),
            ("fused_optimizer", True),
        ]


@pytest.mark.parametrize(
    ("name", "count"), [("cross_validation", 5), ("warmed_up_gan", 1), ("learning_rate_finder", 2)]
)
def test_trainings_are_counted(name: str, count: int, tmp_path: Path) -> None:
    shape = next(shape for shape in TUNABLE if shape.name == name)
    folder = tmp_path / "work"
    folder.mkdir()
    with workers_forked(), trials_for(shape.path, folder) as trials:
        observation, _ = observe(trials, on=WatchOn(whole=True))
    assert len(observation.trainings) == count
    assert sum(observation.trainings) == shape.steps
    said = trainings_words(observation)
    assert said.startswith(f"trains {count} times, one after another: ")
    assert "the steps timed above come from the first" in said


# ---- refusals
SAYS = {
    "scripted_root": "TorchScript module",
    "trains_in_children": "started a process of its own (",
    "five_steps": "ended after 5 training steps: hasten profile needs at least 10, hasten tune 20. ",
    "asks_for_cuda": 'device = "cuda" if torch.cuda.is_available() else "cpu"',
    "needs_rank": "by --nproc-per-node N, before the script",
    "functional_call": "it can mark the end of a step by hasten.step()",
    "never_trains": "ended without training",
    "hangs": "was silent for 3 s while training 8 steps: it seems to hang",
    "killed": "was killed by SIGKILL (out of memory?) while training 8 steps",
    "raises": "ValueError",
}


@pytest.mark.parametrize("shape", TOLD, ids=lambda s: s.name)
def test_what_cannot_be_tuned_says_why(shape: Shape, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hasten.bench.workers.process.SILENCE_SECONDS", 1.0)
    monkeypatch.setattr("hasten.bench.workers.process.WorkerProcess._expected", lambda worker, count: 2.0)
    if shape.name == "asks_for_cuda":
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    folder = tmp_path / "work"
    folder.mkdir()
    with workers(shape), trials_for(shape.path, folder, shape.arguments) as trials:
        kind, said = _said(trials)
    assert kind == shape.refused
    assert SAYS[shape.name] in said


def _said(trials: Trials) -> tuple[str, str]:
    """As ``hasten tune`` would end: the kind of error and its text."""
    try:
        observation, _ = observe(trials)
    except HastenError as error:
        kind = next(k for k in (Refusal, ScriptError, WorkerError) if isinstance(error, k))
        return kind.__name__, str(error)
    return ("Refusal" if observation.obstacles else "none"), "; ".join(observation.obstacles)


@pytest.mark.thorough
def test_slow_steps_are_refused_within_the_budget(tmp_path: Path) -> None:
    """Forty steps would have to be watched, of a second each; the budget has thirty seconds."""
    project = Project(tmp_path)
    slow = next(shape for shape in TUNABLE if shape.name == "long_steps")
    done = project.hasten("tune", "--budget", "30", str(slow.path), "--seconds", "1")
    assert done.returncode == 3
    assert re.search(
        r" takes \S+ m?s to its first step and [0-9.]+ s a step, .* the budget is 30 s: try --budget \d+",
        done.stderr,
    )
    (printed,) = project.folder.glob(".hasten/*long_steps@*/trials/000/worker-001.stdout")
    assert printed.read_text().count("step ") < 10
