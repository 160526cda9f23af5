"""Lower precision inside the forward pass, and nowhere else."""

from __future__ import annotations

import copy
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from hasten.inside.techniques.bf16 import Bf16
from hasten.inside.techniques.support.lowering import LoweredForward, in_float32
from hasten.records.plan import BASELINE, Plan
from hasten.testing.workbench import Workbench, workbench

from .made_up import facts, machine, root

PLAN = Plan({"bf16": {}})


class Model(nn.Module):
    """Notes in which type its layer computes; answers in the form it is made for."""

    def __init__(self, form: Callable[[torch.Tensor], Any] = lambda output: output) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.form = form
        self.computed_in: list[torch.dtype] = []

    def forward(self, inputs: torch.Tensor) -> Any:
        output: torch.Tensor = self.layer(inputs)
        self.computed_in.append(output.dtype)
        return self.form(output)


@pytest.fixture
def bench() -> Iterator[Workbench]:
    with workbench() as made:
        yield made


INPUTS = torch.ones(2, 4)


def under_bf16(bench: Workbench, model: nn.Module) -> torch.optim.Optimizer:
    """Let the model be found as a root, then switch on."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(INPUTS)
    bench.switchboard.switch(PLAN)
    return optimizer


def test_transforms_of_functions_go_on_and_prove_it_by_what_comes_out(bench: Workbench) -> None:
    """torch.func does not let hooks see what autograd saves."""
    model = Model()
    optimizer = under_bf16(bench, model)

    def value(x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = torch.func.functional_call(
            model, dict(model.named_parameters()), (x.unsqueeze(0),)
        )
        assert out.dtype is torch.float32
        return out.sum()

    slope = torch.func.vmap(torch.func.grad(value))(INPUTS)
    assert slope.dtype is torch.float32
    assert model.computed_in[-1] is torch.bfloat16
    slope.pow(2).mean().backward()
    optimizer.step()
    (proof,) = bench.switchboard.proofs()
    assert proof.effective


@dataclass
class Output:
    logits: torch.Tensor
    hidden: tuple[torch.Tensor, ...] = ()
    loss: torch.Tensor | None = None


@dataclass(frozen=True)
class Frozen:
    logits: torch.Tensor


@dataclass
class ModelOutput(OrderedDict[str, Any]):
    """As in transformers: a dataclass that is an ordered dict too."""

    logits: torch.Tensor

    def __post_init__(self) -> None:
        self["logits"] = self.logits


@dataclass(slots=True)
class Slotted:
    logits: torch.Tensor


class Batch(dict[str, Any]):
    """With something besides its items."""

    name = ""

    @classmethod
    def made(cls, logits: torch.Tensor) -> Batch:
        batch = cls(logits=logits)
        batch.name = "kept"
        return batch


Pair = namedtuple("Pair", ["first", "second"])

FORMS: dict[str, tuple[Callable[[torch.Tensor], Any], Callable[[Any], list[torch.Tensor]]]] = {
    "a tensor": (lambda t: t, lambda o: [o]),
    "a tuple": (lambda t: (t, 2 * t), list),
    "a list": (lambda t: [t], list),
    "a dict": (
        lambda t: {"logits": t, "more": {"hidden": [t]}},
        lambda o: [o["logits"], o["more"]["hidden"][0]],
    ),
    "a named tuple": (lambda t: Pair(t, "text"), lambda o: [o.first]),
    "a dict of another class": (Batch.made, lambda o: [o["logits"]] if o.name == "kept" else []),
    "a dataclass with slots": (lambda t: Slotted(t), lambda o: [o.logits]),
    "a dataclass": (lambda t: Output(t, (t, t)), lambda o: [o.logits, *o.hidden]),
    "a frozen dataclass": (lambda t: Frozen(t), lambda o: [o.logits]),
    "a model output": (lambda t: ModelOutput(t), lambda o: [o.logits, o["logits"]]),
    "a dataclass in a tuple": (lambda t: (Output(t),), lambda o: [o[0].logits]),
}


@pytest.mark.parametrize("form", FORMS)
def test_outputs_come_back_in_float32(bench: Workbench, form: str) -> None:
    make, tensors_of = FORMS[form]
    model = Model(make)
    optimizer = under_bf16(bench, model)
    output = model(INPUTS)
    assert model.computed_in == [torch.float32, torch.bfloat16]
    assert type(output) is type(make(INPUTS))
    assert {tensor.dtype for tensor in tensors_of(output)} == {torch.float32}
    total: Any = sum(tensor.sum() for tensor in tensors_of(output))
    total.backward()
    gradient = model.layer.weight.grad
    assert gradient is not None
    assert gradient.dtype is torch.float32
    assert len(optimizer.param_groups) == 1


def test_outputs_of_other_types_are_handed_on_as_they_are() -> None:
    indices, half, words = torch.arange(3), torch.ones(2, dtype=torch.float16), Output(INPUTS)
    output = in_float32(
        torch, {"indices": indices, "half": half, "text": "a", "none": None, "kind": Output}, torch.bfloat16
    )
    assert output["indices"] is indices
    assert output["half"] is half
    assert (output["text"], output["none"], output["kind"]) == ("a", None, Output)
    assert in_float32(torch, words, torch.bfloat16).logits is INPUTS


def test_a_models_own_record_is_not_written_into() -> None:
    own = Output(INPUTS.bfloat16())
    assert in_float32(torch, own, torch.bfloat16).logits.dtype is torch.float32
    assert own.logits.dtype is torch.bfloat16


def test_parameters_and_state_stay_in_float32(bench: Workbench) -> None:
    bench.train(1)
    bench.switchboard.switch(PLAN)
    bench.train(3)
    tensors = [*bench.model.parameters()]
    tensors += [value for held in bench.optimizer.state.values() for value in held.values()]
    assert {tensor.dtype for tensor in tensors} == {torch.float32}


def test_evaluation_is_untouched(bench: Workbench) -> None:
    model = Model()
    with torch.no_grad():
        before = model(INPUTS)
    under_bf16(bench, model)
    for context in (torch.no_grad(), torch.inference_mode()):
        with context:
            assert torch.equal(model(INPUTS), before)
    assert torch.bfloat16 not in model.computed_in


def test_a_teachers_passes_are_lowered_with_its_students_steps(bench: Workbench) -> None:
    """And are in full precision where the student is evaluated."""
    teacher, student = Model().requires_grad_(False).eval(), Model()
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    for plan in (BASELINE, PLAN):
        bench.switchboard.switch(plan)
        for context in (torch.no_grad(), torch.inference_mode()):
            with context:
                aim = teacher(INPUTS)
            assert aim.dtype == torch.float32
            loss: Any = nn.functional.mse_loss(student(INPUTS), aim.clone())
            loss.backward()
            optimizer.step()
    student.eval()
    with torch.no_grad():
        teacher(INPUTS)
        student(INPUTS)
    full, lowered = torch.float32, torch.bfloat16
    assert teacher.computed_in == [full, full, lowered, lowered, full]
    assert student.computed_in == [full, full, lowered, lowered, full]


def test_a_network_that_a_loss_looks_through_is_lowered(bench: Workbench) -> None:
    judge, model = Model().requires_grad_(False), Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for plan in (BASELINE, PLAN):
        bench.switchboard.switch(plan)
        loss: Any = nn.functional.mse_loss(judge(model(INPUTS)), judge(INPUTS))
        loss.backward()
        optimizer.step()
    assert judge.computed_in == [torch.float32] * 2 + [torch.bfloat16] * 2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_scripts_own_autocast_is_respected(bench: Workbench, dtype: torch.dtype) -> None:
    model = Model()
    under_bf16(bench, model)
    with torch.autocast("cpu", dtype=dtype):
        output = model(INPUTS)
    assert output.dtype is dtype  # as the script would have had it
    (proof,) = bench.switchboard.proofs()
    assert not proof.effective


def test_removal_ends_it(bench: Workbench) -> None:
    model = Model()
    under_bf16(bench, model)
    model(INPUTS)
    bench.switchboard.switch(BASELINE)
    model(INPUTS)
    assert model.computed_in[1:] == [torch.bfloat16, torch.float32]
    assert not model.layer._forward_hooks


def test_a_forward_pass_that_raises_leaves_no_hook_and_no_autocast(bench: Workbench) -> None:
    model = Model()
    under_bf16(bench, model)
    with pytest.raises(RuntimeError):
        model(torch.ones(2, 5))
    assert not model.layer._forward_hooks
    assert not torch.is_autocast_enabled("cpu")


def test_the_proof_holds_when_a_layer_was_lowered(bench: Workbench) -> None:
    model = Model()
    under_bf16(bench, model)
    assert not bench.switchboard.proofs()[0].effective
    for _ in range(2):
        model(INPUTS)
    (proof,) = bench.switchboard.proofs()
    assert proof.effective
    assert proof.evidence == "2 forward passes under autocast; tensors in bfloat16 in the first: 1"


class Sum(nn.Module):
    """Nothing that autocast lowers."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return (inputs * self.weight).sum(dim=1)


class NotLowered(Model):
    """A layer that autocast is told to leave alone."""

    def forward(self, inputs: torch.Tensor) -> Any:
        with torch.autocast("cpu", enabled=False):
            return super().forward(inputs)


def test_layers_are_watched_in_one_pass_only(bench: Workbench) -> None:
    model, hooks = NotLowered(), list[int]()

    def form(output: torch.Tensor) -> torch.Tensor:
        hooks.append(len(model.layer._forward_hooks))
        return output

    model.form = form
    under_bf16(bench, model)
    for _ in range(4):
        model(INPUTS)
    assert hooks == [0, 0, 1, 0, 0]


@pytest.mark.parametrize("kind", [Sum, NotLowered])
def test_the_proof_fails_for_a_model_without_lowered_layers(bench: Workbench, kind: type[nn.Module]) -> None:
    model = kind()
    under_bf16(bench, model)
    for _ in range(3):
        model(INPUTS)
    (proof,) = bench.switchboard.proofs()
    assert not proof.effective
    assert proof.evidence.endswith("tensors in bfloat16 in the first: 0")


class Checkpointed(Model):
    """What it computes is computed again in the backward pass."""

    reentrant = False

    def forward(self, inputs: torch.Tensor) -> Any:
        return checkpoint(super().forward, inputs.requires_grad_(), use_reentrant=self.reentrant)


@pytest.mark.parametrize("reentrant", [True, False])
def test_the_proof_holds_where_activations_are_computed_again(bench: Workbench, reentrant: bool) -> None:
    """As by Hugging Face's gradient_checkpointing: nothing is saved that a hook would see."""
    model = Checkpointed()
    model.reentrant = reentrant
    under_bf16(bench, model)
    for lowered in (0, 1, 1):
        loss: Any = model(INPUTS.clone())
        loss.sum().backward()
        (proof,) = bench.switchboard.proofs()
        assert proof.evidence.endswith(f"tensors in bfloat16 in the first: {lowered}")
    assert proof.effective
    assert not model.layer._forward_hooks


# ---- what a script reads besides outputs
class Keeping(Model):
    """Keeps something of each pass in several places."""

    def __init__(self) -> None:
        super().__init__()
        self.own = torch.ones(4, dtype=torch.bfloat16)
        self.several: list[torch.Tensor] = []
        self.by_name: dict[str, Any] = {}
        self.register_buffer("state", torch.zeros(2, 4))

    def forward(self, inputs: torch.Tensor) -> Any:
        hidden = self.layer(inputs)
        self.latest, self.pair = hidden, (hidden, "text")
        self.state = hidden.detach()
        self.several.append(hidden)
        self.by_name["first"] = [hidden]
        self.with_gradient = 2 * hidden
        self.with_gradient.retain_grad()
        return (self.with_gradient + self.own).sum()


def test_what_a_model_keeps_of_a_pass_is_in_float32(bench: Workbench) -> None:
    model = Keeping()
    several, by_name = model.several, model.by_name
    under_bf16(bench, model)
    for _ in range(3):
        model(INPUTS).backward()
        kept = [model.latest, model.pair[0], model.state, *several, *by_name["first"]]
        assert {tensor.dtype for tensor in kept} == {torch.float32}
        assert model.with_gradient.grad is not None
    assert (len(several), model.several is several, model.by_name is by_name) == (4, True, True)
    assert model.pair[1] == "text"
    assert model.own.dtype is torch.bfloat16, "the script's own choice"
    assert "state" in dict(model.named_buffers())


class LooksAtItself(Model):
    """By NumPy, which has no bfloat16: a codebook's use, a figure, a metric."""

    def forward(self, inputs: torch.Tensor) -> Any:
        output = super().forward(inputs)
        self.seen = [output.detach().numpy(), np.asarray(output.detach())]
        return output


def test_a_model_that_looks_at_its_tensors_by_numpy_finds_float32(bench: Workbench) -> None:
    model = LooksAtItself()
    under_bf16(bench, model)
    for _ in range(2):
        output = model(INPUTS)
        assert [array.dtype for array in model.seen] == [np.float32] * 2
        assert all((array == output.detach().numpy()).all() for array in model.seen)
        bench.switchboard.switch(BASELINE)
        with pytest.raises(TypeError):
            torch.ones(2, dtype=torch.bfloat16).numpy()
        bench.switchboard.switch(PLAN)
    half = torch.ones(2, dtype=torch.float16)
    assert half.numpy().dtype == np.float16


class Adapting(Model):
    """Trains itself within its forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.optimizer = torch.optim.SGD(self.layer.parameters(), lr=0.2)

    def forward(self, inputs: torch.Tensor) -> Any:
        for _ in range(4):
            loss = (self.layer(inputs) - inputs).pow(2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.detach()


def test_a_step_within_a_pass_is_seen_by_what_follows_it(bench: Workbench) -> None:
    model = Adapting()
    under_bf16(bench, model)
    before = copy.deepcopy(model.state_dict())
    ours = float(model(torch.eye(4)))
    bench.switchboard.switch(BASELINE)
    model.load_state_dict(before)
    assert ours == pytest.approx(float(model(torch.eye(4))), rel=0.05)


class Answer:
    def __init__(self, logits: torch.Tensor) -> None:
        self.logits = logits


def test_a_model_that_returns_an_object_of_its_own_class_is_left_alone(bench: Workbench) -> None:
    model = Model(Answer)
    under_bf16(bench, model)
    assert [model(INPUTS).logits.dtype for _ in range(3)] == [torch.float32] * 3
    assert model.computed_in == [torch.float32, torch.bfloat16, torch.float32, torch.float32]
    (proof,) = bench.switchboard.proofs()
    assert not proof.effective
    assert "returns a Answer, in which tensors would stay in lower precision" in proof.evidence


def test_objects_without_tensors_of_lower_precision_do_not_matter(bench: Workbench) -> None:
    model = Model(lambda output: (output, Answer(output.float())))
    under_bf16(bench, model)
    model(INPUTS)
    model(INPUTS)
    assert bench.switchboard.proofs()[0].effective


# ---- on paper
ARM = machine(architecture="aarch64", cpu_flags=("asimd",))


@pytest.mark.parametrize("flag", ["avx512_bf16", "amx_bf16", "bf16"])
def test_any_bfloat16_instruction_will_do(flag: str) -> None:
    assert Bf16.refuse(facts(machine(cpu_flags=("avx2", flag)))) == []


@pytest.mark.parametrize("where", [ARM, machine(cpu_flags=("avx2", "avx512f"))])
def test_a_processor_without_is_refused(where: Any) -> None:
    (reason,) = Bf16.refuse(facts(where))
    assert "no bfloat16 instructions" in reason


def test_on_a_gpu_the_processor_does_not_matter() -> None:
    assert Bf16.refuse(facts(ARM, roots=(root(devices=("cuda:0",)),))) == []


@pytest.mark.parametrize("dtypes", [("float64",), ("bfloat16", "float32"), ("float16",)])
def test_parameters_of_another_type_are_the_scripts_choice(dtypes: tuple[str, ...]) -> None:
    assert Bf16.refuse(facts(roots=(root(dtypes=dtypes),))) == ["parameters are not all float32"]


def test_a_script_with_autocast_of_its_own_is_refused() -> None:
    assert Bf16.refuse(facts(uses=("autocast",))) == ["the script already uses autocast"]


def test_all_reasons_are_given_at_once() -> None:
    assert len(Bf16.refuse(facts(ARM, roots=(root(dtypes=("float16",)),), uses=("autocast",)))) == 3


class Weighing(nn.Module):
    """Weighs a loss by a parameter, and computes no product."""

    def __init__(self) -> None:
        super().__init__()
        self.log_var = nn.Parameter(torch.zeros(()))

    def forward(self, loss: torch.Tensor) -> torch.Tensor:
        return loss * torch.exp(-self.log_var) + self.log_var


def test_the_proof_is_found_in_any_of_several_modules() -> None:
    """Which is called first under the technique depends on when it was put in force."""
    lowered, weigh, net = LoweredForward(torch, torch.bfloat16), Weighing(), nn.Linear(4, 4)
    lowered(weigh, weigh, (torch.ones(()),), {})
    assert lowered.lowered == 0
    lowered(net, net, (torch.ones(2, 4),), {})
    found = lowered.lowered
    assert found > 0
    lowered(net, net, (torch.ones(2, 4),), {})
    assert (lowered.lowered, lowered.calls) == (found, 3), "later ones are not watched"


@pytest.mark.parametrize("training", [True, False])
def test_what_hooks_see_in_eval_mode_is_as_the_script_has_it(training: bool) -> None:
    """As for a Grad-CAM, once all is trained."""
    with workbench() as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        bench.train(1)
        seen: list[torch.dtype] = []
        layer = next(part for part in bench.model.modules() if isinstance(part, torch.nn.Conv2d))
        layer.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
        bench.model.train(training)
        bench.model(torch.randn(2, 3, 8, 8)).sum().backward()
        assert seen == [torch.bfloat16 if training else torch.float32]
