"""The fused update where it can serve, and an optimizer as the script made it afterwards."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from hasten.inside.techniques.fused_optimizer import FusedOptimizer
from hasten.inside.training import NotApplicable
from hasten.records.plan import BASELINE, Plan
from hasten.testing.workbench import Workbench, workbench

from .made_up import facts, optimizer

PLAN = Plan({"fused_optimizer": {}})
OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "Adam": lambda p: torch.optim.Adam(p, lr=1e-2),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=1e-2, amsgrad=True),
    "SGD with momentum": lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9, nesterov=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=1e-2),
}


def flags(bench: Workbench) -> list[Any]:
    return [group["fused"] for group in bench.optimizer.param_groups]


def fused_updates(bench: Workbench) -> int:
    (proof,) = bench.switchboard.proofs()
    return int(proof.evidence.split()[0])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_losses_stay_and_every_update_is_fused(name: str) -> None:
    with workbench(make_optimizer=OPTIMIZERS[name]) as bench:
        bench.train(2)
        start = bench.snapshot()
        plain = bench.train(10)
        bench.restore(start)
        bench.switchboard.switch(PLAN)
        assert bench.train(10) == pytest.approx(plain, rel=1e-5)
        assert fused_updates(bench) == 10


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_it_can_be_on_from_the_first_step(name: str) -> None:
    with workbench(make_optimizer=OPTIMIZERS[name]) as bench:
        bench.switchboard.switch(PLAN)
        bench.train(3)
        assert fused_updates(bench) == 3
        bench.switchboard.switch(BASELINE)
        bench.train(3)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_removal_restores_the_optimizer(name: str) -> None:
    with workbench(make_optimizer=OPTIMIZERS[name]) as bench:
        bench.train(1)
        before = bench.bits()
        bench.switchboard.switch(PLAN)
        assert flags(bench) == [True]
        bench.switchboard.switch(BASELINE)
        assert bench.bits() == before
        assert not bench.optimizer._optimizer_load_state_dict_post_hooks
        assert not bench.optimizer._optimizer_state_dict_post_hooks


# ---- momentum that not all parameters have yet
def trained_in_turn(on: Plan, make: Callable[..., Any], scaled: bool = False) -> list[torch.Tensor]:
    """Layers that get gradients in some steps only; the first step's are infinite if they are ``scaled``."""
    with workbench() as bench:
        bench.train(1)
        torch.manual_seed(0)
        layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
        optimizer = make(layers.parameters())
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0, enabled=scaled)
        bench.switchboard.switch(on)
        for step, used in enumerate([(0,), (0, 1), (1,), (0, 1, 2), (0, 1, 2)]):
            optimizer.zero_grad()
            loss = torch.stack([layers[n](torch.ones(2, 3)).square().sum() for n in used]).sum()
            factor = float("inf") if scaled and not step else 1.0
            torch.autograd.backward(scaler.scale(loss * factor))
            scaler.step(optimizer)
            scaler.update()
        return [p.detach() for p in layers.parameters()]


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("dampening", [0.0, 0.5])
def test_layers_may_get_their_first_gradients_later_than_others(dampening: float, scaled: bool) -> None:
    """As where layers are thawed, tasks take turns or blocks are left out by chance."""

    def make(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, weight_decay=0.1, dampening=dampening)

    found = [trained_in_turn(on, make, scaled) for on in (BASELINE, PLAN)]
    for plain, fused in zip(*found, strict=True):
        assert torch.allclose(plain, fused, rtol=1e-6, atol=1e-7)


def test_several_groups_keep_their_own_settings() -> None:
    def make(parameters: Any) -> torch.optim.Optimizer:
        first, *rest = parameters
        return torch.optim.AdamW([{"params": [first], "lr": 1e-3}, {"params": rest, "weight_decay": 0.0}])

    with workbench(make_optimizer=make) as bench:
        groups = [{k: v for k, v in g.items() if k != "fused"} for g in bench.optimizer.param_groups]
        bench.switchboard.switch(PLAN)
        assert flags(bench) == [True, True]
        bench.train(1)
        assert [{k: v for k, v in g.items() if k != "fused"} for g in bench.optimizer.param_groups] == groups
        bench.switchboard.switch(BASELINE)
        assert flags(bench) == [None, None]


# ---- checkpoints
def saved_and_read(state: Any) -> Any:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_checkpoints_do_not_tell_of_it(name: str) -> None:
    with workbench(make_optimizer=OPTIMIZERS[name]) as bench:
        bench.train(1)
        plain = bench.optimizer.state_dict()["param_groups"]
        bench.switchboard.switch(PLAN)
        bench.train(1)
        assert saved_and_read(bench.optimizer.state_dict())["param_groups"] == plain
        assert flags(bench) == [True]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_checkpoint_loaded_under_it_stays_fused(name: str) -> None:
    with workbench(make_optimizer=OPTIMIZERS[name]) as bench:
        bench.train(2)
        start = bench.snapshot()
        plain = bench.train(4)
        bench.switchboard.switch(PLAN)
        bench.restore(start)
        assert flags(bench) == [True]
        assert bench.train(4) == pytest.approx(plain, rel=1e-5)
        assert fused_updates(bench) == 4


def test_after_a_load_removal_still_restores() -> None:
    """Loading replaces the groups by new ones."""
    with workbench() as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        bench.optimizer.load_state_dict(copy.deepcopy(bench.optimizer.state_dict()))
        bench.switchboard.switch(BASELINE)
        assert flags(bench) == [None]
        bench.train(1)


def test_a_group_added_under_it_is_as_the_script_made_it() -> None:
    with workbench() as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        bench.optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2))], "lr": 1.0})
        bench.optimizer.load_state_dict(bench.optimizer.state_dict())
        assert [group["fused"] for group in bench.optimizer.state_dict()["param_groups"]] == [None, None]
        bench.switchboard.switch(BASELINE)
        assert flags(bench) == [None, None]


def test_a_checkpoint_of_a_fused_optimizer_is_the_scripts_wish() -> None:
    with workbench() as bench:
        bench.train(1)
        bench.optimizer.param_groups[0]["fused"] = False
        bench.switchboard.switch(PLAN)
        assert bench.optimizer.state_dict()["param_groups"][0]["fused"] is False
        bench.switchboard.switch(BASELINE)
        assert flags(bench) == [False]


# ---- state that lies otherwise
def with_state_laid_out_otherwise(bench: Workbench) -> None:
    """As after a resume, into a channels last model, from a checkpoint of one that was not."""
    bench.train(1)
    for parameter in bench.model.parameters():
        if parameter.dim() == 4:
            parameter.data = parameter.data.to(memory_format=torch.channels_last)


def test_an_optimizer_whose_state_lies_otherwise_is_left_alone() -> None:
    """torch's fused kernel does not look at strides: it would train on mixed up state without a word."""
    with workbench() as bench:
        with_state_laid_out_otherwise(bench)
        with pytest.raises(NotApplicable, match="other strides"):
            bench.switchboard.switch(PLAN)
        assert flags(bench) == [None]


def test_a_loaded_state_is_laid_out_as_its_parameters() -> None:
    def channels_last_from_the_start(bench: Workbench) -> None:
        for parameter in bench.model.parameters():
            if parameter.dim() == 4:
                parameter.data = parameter.data.to(memory_format=torch.channels_last)

    with workbench() as bench:
        bench.train(2)
        checkpoint = copy.deepcopy(bench.optimizer.state_dict())
    losses = []
    for plan in (BASELINE, PLAN):
        with workbench() as bench:
            channels_last_from_the_start(bench)
            bench.train(1)
            bench.switchboard.switch(plan)
            bench.optimizer.load_state_dict(copy.deepcopy(checkpoint))
            losses.append(bench.train(10))
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def with_a_slice(bench: Workbench) -> torch.Tensor:
    """Makes a parameter a part of a larger tensor, which it returns."""
    larger = torch.ones(4, 600)
    weight = bench.model.get_parameter("3.weight")
    larger[:, :512] = weight.detach()
    weight.data = larger[:, :512]
    return larger


def test_a_parameter_that_is_a_slice_of_a_larger_tensor_is_left_alone() -> None:
    with workbench() as bench:
        with_a_slice(bench)
        bench.train(1)
        with pytest.raises(NotApplicable, match="slice of a larger tensor"):
            bench.switchboard.switch(PLAN)


def test_what_surrounds_a_slice_stays_as_it_is() -> None:
    """Also where a parameter becomes a slice later, and where its optimizer has no state yet."""
    found = []
    for plan in (BASELINE, PLAN):
        torch.manual_seed(0)
        with workbench() as bench:
            bench.switchboard.switch(plan)
            bench.train(2)
            larger = with_a_slice(bench)
            bench.train(2)
            bench.optimizer.load_state_dict(bench.optimizer.state_dict())
            bench.train(2)
            assert larger[:, 512:].eq(1).all()
            bench.switchboard.switch(BASELINE)
            found.append([p.detach().clone() for p in bench.model.parameters()])
    for plain, fused in zip(*found, strict=True):
        assert torch.allclose(plain, fused, atol=1e-5)


# ---- all tensors at once, if there is no fused form
FOREACH = Plan({"fused_optimizer": {"form": "foreach"}})
WITHOUT_FUSED = ["RMSprop", "Adadelta", "NAdam", "RAdam", "Adamax", "ASGD", "Rprop"]


def lay_out_anew(bench: Workbench) -> None:
    bench.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def put_others_in_place(bench: Workbench) -> None:
    for parameter in bench.model.parameters():
        lies_last = parameter.dim() == 4
        other = parameter.detach().clone()
        parameter.data = other.to(memory_format=torch.channels_last) if lies_last else other


def turn_the_linear_layer(bench: Workbench) -> None:
    """As where a decoder's weights are an encoder's."""
    weight = bench.model.get_parameter("3.weight")
    weight.data = weight.detach().t().contiguous().t()


@pytest.mark.parametrize("change", [lay_out_anew, put_others_in_place, turn_the_linear_layer])
@pytest.mark.parametrize("between", ["steps", "backward pass and update"])
def test_weights_that_a_script_lays_out_otherwise_are_updated_right(
    change: Callable[[Workbench], None], between: str
) -> None:
    """As scripts do that go back to the best weights so far, or convert their model late."""
    found = []
    for plan in (BASELINE, PLAN):
        torch.manual_seed(0)
        with workbench(make_optimizer=OPTIMIZERS["Adam"]) as bench:
            bench.train(2)
            bench.switchboard.switch(plan)
            bench.train(2)
            if between == "steps":
                change(bench)
            else:
                bench.optimizer.zero_grad()
                bench.model(torch.randn(4, 3, 8, 8)).square().sum().backward()
                change(bench)
                bench.optimizer.step()
            bench.train(3)
            found.append([p.detach().clone() for p in bench.model.parameters()])
    for plain, fused in zip(*found, strict=True):
        assert torch.allclose(plain, fused, atol=1e-5)


@pytest.mark.parametrize("name", WITHOUT_FUSED)
def test_losses_stay_when_all_tensors_go_at_once(name: str) -> None:
    with workbench(make_optimizer=lambda p: getattr(torch.optim, name)(p, lr=1e-3)) as bench:
        bench.train(2)
        before = bench.bits()
        start = bench.snapshot()
        plain = bench.train(5)
        bench.restore(start)
        bench.switchboard.switch(FOREACH)
        assert bench.train(5) == pytest.approx(plain, rel=1e-5)
        assert bench.optimizer.state_dict()["param_groups"][0]["foreach"] is None
        assert bench.switchboard.proofs()[0].evidence == "5 foreach updates"
        bench.switchboard.switch(BASELINE)
        assert bench.bits()["groups"] == before["groups"]
        assert bench.bits()["optimizer attributes"] == before["optimizer attributes"]


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda p: torch.optim.RMSprop(p, foreach=True), id="the script's own"),
        pytest.param(lambda p: torch.optim.RMSprop(p, foreach=False), id="the script's wish"),
        pytest.param(torch.optim.LBFGS, id="no such form"),
    ],
)
def test_an_optimizer_that_cannot_take_all_at_once_is_left_alone(make: Callable[..., Any]) -> None:
    with workbench(make_optimizer=make) as bench, pytest.raises(NotApplicable, match="foreach"):
        bench.switchboard.switch(FOREACH)


def test_which_form_is_worth_a_trial() -> None:
    without = optimizer(name="RMSprop", can_fuse=False, can_foreach=True)
    assert FusedOptimizer.refuse(facts(optimizers=(without,))) == []
    assert FusedOptimizer.options(facts(optimizers=(without,))) == [{"form": "foreach"}]
    assert FusedOptimizer.options(facts(optimizers=(without, optimizer()))) == [{}]
    with pytest.raises(ValueError, match="fused or foreach"):
        FusedOptimizer.check({"form": "quick"})


# ---- where it does not apply
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(torch.optim.RMSprop, id="RMSprop"),
        pytest.param(lambda p: torch.optim.Adam(p, foreach=True), id="the script asked for foreach"),
        pytest.param(lambda p: torch.optim.Adam(p, fused=True), id="fused already"),
    ],
)
def test_an_optimizer_without_use_for_it_is_left_alone(make: Callable[..., Any]) -> None:
    with workbench(make_optimizer=make) as bench:
        bench.train(1)
        before = bench.bits()
        with pytest.raises(NotApplicable, match="no optimizer"):
            bench.switchboard.switch(PLAN)
        assert bench.bits() == before


def test_of_two_optimizers_the_suitable_one_is_fused() -> None:
    with workbench() as bench:
        other = torch.optim.RMSprop([nn.Parameter(torch.zeros(2))])
        bench.train(1)
        bench.switchboard.switch(PLAN)
        assert flags(bench) == [True]
        assert "fused" not in other.param_groups[0]


def test_the_proof_fails_when_torch_takes_another_path() -> None:
    with workbench() as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        bench.optimizer.param_groups[0]["fused"] = False
        bench.train(2)
        (proof,) = bench.switchboard.proofs()
        assert not proof.effective
        assert proof.evidence == "0 fused updates"


# ---- on paper
def test_it_applies_to_a_plain_adam() -> None:
    assert FusedOptimizer.refuse(facts()) == []
    unsuitable = optimizer(name="RMSprop", can_fuse=False, why_not="RMSprop has no fused form in torch")
    assert FusedOptimizer.refuse(facts(optimizers=(optimizer(), unsuitable))) == []


@pytest.mark.parametrize(
    ("optimizers", "reasons"),
    [
        pytest.param((), ["the script has no torch optimizer"], id="none"),
        pytest.param(
            (optimizer(fused=True),), ["the script already asks for the fused form"], id="fused already"
        ),
        pytest.param(
            (optimizer(can_fuse=False, why_not="b"), optimizer(can_fuse=False, why_not="a")), ["a", "b"],
            id="several without",
        ),
        pytest.param(
            (optimizer(fused=True), optimizer(can_fuse=False, why_not="a")), ["a"], id="the rest without"
        ),
    ],
)  # fmt: skip
def test_what_it_refuses(optimizers: tuple[Any, ...], reasons: list[str]) -> None:
    assert FusedOptimizer.refuse(facts(optimizers=optimizers)) == reasons
