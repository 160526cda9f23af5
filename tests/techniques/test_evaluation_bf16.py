"""Evaluations in lower precision: what they return, what is left alone, and that nothing else changes."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hasten.bench.guard.single_steps import ROUNDING, ROUNDING_TIMES
from hasten.inside.observing.uses import EVALUATES_IN_TRAINING_MODE, LOWERS_EVALUATIONS
from hasten.inside.random_state import fingerprint
from hasten.inside.techniques.evaluation_bf16 import EvaluationBf16
from hasten.inside.techniques.exclusion import within
from hasten.inside.techniques.support.lowered_evaluations import MOST, compare
from hasten.inside.training import NotApplicable
from hasten.records.observation import Step
from hasten.records.plan import BASELINE, Plan
from hasten.records.whole_run import Part, WatchedRun
from hasten.testing.workbench import Workbench, workbench

from .made_up import facts, machine, root

PLAN = Plan({"evaluation_bf16": {}})
BOTH = Plan({"bf16": {}, "evaluation_bf16": {}})
INPUTS = torch.linspace(-1, 1, 64).reshape(4, 16)
FULL, LOWERED = torch.float32, torch.bfloat16

Form = Callable[["Model", Tensor, Tensor], Any]


class Model(nn.Module):
    """Notes in which type its layer computes; what it returns is made of that by its form."""

    seen: Tensor

    def __init__(self, form: Form = lambda model, output, inputs: output) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.layer = nn.Linear(16, 16)
        self.register_buffer("seen", torch.zeros(()))
        self.form = form
        self.computed_in: list[torch.dtype] = []
        self.passes = 0

    def forward(self, inputs: Tensor, cache: object = None) -> Any:
        output: Tensor = self.layer(inputs)
        self.computed_in.append(output.dtype)
        self.passes += 1
        return self.form(self, output, inputs)


@pytest.fixture
def bench() -> Iterator[Workbench]:
    with workbench() as made:
        yield made


@pytest.fixture
def optimizers() -> list[torch.optim.Optimizer]:
    """Which hold what is trained: hasten holds neither."""
    return []


@pytest.fixture
def under(bench: Workbench, optimizers: list[torch.optim.Optimizer]) -> Callable[..., Model]:
    def put(model: Model, plan: Plan = PLAN) -> Model:
        """In eval mode; found as a root by a pass before."""
        optimizers.append(torch.optim.SGD(model.parameters(), lr=0.1))
        model(INPUTS.clone())
        bench.switchboard.switch(plan)
        model.eval()
        model.computed_in.clear()
        model.passes = 0
        return model

    return put


def evaluated(model: Model, times: int = 1) -> Any:
    """What the last of this many passes returned."""
    with torch.no_grad():
        return [model(INPUTS.clone()) for _ in range(times)][-1]


def evidence(bench: Workbench) -> str:
    return bench.switchboard.proofs()[-1].evidence


def is_effective(bench: Workbench) -> bool:
    return bench.switchboard.proofs()[-1].effective


# ---- what the script sees
def test_what_was_done_for_a_model_counts_when_the_script_has_dropped_it(
    bench: Workbench, under: Callable[..., Model], optimizers: list[torch.optim.Optimizer]
) -> None:
    """A script that does all its work in ``main()`` ends with nothing left of it."""
    evaluated(under(Model()))
    optimizers.clear()
    gc.collect()
    assert not bench.training.roots
    assert is_effective(bench)


def test_why_a_model_was_left_alone_is_told_when_the_script_has_dropped_it(
    bench: Workbench, under: Callable[..., Model], optimizers: list[torch.optim.Optimizer]
) -> None:
    evaluated(under(Model(lambda m, o, i: o + torch.rand(o.shape))))
    optimizers.clear()
    gc.collect()
    assert not bench.training.roots
    assert not is_effective(bench)
    assert "draws random numbers" in evidence(bench)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_what_it_returns_is_float32_and_close(
    bench: Workbench, under: Callable[..., Model], context: Callable[[], Any]
) -> None:
    plain = evaluated(Model().eval())
    model = under(Model())
    with context():
        ours = model(INPUTS)
    assert model.computed_in == [LOWERED]
    assert ours.dtype is FULL
    assert 0.0 < float((ours - plain).norm() / plain.norm()) < MOST
    assert is_effective(bench)
    assert evidence(bench).startswith("1 passes of evaluations under autocast; in 1 that were compared")


def test_the_proof_needs_an_evaluation(bench: Workbench, under: Callable[..., Model]) -> None:
    under(Model())
    assert not is_effective(bench)


def test_it_is_taken_off(bench: Workbench, under: Callable[..., Model]) -> None:
    model = under(Model())
    bench.switchboard.switch(BASELINE)
    evaluated(model)
    assert model.computed_in == [FULL]
    assert not bench.training.evaluation_departures


@pytest.mark.parametrize("case", ["rollout", "a part that trains", "gradients"])
def test_passes_that_may_be_of_a_training_are_left_alone(
    bench: Workbench, under: Callable[..., Model], case: str
) -> None:
    model = under(Model())
    if case == "rollout":
        model.train()
    if case == "a part that trains":
        model.layer.train()
    with torch.set_grad_enabled(case == "gradients"):
        model(INPUTS)
    assert model.computed_in == [FULL]
    assert not is_effective(bench)


def test_in_combination_with_bf16_nothing_is_lowered_twice(
    bench: Workbench, under: Callable[..., Model]
) -> None:
    alone = evaluated(under(Model()))
    bench.switchboard.switch(BASELINE)
    model = under(Model(), BOTH)
    assert torch.equal(evaluated(model), alone)
    model.train()
    model(INPUTS).sum().backward()
    training, evaluations = bench.switchboard.proofs()
    assert training.evidence.startswith("1 forward passes under autocast")
    assert evaluations.evidence.startswith("1 passes of evaluations")
    assert training.effective
    assert evaluations.effective


@pytest.mark.parametrize("first", ["evaluation_bf16", "graph_free_evaluation"])
def test_evaluations_that_forgot_no_grad_are_lowered_once_they_record_no_graph(
    bench: Workbench, under: Callable[..., Model], optimizers: list[torch.optim.Optimizer], first: str
) -> None:
    other = {"evaluation_bf16": "graph_free_evaluation", "graph_free_evaluation": "evaluation_bf16"}[first]
    model = under(Model(), Plan({first: {}, other: {}}))
    model(INPUTS)
    model.train()
    model(INPUTS).sum().backward()
    optimizers[-1].step()
    model.eval()
    output = model(INPUTS)
    assert model.computed_in == [FULL, FULL, LOWERED]
    assert output.requires_grad
    assert output.dtype is FULL


class Loss(nn.Module):
    """As in sentence-transformers: what is called is the loss, and it stays in training mode."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model, self.distance = model, nn.MSELoss()

    def forward(self, inputs: Tensor) -> Any:
        return self.distance(self.model(inputs), inputs)


@pytest.mark.parametrize("evaluates", [True, False])
def test_a_model_that_a_loss_holds_is_evaluated_in_its_own_mode(
    bench: Workbench, optimizers: list[torch.optim.Optimizer], evaluates: bool
) -> None:
    model = Model()
    loss = Loss(model)
    optimizers.append(torch.optim.SGD(loss.parameters(), lr=0.1))
    loss(INPUTS).backward()
    bench.switchboard.switch(PLAN)
    model.train(not evaluates)
    with torch.no_grad():
        loss(INPUTS)
    assert bench.training.roots == [loss]
    assert model.computed_in[-1] == (LOWERED if evaluates else FULL)
    assert bench.training.modes_without_gradients == {not evaluates}
    loss.eval()
    model.train()
    bench.training.modes_without_gradients.clear()
    with torch.no_grad():
        loss(INPUTS)
    assert bench.training.modes_without_gradients == {False}


def test_a_teachers_passes_in_steps_are_no_evaluations(bench: Workbench) -> None:
    teacher, student = Model().requires_grad_(False).eval(), Model()
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    for plan in (BASELINE, PLAN):
        bench.switchboard.switch(plan)
        evaluated(teacher)
        loss: Any = nn.functional.mse_loss(student(INPUTS), INPUTS)
        loss.backward()
        optimizer.step()
    assert teacher.computed_in == [FULL, FULL]
    student.eval()
    evaluated(student)
    assert student.computed_in[-1] == LOWERED


def test_the_scripts_own_autocast_is_respected(bench: Workbench, under: Callable[..., Model]) -> None:
    model = under(Model())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert evaluated(model).dtype is LOWERED  # as the script would have had it
    assert not is_effective(bench)


# ---- what is left alone
def rounded_away(output: Tensor) -> Tensor:
    """Of each number what two decimals leave over: little, and no digit of it holds in bfloat16."""
    return output.float() - output.float().round(decimals=2)


def keep(model: Model, output: Tensor) -> Tensor:
    vars(model)["last"] = output
    return output


def fail_in_bfloat16(output: Tensor) -> Tensor:
    if output.dtype is LOWERED:
        raise RuntimeError("no kernel")
    return output


LEFT_ALONE: dict[str, tuple[Form, str]] = {
    "draws": (lambda m, o, i: o + torch.rand(o.shape), "draws random numbers"),
    "counts": (lambda m, o, i: o + 0 * m.seen.add_(1), "the model changes seen in an evaluation"),
    "writes": (lambda m, o, i: (o, i.mul_(2))[0], "writes into what it is given"),
    "keeps": (lambda m, o, i: keep(m, o), "the model keeps Model.last of a pass"),
    "object": (lambda m, o, i: SimpleNamespace(logits=o), "a SimpleNamespace, which may hold tensors"),
    "classes": (lambda m, o, i: o.argmax(1), "returns no floating-point numbers"),
    "codes": (lambda m, o, i: {"x": o, "codes": (1e5 * o).long()}, "whole numbers that the model returns"),
    "cancels": (lambda m, o, i: rounded_away(o), "what the model returns departs by"),
    "shape": (lambda m, o, i: o[: 1 + (o.dtype is FULL)], "has another shape in lower precision"),
    "fails": (lambda m, o, i: fail_in_bfloat16(o), "fails with RuntimeError: no kernel"),
}


@pytest.mark.parametrize("case", LEFT_ALONE)
def test_what_cannot_be_lowered_is_left_as_it_is(
    bench: Workbench, under: Callable[..., Model], case: str
) -> None:
    form, reason = LEFT_ALONE[case]
    plain = evaluated(Model(form).eval(), times=2)
    model = under(Model(form))
    Model()  # which leaves the RNG states as it does above
    ours = evaluated(model, times=2)
    assert model.computed_in == [FULL, FULL]
    assert not is_effective(bench)
    assert reason in evidence(bench)
    for one, other in zip(tensors(ours), tensors(plain), strict=True):
        assert torch.equal(one, other)


def tensors(output: Any) -> list[Tensor]:
    if isinstance(output, SimpleNamespace):
        output = output.logits
    return list(output.values()) if isinstance(output, dict) else [output]


def test_only_the_pass_writes_into_objects_that_are_given(
    bench: Workbench, under: Callable[..., Model]
) -> None:
    """A cache of keys and values, as in generation; other passes are lowered all the same."""
    model = under(Model())
    with torch.no_grad():
        model(INPUTS, cache=SimpleNamespace())
        model(INPUTS)
    assert model.computed_in == [FULL, LOWERED]


def test_hooks_see_what_they_would_see(bench: Workbench, under: Callable[..., Model]) -> None:
    model, seen = under(Model()), list[torch.dtype]()
    model.layer.register_forward_hook(lambda module, given, output: seen.append(output.dtype))
    evaluated(model)
    assert seen == [FULL]


def test_an_object_that_comes_later_is_made_in_full_precision(
    bench: Workbench, under: Callable[..., Model]
) -> None:
    model = under(Model(lambda m, o, i: SimpleNamespace(logits=o) if m.passes > 2 else o))
    evaluated(model, times=2)
    assert evaluated(model).logits.dtype is FULL
    assert "SimpleNamespace" in evidence(bench)


def test_ranks_of_the_script_are_left_alone(bench: Workbench) -> None:
    bench.training.averages_gradients = True
    with pytest.raises(NotApplicable, match="ranks"):
        bench.switchboard.switch(PLAN)


# ---- comparing
def test_a_comparison_leaves_nothing_behind(bench: Workbench, under: Callable[..., Model]) -> None:
    model = under(Model())
    streams = fingerprint(torch)
    evaluated(model, times=10)
    assert fingerprint(torch) == streams
    assert model.computed_in == [LOWERED] * 10
    assert model.passes == 10
    assert not any(part.training for part in model.modules())
    assert "in 2 that were compared" in evidence(bench)


def test_a_model_is_looked_at_again_as_it_trains(bench: Workbench, under: Callable[..., Model]) -> None:
    model = under(Model())
    evaluated(model, times=2)
    model.form = lambda m, o, i: rounded_away(o)
    evaluated(model, times=8)
    assert model.computed_in == [LOWERED] * 8 + [FULL] * 2
    assert "8 passes of evaluations" in evidence(bench)
    assert "departs by" in evidence(bench)
    assert not is_effective(bench)


def test_what_is_allowed_is_what_the_guard_allows_a_gradient_under_bf16() -> None:
    assert ROUNDING_TIMES * ROUNDING["bfloat16"] == MOST


NUMBERS = torch.linspace(1, 2, 100)


@pytest.mark.parametrize("hidden", [1e9, -1e9])
def test_a_mask_does_not_hide_other_numbers(hidden: float) -> None:
    def masked(numbers: Tensor) -> Tensor:
        return torch.cat([numbers, torch.tensor([hidden])])

    assert compare(torch, masked(1.1 * NUMBERS), masked(NUMBERS)).departure == pytest.approx(0.1, rel=1e-5)


def test_infinite_numbers_must_be_the_same() -> None:
    masked = torch.cat([NUMBERS, torch.tensor([-math.inf])])
    assert compare(torch, masked, masked).departure == 0.0
    assert compare(torch, -masked, masked).why_not
    assert compare(torch, masked.nan_to_num(), masked).why_not
    assert compare(torch, masked * math.nan, masked).why_not


def test_the_tensor_that_departs_farthest_counts() -> None:
    large, small = 1e3 * NUMBERS, {"small": 1e-3 * NUMBERS}
    found = compare(torch, (large, {"small": 1.2 * small["small"]}), (large, small))
    assert found.departure == pytest.approx(0.2, rel=1e-5)


# ---- on paper
def test_it_asks_for_what_bf16_asks_for() -> None:
    assert EvaluationBf16.refuse(facts()) == []
    weak = machine(cpu_flags=("avx2",))
    assert "no bfloat16 instructions" in EvaluationBf16.refuse(facts(weak))[0]
    assert EvaluationBf16.refuse(facts(weak, roots=(root(devices=("cuda:0",)),))) == []
    assert EvaluationBf16.refuse(facts(roots=(root(dtypes=("float64",)),)))


def test_a_script_is_refused_of_which_only_steps_were_seen() -> None:
    (reason,) = EvaluationBf16.refuse(facts(steps=(Step(0.1, 8, 0, 0, {}, (), (0, 1, 1)),)))
    assert "not known how" in reason


@pytest.mark.parametrize(("evaluations", "refused"), [(0, True), (2, False)])
def test_a_script_that_was_not_seen_to_evaluate_is_refused(evaluations: int, refused: bool) -> None:
    """A copy of the model that makes pictures is not one of those that are trained."""
    run = WatchedRun(10.0, False, (Part("evaluation", 1.0, evaluations),), epochs=1)
    assert bool(EvaluationBf16.refuse(facts(run=run))) is refused


@pytest.mark.parametrize("evaluations", [0, 2])
def test_a_script_that_evaluates_in_training_mode_is_refused(evaluations: int) -> None:
    """A target network's passes in the steps alone tell nothing of evaluations that are still to come."""
    run = WatchedRun(10.0, False, (Part("evaluation", 1.0, evaluations),)) if evaluations else None
    reasons = EvaluationBf16.refuse(facts(run=run, uses=(EVALUATES_IN_TRAINING_MODE,)))
    assert any("evaluates in training mode" in reason for reason in reasons) is bool(evaluations)


@pytest.mark.parametrize("uses", ["autocast", LOWERS_EVALUATIONS])
def test_a_script_that_lowers_its_evaluations_itself_is_refused(uses: str) -> None:
    (reason,) = EvaluationBf16.refuse(facts(uses=(uses,)))
    assert "autocast" in reason


def test_a_compiled_model_is_not_compiled_anew() -> None:
    (reason,) = EvaluationBf16.refuse(facts(uses=("compile",)))
    assert "compiled once more" in reason


@pytest.mark.parametrize(("other", "together"), [("bf16", True), ("tf32", True), ("matmul_precision", False)])
def test_what_it_goes_with(other: str, together: bool) -> None:
    assert (within(Plan({"evaluation_bf16": {}, other: {}})) is None) is together


def test_rollouts_keep_their_precision() -> None:
    """A loss is computed of what they return."""
    run = WatchedRun(10.0, False, (Part("steps", 10.0, 30),), rollouts=2)
    assert EvaluationBf16.refuse(facts(run=run)) == [
        "passes in eval mode collect what is trained on: the training would change"
    ]
