"""Without the bias before a batch norm: the same training, evaluation and checkpoints."""

from __future__ import annotations

import copy
import io
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from hasten.inside.techniques.drop_bias import DropBias
from hasten.records.plan import BASELINE, Plan
from hasten.testing.technique_contract import (
    check_checkpoints_look_the_same,
    check_steps_leave_no_trace,
    check_switching_alone_leaves_no_trace,
)
from hasten.testing.workbench import Workbench, normed_cnn, workbench

from .made_up import facts, root

PLAN = Plan({"drop_bias": {}})


def network(**norm: Any) -> Any:
    torch.manual_seed(5)
    model: Any = nn.Sequential(
        nn.Conv2d(3, 6, 3, stride=2),
        nn.BatchNorm2d(6, **norm),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(54, 5),
        nn.BatchNorm1d(5, **norm),
        nn.Linear(5, 4),
    )
    with torch.no_grad():
        model[0].bias.uniform_(-3, 3)
        model[4].bias.uniform_(-3, 3)
    return model


def trained(plan: Plan, steps: int = 6, **norm: Any) -> tuple[Any, list[float]]:
    with workbench(make_optimizer=lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9)) as bench:
        bench.model = network(**norm)
        bench.optimizer = torch.optim.SGD(bench.model.parameters(), 0.05, momentum=0.9, weight_decay=0.1)
        torch.manual_seed(1)
        bench.switchboard.switch(plan)
        losses = bench.train(steps)
        if plan:
            (proof,) = bench.switchboard.proofs()
            assert proof.effective, proof.evidence
        return bench.model, losses


@pytest.mark.parametrize("momentum", [0.1, None])
def test_training_checkpoint_and_evaluation_are_the_baselines(momentum: float | None) -> None:
    plain, expected = trained(BASELINE, momentum=momentum)
    under, found = trained(PLAN, momentum=momentum)
    assert found == pytest.approx(expected, rel=1e-4)
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(under.state_dict()[name], value, rtol=1e-3, atol=1e-4, msg=name)
    pictures = torch.randn(4, 3, 8, 8)
    torch.testing.assert_close(under.eval()(pictures), plain.eval()(pictures), rtol=1e-3, atol=1e-3)


def test_the_bias_is_really_left_out_and_gets_a_gradient_of_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    plain = nn.functional.conv2d

    def conv2d(inputs: Any, weight: Any, bias: Any = None, *more: Any) -> Any:
        seen.append(bias is not None)
        return plain(inputs, weight, bias, *more)

    monkeypatch.setattr(nn.functional, "conv2d", conv2d)
    with workbench(make_model=normed_cnn) as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        seen.clear()
        bench.train(3)
        assert seen == [True, True, True, False, True, False]  # the first pass is watched
        assert bench.model[1][0].bias.grad.eq(0).all()  # type: ignore[index]
        assert bench.model[0][0].bias.grad.ne(0).any()  # type: ignore[index]
        seen.clear()
        bench.model.eval()
        with torch.no_grad():
            bench.model(torch.zeros(1, 3, 8, 8))
        assert seen == [True, True]


def test_switched_on_again_it_need_not_look_again() -> None:
    with workbench(make_model=normed_cnn) as bench:
        bench.train(1)
        for expected in ("2 times", "3 times"):  # of three steps; the first of all was watched
            bench.switchboard.switch(PLAN)
            bench.train(3)
            assert expected in bench.switchboard.proofs()[0].evidence
            bench.switchboard.switch(BASELINE)
        assert all(m._compiled_call_impl is None for m in list(bench.model.modules())[1:])


def test_two_passes_before_one_backward_pass() -> None:
    """As a discriminator takes real and generated pictures."""
    with workbench(make_model=normed_cnn) as bench:
        bench.switchboard.switch(PLAN)
        bench.train(2)
        loss = bench.model(torch.rand(4, 3, 8, 8)).sum() - bench.model(torch.rand(4, 3, 8, 8)).sum()
        loss.backward()
        assert bench.switchboard.proofs()[0].effective


class Wayward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(144, 4)
        self.passes = itertools.count()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x)
        out: torch.Tensor = self.head((self.norm(x) if next(self.passes) < 3 else x).flatten(1))
        return out


def test_where_the_output_later_goes_elsewhere_the_proof_fails_and_the_bias_is_back() -> None:
    with workbench(make_model=normed_cnn) as bench:
        bench.model = Wayward()
        bench.optimizer = torch.optim.Adam(bench.model.parameters())
        bench.switchboard.switch(PLAN)
        bench.train(3)
        assert bench.switchboard.proofs()[0].effective
        bench.train(3)
        (proof,) = bench.switchboard.proofs()
        assert not proof.effective
        assert "did not go into its batch norm" in proof.evidence
        conv: Any = bench.model.conv
        pictures = torch.rand(1, 3, 8, 8)
        torch.testing.assert_close(conv(pictures), nn.functional.conv2d(pictures, conv.weight, conv.bias))


def pruned(model: Any) -> None:
    """As in torch's tutorial of pruning."""
    pruning: Any = prune
    pruning.random_unstructured(model[0], name="weight", amount=0.3)
    pruning.l1_unstructured(model[0], name="bias", amount=3)


def with_another_norm(model: Any) -> None:
    model[1] = nn.GroupNorm(2, 6)


def with_a_norm_that_is_wrapped(model: Any) -> None:
    model[1] = nn.Sequential(nn.Softplus(), model[1])


def with_a_hook_on_its_norm(model: Any) -> None:
    model[1].register_forward_pre_hook(lambda module, args: args[0].relu())


@pytest.mark.parametrize(
    "change", [pruned, with_another_norm, with_a_norm_that_is_wrapped, with_a_hook_on_its_norm]
)
def test_a_model_that_its_script_changes_later_trains_on_as_without(change: Callable[[Any], None]) -> None:
    found = []
    for plan in (BASELINE, PLAN):
        with workbench() as bench:
            bench.model = network()
            bench.optimizer = torch.optim.SGD(bench.model.parameters(), 0.05)
            bench.switchboard.switch(plan)
            bench.train(3)
            torch.manual_seed(1)
            change(bench.model)
            found.append(bench.train(3))
    assert found[1] == pytest.approx(found[0], rel=1e-4)


class ReturningMaps(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(144, 4)
        nn.init.ones_(self.conv.bias)  # type: ignore[arg-type]

    def forward(self, x: torch.Tensor, maps: bool = False, normed: bool = True) -> Any:
        found = self.conv(x)
        output = self.head((self.norm(found) if normed else found).flatten(1))
        return (output, found) if maps else output


def test_a_call_of_another_form_is_watched_first() -> None:
    """As where features are trained, too, from a later step on."""
    found = []
    for plan in (BASELINE, PLAN):
        with workbench() as bench:
            torch.manual_seed(3)
            bench.model = model = ReturningMaps()
            bench.optimizer = torch.optim.SGD(model.parameters(), 0.05)
            bench.switchboard.switch(plan)
            bench.train(3)
            outputs = [*model(torch.ones(2, 3, 8, 8), maps=True), model(torch.ones(2, 3, 8, 8), False, False)]
            torch.autograd.backward(torch.stack([output.sum() for output in outputs]).sum())
            found.append([*outputs, model.get_parameter("conv.bias").grad])
            if plan:
                assert bench.switchboard.proofs()[0].evidence.startswith("no layer")
    for plain, under in zip(*found, strict=True):
        torch.testing.assert_close(under, plain, rtol=1e-4, atol=1e-4)


def test_a_layer_that_is_called_by_itself_has_its_bias() -> None:
    with workbench() as bench:
        model = bench.model = ReturningMaps()
        bench.optimizer = torch.optim.SGD(model.parameters(), 0.05)
        bench.switchboard.switch(PLAN)
        bench.train(3)
        pictures, conv = torch.ones(2, 3, 8, 8), model.conv
        with torch.no_grad():
            torch.testing.assert_close(conv(pictures), nn.functional.conv2d(pictures, conv.weight, conv.bias))
        bench.train(1)
        assert bench.switchboard.proofs()[0].effective


def test_a_model_that_is_called_in_too_many_ways_keeps_its_bias() -> None:
    class Spoken(ReturningMaps):
        def forward(self, x: torch.Tensor, text: Any = "", normed: bool = True) -> Any:
            return super().forward(x)

    with workbench() as bench:
        bench.model = Spoken()
        bench.optimizer = torch.optim.SGD(bench.model.parameters(), 0.05)
        bench.switchboard.switch(PLAN)
        bench.train(2)
        for number in range(9):
            bench.model(torch.ones(2, 3, 8, 8), str(number))
        (proof,) = bench.switchboard.proofs()
        assert not proof.effective
        assert "too many ways" in proof.evidence


def test_without_such_a_layer_the_proof_says_so() -> None:
    with workbench(make_model=normed_cnn) as bench:
        bench.model = nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(192, 4))
        bench.optimizer = torch.optim.Adam(bench.model.parameters())
        bench.switchboard.switch(PLAN)
        bench.train(2)
        (proof,) = bench.switchboard.proofs()
        assert (proof.effective, proof.evidence) == (
            False,
            "no layer with a bias gives its output to a batch norm and nowhere else",
        )


def saved(bench: Workbench) -> nn.Module:
    buffer = io.BytesIO()
    torch.save(bench.model, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)  # type: ignore[no-any-return]


def test_copies_and_pickles_are_plain_models() -> None:
    with workbench(make_model=normed_cnn) as bench:
        bench.switchboard.switch(PLAN)
        bench.train(2)
        for other in (copy.deepcopy(bench.model), saved(bench)):
            assert all(module._compiled_call_impl is None for module in other.modules())
            assert other(torch.zeros(2, 3, 8, 8)).shape == (2, 4)


@pytest.mark.parametrize(
    ("other", "reasons"),
    [
        ({"roots": (root(batch_norm=True),)}, []),
        ({}, []),
        (
            {"roots": (root(batch_norm=True),), "uses": ("compile",)},
            ["the script compiles its model, and layers cannot be stepped into"],
        ),
    ],
)
def test_where_it_applies(other: dict[str, Any], reasons: list[str]) -> None:
    assert DropBias.refuse(facts(**other)) == reasons


ALL = Plan({"drop_bias": {"which": "all"}})


def trained_without(model: Any, plan: Plan, steps: int = 5) -> tuple[Any, list[float]]:
    with workbench() as bench:
        bench.model = model
        bench.optimizer = torch.optim.Adam(model.parameters(), 1e-2, weight_decay=0.1)
        torch.manual_seed(1)
        bench.switchboard.switch(plan)
        losses = bench.train(steps)
        for proof in bench.switchboard.proofs():
            assert proof.effective, proof.evidence
        return copy.deepcopy(model.state_dict()), losses


def test_without_all_biases_it_trains_as_a_model_that_has_none() -> None:
    bare = network()
    for number in (0, 4, 6):
        bare[number].bias = None
    expected, losses = trained_without(bare, BASELINE)
    with_biases = network()
    found, same_losses = trained_without(with_biases, ALL)
    assert same_losses == losses
    for name, value in found.items():
        if name in ("0.bias", "4.bias", "6.bias"):
            assert not value.any()
        else:
            assert torch.equal(value, expected[name]), name


def test_transforms_of_functions_go_on_without_biases() -> None:
    """torch.func asks more of what stands in autograd's graph than backward passes do."""
    with workbench() as bench:
        bench.train(1)
        bench.switchboard.switch(ALL)
        model, pictures = bench.model, torch.randn(5, 3, 8, 8)
        weights: dict[str, torch.Tensor] = dict(model.named_parameters())

        def value(one: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = torch.func.functional_call(model, weights, (one.unsqueeze(0),))
            return found.sum()

        slopes = torch.func.vmap(torch.func.grad(value))(pictures)
        slopes.pow(2).sum().backward()
        assert all(p.grad is not None for p in model.parameters())
        (proof,) = bench.switchboard.proofs()
        assert proof.effective


def test_biases_that_a_checkpoint_brings_are_not_kept() -> None:
    with workbench() as bench:
        bench.model = model = network()
        bench.optimizer = torch.optim.Adam(model.parameters(), 1e-2)
        bench.train(1)
        kept = copy.deepcopy(model.state_dict()), copy.deepcopy(bench.optimizer.state_dict())
        bench.switchboard.switch(ALL)
        bench.train(1)
        model.load_state_dict(kept[0])
        bench.optimizer.load_state_dict(kept[1])
        bench.train(1)
        assert not model[0].bias.any()
        (proof,) = bench.switchboard.proofs()
        assert proof.evidence == "3 layers computed without their bias, 6 times"
        bench.switchboard.switch(BASELINE)
        assert model[0].bias.all()


def test_without_all_biases_no_trace_is_left() -> None:
    with workbench(make_model=normed_cnn) as bench:
        check_switching_alone_leaves_no_trace(bench, ALL)
        check_steps_leave_no_trace(bench, ALL)
        check_checkpoints_look_the_same(bench, ALL)


def test_all_biases_are_a_matter_of_risk() -> None:
    normed, plain = facts(roots=(root(batch_norm=True),)), facts(roots=(root(batch_norm=False),))
    assert DropBias.options(normed) == [{}, {"which": "all"}]
    assert DropBias.options(plain) == [{"which": "all"}]
    without = facts(roots=(root(batch_norm=True),), bias_before_norm=False)
    assert DropBias.options(without) == [{"which": "all"}], "as in a ResNet: its convolutions have none"
    assert [DropBias.risk_of(how, normed) for how in DropBias.options(normed)] == ["exact", "training"]
    with pytest.raises(ValueError, match="drop_bias takes which, normed or all"):
        DropBias.check({"which": "some"})
