"""One step of a training against the same step of another: what is compared, and what is left as it was."""

from __future__ import annotations

import math
import shutil
from collections import namedtuple
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
import torch

from hasten.inside.guarding.one_step import Numerics
from hasten.records import messages
from hasten.records.plan import BASELINE, Plan
from hasten.testing.workbench import small_cnn, workbench

Model = Callable[[], torch.nn.Module]
Answer = TypeVar("Answer", bound=messages.Message)
OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "Adam": torch.optim.Adam,
}
PLANS = [BASELINE, Plan({"fused_optimizer": {}}), Plan({"channels_last": {}})]


class Files:
    """Where one worker leaves what another reads."""

    def __init__(self, folder: Path) -> None:
        self.state, self.made = str(folder / "state"), str(folder / "made")

    def reference(self, optimizer: str, steps: int = 3, make_model: Model = small_cnn) -> None:
        """Train ``steps`` and one more, which is to be checked."""
        with workbench(make_model=make_model, make_optimizer=OPTIMIZERS[optimizer]) as bench:
            numerics = Numerics(bench.training)
            bench.train(steps)
            asked(numerics, messages.SaveState(self.state))
            bench.train(1)
            asked(numerics, messages.RecordStep(self.made, 0))

    def load(self, numerics: Numerics) -> messages.Departed:
        return asked(numerics, messages.LoadState(self.state, self.made))

    def compare(self, numerics: Numerics) -> messages.Compared:
        return asked(numerics, messages.CompareStep(self.made))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def asked(numerics: Numerics, request: messages.Request[Answer | messages.Failed]) -> Answer:
    answer = numerics.answer(cast(messages.StepRequest, request))
    assert isinstance(answer, request.answer())
    assert not isinstance(answer, messages.Failed)
    return answer


def apart(found: Mapping[str, messages.Sums]) -> dict[str, float]:
    """Relative to the reference's, by tensor."""
    return {name: (sums[2] / sums[0]) ** 0.5 for name, sums in found.items() if sums[0]}


def times_three(root: Any, call: Any, args: Any, kwargs: Any) -> Any:
    return 3 * call(*args, **kwargs)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_same_step_is_the_same_wherever_the_training_stood(files: Files, optimizer: str) -> None:
    files.reference(optimizer)
    with workbench(make_optimizer=OPTIMIZERS[optimizer]) as bench:
        bench.train(7)
        numerics = Numerics(bench.training)
        files.load(numerics)
        bench.train(1)
        found = files.compare(numerics)
    assert len(apart(found.gradient)) == len(apart(found.update)) == 6
    assert not any(apart(found.gradient).values())
    assert not any(apart(found.update).values())


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.label)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_update_is_from_the_references_gradient(files: Files, optimizer: str, plan: Plan) -> None:
    """However much the own gradient, which is compared by itself, is off."""
    files.reference(optimizer)
    with workbench(make_optimizer=OPTIMIZERS[optimizer]) as bench:
        bench.train(2)
        bench.switchboard.switch(plan)
        numerics = Numerics(bench.training)
        files.load(numerics)
        bench.training.forward_wrappers["three"] = times_three
        bench.train(1)
        found = files.compare(numerics)
    assert min(apart(found.gradient).values()) > 0.5
    assert max(apart(found.update).values()) < 1e-5


def test_a_batch_is_evaluated_in_both_precisions_where_the_plan_lowers_evaluations(files: Files) -> None:
    files.reference("SGD")
    with workbench(make_optimizer=OPTIMIZERS["SGD"]) as bench:
        bench.train(2)
        bench.switchboard.switch(Plan({"evaluation_bf16": {}}))
        numerics = Numerics(bench.training)
        wrappers = list(bench.training.forward_wrappers)
        files.load(numerics)
        bench.train(1)
        found = files.compare(numerics)
        assert list(bench.training.forward_wrappers) == wrappers
        assert all(module.training for module in bench.model.modules())
        (proof,) = bench.switchboard.proofs()
    assert found.evaluation is not None
    assert 0.0 < found.evaluation < 0.03
    assert not any(apart(found.gradient).values()), "the training is what it is without"
    assert proof.evidence.startswith("0 passes"), "it is no evaluation of the script's"


def test_no_batch_is_evaluated_where_the_plan_leaves_evaluations_alone(files: Files) -> None:
    files.reference("SGD")
    with workbench(make_optimizer=OPTIMIZERS["SGD"]) as bench:
        bench.train(2)
        numerics = Numerics(bench.training)
        files.load(numerics)
        bench.train(1)
        assert files.compare(numerics).evaluation is None


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_after_the_checked_step_nothing_of_ours_is_left(files: Files, optimizer: str) -> None:
    files.reference(optimizer)
    with workbench(make_optimizer=OPTIMIZERS[optimizer]) as bench:
        bench.train(2)
        numerics = Numerics(bench.training)
        files.load(numerics)
        bench.train(1)
        files.compare(numerics)
        hooks: Any = bench.optimizer._optimizer_step_pre_hooks
        assert not hooks
        checked = bench.bits(), bench.train(3)
    with workbench(make_optimizer=OPTIMIZERS[optimizer]) as plain:
        plain.train(3)
        plain.train(1)
        assert (plain.bits(), plain.train(3)) == checked


def test_the_first_step_needs_no_state(files: Files) -> None:
    with workbench() as bench:
        bench.train(1)
        asked(Numerics(bench.training), messages.RecordStep(files.made, 0))
    with workbench() as bench:
        bench.training.forward_wrappers["three"] = times_three
        bench.train(1)
        found = files.compare(Numerics(bench.training))
    assert min(apart(found.gradient).values()) > 0.5
    assert not found.update


def test_a_closure_keeps_its_gradients_and_no_update_is_compared(files: Files) -> None:
    """They come only while the optimizer is stepping."""
    files.reference("SGD")
    with workbench(make_optimizer=OPTIMIZERS["SGD"]) as bench:
        bench.train(2)
        numerics = Numerics(bench.training)
        files.load(numerics)

        def closure() -> Any:
            bench.optimizer.zero_grad()
            loss = bench.model(torch.ones(2, 3, 8, 8)).sum()
            loss.backward()
            return loss

        bench.optimizer.step(closure)
        found = files.compare(numerics)
    assert min(apart(found.gradient).values()) > 0
    assert not found.update


def test_how_far_the_training_had_departed_is_told(files: Files) -> None:
    files.reference("Adam", steps=3)
    with workbench(make_optimizer=OPTIMIZERS["Adam"]) as bench:
        bench.train(3)
        numerics = Numerics(bench.training)
        assert not any(apart(files.load(numerics).since).values())
        bench.train(2)
        departed = files.load(numerics)
        assert set(departed.since) == {"parameters", "buffers", "exp_avg", "exp_avg_sq"}
        assert apart(departed.since)["exp_avg"] > 0.01
        assert departed.counts[0] == "step of 0.0.weight"


class Bounded(torch.nn.Sequential):
    """Keeps bounds that are infinite, as masks of attention are."""

    def __init__(self) -> None:
        super().__init__(small_cnn())
        self.register_buffer("bounds", torch.tensor([0.0, math.inf, -math.inf]))


@pytest.mark.attack("truth")
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize(("bound", "held"), [(math.inf, True), (7.0, False)], ids=["the same", "another"])
def test_infinity_that_stays_is_no_change(steps: int, bound: float, held: bool, files: Files) -> None:
    files.reference("Adam", steps, Bounded)
    with workbench(make_model=Bounded, make_optimizer=OPTIMIZERS["Adam"]) as bench:
        numerics = Numerics(bench.training)
        bench.train(steps)
        departed = files.load(numerics).since
        bench.train(1)
        found = files.compare(numerics).buffers
        bench.model.bounds[1] = bound  # type: ignore[operator]
        later = files.load(numerics).since["buffers"]
    assert all(math.isfinite(number) for sums in (*departed.values(), *found.values()) for number in sums)
    assert math.isfinite(later[2]) is held


def test_an_optimizer_that_began_again_is_told(files: Files) -> None:
    files.reference("SGD", steps=3)
    with workbench(make_optimizer=OPTIMIZERS["SGD"]) as bench:
        bench.train(3)
        bench.optimizer.state.clear()
        assert files.load(Numerics(bench.training)).counts[0] == "momentum_buffer of 0.0.weight"


def test_plain_numbers_of_an_optimizer_are_compared_as_numbers(files: Files) -> None:
    """LBFGS keeps the loss among its state: rounding may change it."""
    files.reference("Adam", steps=3)
    with workbench(make_optimizer=OPTIMIZERS["Adam"]) as bench:
        bench.train(3)
        first = next(iter(bench.optimizer.state.values()))
        first["prev_loss"], first["func_evals"] = 0.5, 7
        numerics = Numerics(bench.training)
        asked(numerics, messages.SaveState(files.state))
        first["prev_loss"] = 0.5001
        found = files.load(numerics)
        assert apart(found.since)["prev_loss"] == pytest.approx(2e-4, rel=1e-3)
        assert not found.counts
        first["func_evals"] = 8
        assert list(files.load(numerics).counts) == ["func_evals of 0.0.weight"]


def test_gradients_that_a_scaler_leaves_to_the_optimizer_are_compared_as_they_are(files: Files) -> None:
    """A fused optimizer is given scaled gradients, and the scale."""
    files.reference("SGD")
    with workbench(make_optimizer=lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, fused=True)) as bench:
        bench.train(2)
        numerics = Numerics(bench.training)
        files.load(numerics)
        inputs, labels = next(iter(bench.loader))
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        bench.optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(bench.model(inputs), labels)
        torch.autograd.backward(scaler.scale(loss))
        scaler.step(bench.optimizer)
        found = files.compare(numerics)
    assert max(apart(found.gradient).values()) < 1e-5
    assert max(apart(found.update).values()) < 1e-4


def test_no_room_is_a_reason_not_to_compare(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(0, 0, 1000))
    with workbench() as bench:
        bench.train(1)
        answer = Numerics(bench.training).answer(messages.SaveState(files.state))
    assert isinstance(answer, messages.Failed)
    assert "do not fit where temporary files go" in answer.reason


def test_a_folder_that_is_gone_is_one_too(files: Files, tmp_path: Path) -> None:
    with workbench() as bench:
        bench.train(1)
        answer = Numerics(bench.training).answer(messages.SaveState(str(tmp_path / "no" / "state")))
    assert isinstance(answer, messages.Failed)
    assert "could not be written" in answer.reason


def test_a_model_of_other_parameters_cannot_be_compared(files: Files) -> None:
    files.reference("Adam")
    with workbench() as bench:
        bench.train(1)
        bench.model.add_module("more", torch.nn.Linear(4, 4))
        answer = Numerics(bench.training).answer(messages.LoadState(files.state, files.made))
    assert isinstance(answer, messages.Failed)


def test_a_root_that_came_since_the_checked_step_is_left_out_of_the_departure(
    files: Files, tmp_path: Path
) -> None:
    """Models that are trained later have no start to depart from."""
    later, then = torch.nn.Linear(2, 2), str(tmp_path / "then")
    with workbench() as bench:
        numerics = Numerics(bench.training)
        bench.train(3)
        asked(numerics, messages.SaveState(files.state))
        bench.train(1)
        asked(numerics, messages.RecordStep(files.made, 0))
        bench.training.add_root(later)
        bench.train(2)
        asked(numerics, messages.SaveState(then))
    with workbench() as bench:
        numerics = Numerics(bench.training)
        bench.train(3)
        files.load(numerics)
        bench.train(1)
        files.compare(numerics)
        bench.training.add_root(later)
        bench.train(2)
        departed = asked(numerics, messages.LoadState(then, files.made))
    assert departed.counts == ()
    assert departed.since["parameters"][2] == 0.0
