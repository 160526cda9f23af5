"""Real strides, of weights and of all that a fused update reads together with them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from hasten.inside.distributed.watched import bits_of
from hasten.inside.guarding.digests import Digests
from hasten.inside.guarding.tensor_sums import sums_of
from hasten.inside.observing.layout import is_channels_last
from hasten.inside.techniques.channels_last import ChannelsLast
from hasten.inside.techniques.support.memory_format import companions, lie_alike
from hasten.inside.training import NotApplicable
from hasten.records.plan import BASELINE, Plan
from hasten.testing.workbench import Workbench, small_cnn, workbench

from .made_up import facts, root

PLAN = Plan({"channels_last": {}})


class Awkward(nn.Module):
    """Weights for which both orders count as contiguous: one input channel, one-pixel kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.one_channel = nn.Conv2d(1, 4, 3, padding=1)
        self.one_pixel = nn.Conv2d(4, 8, 1)
        self.depthwise = nn.Conv2d(8, 8, 3, groups=8, padding=1)
        self.linear = nn.Linear(8, 4)
        self.strides: list[tuple[int, ...]] = []

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.strides.append(inputs.stride())
        hidden = self.depthwise(self.one_pixel(self.one_channel(inputs[:, :1])))
        out: torch.Tensor = self.linear(hidden.mean(dim=(2, 3)))
        return out


def awkward(bench: Workbench, optimizer: type[Any] = torch.optim.Adam) -> Awkward:
    """Give the bench this model to train."""
    model = Awkward()
    bench.model = model
    bench.optimizer = optimizer(model.parameters(), lr=1e-2)
    return model


def four_dimensional(module: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in module.parameters() if parameter.dim() == 4]


@pytest.mark.parametrize(
    "look",
    [
        pytest.param(bits_of, id="what ranks compare"),
        pytest.param(lambda tensor: sums_of(torch, tensor.detach(), tensor.detach()), id="the guard's sums"),
        pytest.param(lambda tensor: Digests([tensor]).of_all(), id="the guard's digests"),
    ],
)
def test_what_looks_at_weights_leaves_them_as_they_are(look: Callable[[Any], Any]) -> None:
    """A script that makes one row of a weight may write through it, and gets the usual layout back first: so
    channels_last had no effect in several processes, whose weights are compared.
    """
    with workbench() as bench:
        bench.model = model = nn.Sequential(
            nn.Conv2d(3, 128, 3), nn.Conv2d(128, 128, 3), nn.Flatten(), nn.Linear(2048, 4)
        )
        bench.optimizer = torch.optim.Adam(model.parameters())
        bench.train(1)
        bench.switchboard.switch(PLAN)
        bench.train(1)
        for weight in four_dimensional(model):
            look(weight)
            assert is_channels_last(weight)
            assert weight.grad is not None
            look(weight.grad)
        bench.train(1)
        (proof,) = bench.switchboard.proofs()
        assert proof.effective, proof.evidence


def test_weights_get_the_real_strides() -> None:
    with workbench() as bench:
        model = awkward(bench)
        bench.train(1)
        bench.switchboard.switch(PLAN)
        assert [p.stride() for p in four_dimensional(model)] == [(9, 1, 3, 1), (4, 1, 4, 4), (9, 1, 3, 1)]
        assert all(map(is_channels_last, four_dimensional(model)))
        assert model.linear.weight.stride() == (8, 1)


def test_inputs_arrive_channels_last() -> None:
    with workbench() as bench:
        model = awkward(bench)
        bench.switchboard.switch(PLAN)
        bench.train(1)
        assert model.strides == [(192, 1, 24, 3)]
        bench.switchboard.switch(BASELINE)
        bench.train(1)
        assert model.strides[1] == (192, 64, 8, 1)


def test_inputs_of_other_kinds_are_handed_on_as_they_are() -> None:
    class Seeing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(1, 1)
            self.seen: Any = None

        def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
            self.seen = (args, kwargs)
            out: torch.Tensor = self.layer(torch.ones(1, 1))
            return out

    with workbench() as bench:
        model = Seeing()
        optimizer = torch.optim.SGD(model.parameters())
        bench.switchboard.switch(PLAN)
        pictures, indices, rows = (
            torch.rand(2, 3, 4, 4),
            torch.zeros(2, 3, 4, 4, dtype=torch.int64),
            torch.ones(2, 3),
        )
        within = {"pictures": [pictures]}
        model(rows, within, text="a", indices=indices)
        args, kwargs = model.seen
        assert args[0] is rows
        assert kwargs["text"] == "a"
        assert kwargs["indices"] is indices
        assert args[1] is within, "the model may put something into it"
        assert args[1]["pictures"][0] is pictures
        assert len(optimizer.param_groups) == 1


OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "Adam": torch.optim.Adam,
    "AdamW with amsgrad": lambda p, lr: torch.optim.AdamW(p, lr=lr, amsgrad=True),
    "SGD with momentum": lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9),
    "Adagrad": torch.optim.Adagrad,
    "RMSprop": torch.optim.RMSprop,
}


def all_lie_alike(bench: Workbench) -> bool:
    """Whether gradients and optimizer state lie as their parameters do; there must be some."""
    found = [
        (tensor, parameter)
        for parameter in bench.model.parameters()
        for tensor in companions(torch, parameter, bench.optimizer.state)
    ]
    assert len(found) >= 3 * len(list(bench.model.parameters()))
    return all(lie_alike(tensor, parameter) for tensor, parameter in found)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_gradients_and_state_follow_both_ways(name: str) -> None:
    with workbench(make_optimizer=lambda p: OPTIMIZERS[name](p, lr=1e-2)) as bench:
        bench.train(2)
        for plan in (PLAN, BASELINE, PLAN):
            bench.switchboard.switch(plan)
            assert all_lie_alike(bench)
            bench.train(1)
            assert all_lie_alike(bench)
            weight = next(bench.model.parameters())
            assert is_channels_last(weight) is (plan is PLAN)


def test_values_stay_bit_for_bit() -> None:
    with workbench() as bench:
        bench.train(2)
        before = copy.deepcopy(bench.model.state_dict()), copy.deepcopy(bench.optimizer.state_dict()["state"])
        bench.switchboard.switch(PLAN)
        for name, value in bench.model.state_dict().items():
            assert torch.equal(value, before[0][name])
        for index, held in bench.optimizer.state_dict()["state"].items():
            assert all(torch.equal(held[key], before[1][index][key]) for key in held)


def test_strides_of_the_scripts_own_come_back() -> None:
    """A weight that was channels last already, with state that was not."""
    with workbench(make_optimizer=lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9)) as bench:
        weight = next(bench.model.parameters())
        bench.train(1)
        weight.data = weight.data.to(memory_format=torch.channels_last)
        before = bench.bits()
        bench.switchboard.switch(PLAN)
        assert all_lie_alike(bench)
        bench.switchboard.switch(BASELINE)
        assert bench.bits() == before
        assert is_channels_last(weight)


def relative_difference(ours: list[float], theirs: list[float]) -> float:
    return max(abs(a - b) / abs(b) for a, b in zip(ours, theirs, strict=True))


def test_toggled_under_fused_adam_the_loss_stays() -> None:
    """Without the state's strides following, this departs by several percent."""
    with workbench() as bench:
        bench.train(2)
        start = bench.snapshot()
        plain = [loss for _ in range(10) for loss in bench.train(3)]
        bench.restore(start)
        fused = Plan({"fused_optimizer": {}})
        both = Plan({"fused_optimizer": {}, "channels_last": {}})
        toggled = []
        for turn in range(10):
            bench.switchboard.switch(both if turn % 2 == 0 else fused)
            toggled += bench.train(3)
    assert len(plain) == 30
    assert relative_difference(toggled, plain) < 1e-5


@pytest.mark.parametrize(
    "names", [("channels_last", "fused_optimizer"), ("fused_optimizer", "channels_last")]
)
def test_a_checkpoint_loaded_under_fused_adam_keeps_the_loss(names: tuple[str, ...]) -> None:
    """A checkpoint brings its own strides, and the fused update reads parameters and state side by side."""
    with workbench() as bench:
        bench.train(2)
        start = bench.snapshot()
        plain = bench.train(20)
        bench.switchboard.switch(Plan({name: {} for name in names}))
        bench.train(1)
        bench.restore(start)
        assert all_lie_alike(bench)
        loaded = bench.train(20)
    assert relative_difference(loaded, plain) < 1e-5


def test_a_checkpoint_loaded_before_the_update_is_fused_keeps_the_loss() -> None:
    with workbench() as bench:
        bench.train(2)
        start = bench.snapshot()
        plain = bench.train(20)
        bench.switchboard.switch(PLAN)
        bench.restore(start)
        bench.switchboard.switch(PLAN.adding("fused_optimizer", {}))
        loaded = bench.train(20)
        (_, fused) = bench.switchboard.proofs()
        assert fused.effective
    assert relative_difference(loaded, plain) < 1e-5


def test_hooks_are_gone_when_it_is_off() -> None:
    with workbench() as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        bench.switchboard.switch(BASELINE)
        assert not bench.optimizer._optimizer_load_state_dict_post_hooks
        bench.restore(bench.snapshot())
        assert not is_channels_last(next(bench.model.parameters()))


def test_the_proof_fails_without_a_convolution() -> None:
    with workbench() as bench:
        model = nn.Sequential(nn.Flatten(), nn.Linear(192, 4))
        bench.model, bench.optimizer = model, torch.optim.Adam(model.parameters())
        bench.switchboard.switch(PLAN)
        bench.train(2)
        (proof,) = bench.switchboard.proofs()
        assert not proof.effective
        assert proof.evidence == "0 weights and 2 inputs channels last; passes: 0"


class Batching(nn.Module):
    """Puts pictures into a batch itself, as detectors do."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = small_cnn()
        self.maps: list[torch.Tensor] = []
        first = self.layers.get_submodule("0")
        first.register_forward_hook(lambda module, given, maps: self.maps.append(maps))

    def forward(self, pictures: list[torch.Tensor]) -> torch.Tensor:
        out: torch.Tensor = self.layers(torch.stack(pictures))
        return out


def test_a_model_that_makes_its_batch_itself_computes_channels_last() -> None:
    with workbench() as bench:
        bench.model = model = Batching()
        bench.loss_of = lambda model, inputs, labels: F.cross_entropy(model(list(inputs)), labels)
        bench.optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        bench.train(1)
        bench.switchboard.switch(PLAN)
        bench.train(1)
        (proof,) = bench.switchboard.proofs()
        assert proof.effective
        assert proof.evidence == "2 weights and 0 inputs channels last; passes: 1"
        assert [is_channels_last(maps) for maps in model.maps] == [False, True]


def test_the_proof_fails_when_the_script_lays_its_weights_out_anew() -> None:
    with workbench() as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        for parameter in four_dimensional(bench.model):
            parameter.data = parameter.data.contiguous(memory_format=torch.contiguous_format)
        bench.train(1)
        (proof,) = bench.switchboard.proofs()
        assert not proof.effective


def test_losses_stay_numbers_over_a_long_toggling() -> None:
    with workbench(make_optimizer=lambda p: torch.optim.Adam(p, fused=True)) as bench:
        for turn in range(6):
            bench.switchboard.switch(PLAN if turn % 2 else BASELINE)
            assert all(map(math.isfinite, bench.train(2)))


# ---- what is drawn
F = nn.functional
DRAWING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "dropout": lambda x: F.dropout(x, 0.3),
    "dropout in place": lambda x: F.dropout(x.clone(), 0.3, inplace=True),
    "a layer of dropout": lambda x: nn.Dropout(0.3)(x),
    "dropout of channels": lambda x: F.dropout2d(x, 0.3),
    "alpha dropout": lambda x: F.alpha_dropout(x, 0.3, training=True),
    "alpha dropout in place": lambda x: F.alpha_dropout(x.clone(), 0.3, True, True),
    "noise like it": lambda x: torch.randn_like(x),
    "numbers like it": lambda x: torch.rand_like(x) + torch.randint_like(x, 5),
    "normal numbers in place": lambda x: torch.empty_like(x).normal_(),
    "coins in place": lambda x: torch.empty_like(x).bernoulli_(0.3),
    "a waiting time in place": lambda x: torch.empty_like(x).exponential_(),
    "coins": lambda x: torch.bernoulli(x.sigmoid()),
    "random slopes": lambda x: F.rrelu(x, training=True),
    "random choices": lambda x: F.gumbel_softmax(x, dim=1),
}


def of_seed(draw: Callable[[torch.Tensor], torch.Tensor], maps: torch.Tensor) -> list[torch.Tensor]:
    """Values, and the stream after them."""
    torch.manual_seed(3)
    return [draw(maps), torch.get_rng_state()]


@pytest.mark.parametrize("name", DRAWING)
def test_maps_get_the_random_numbers_that_they_would_have_had(name: str) -> None:
    maps = torch.randn(4, 8, 5, 5)
    last = maps.to(memory_format=torch.channels_last)
    plain = of_seed(DRAWING[name], maps)
    with workbench() as bench:
        awkward(bench)
        bench.train(1)
        bench.switchboard.switch(PLAN)
        found = of_seed(DRAWING[name], last)
        bench.switchboard.switch(BASELINE)
        of_torch = of_seed(DRAWING["noise like it"], last)
    assert all(map(torch.equal, plain, found))
    assert not torch.equal(of_torch[0], of_seed(DRAWING["noise like it"], maps)[0])  # it is out of force


@pytest.mark.parametrize("in_place", [False, True])
def test_gradients_go_through_such_a_dropout_as_through_torchs(in_place: bool) -> None:
    gradients = []
    for how in (torch.contiguous_format, torch.channels_last):
        with workbench() as bench:
            awkward(bench)
            bench.train(1)
            bench.switchboard.switch(PLAN)
            maps = torch.ones(4, 8, 5, 5).to(memory_format=how).requires_grad_()
            torch.manual_seed(3)
            loss = (F.dropout(maps * 2, 0.3, inplace=in_place) * torch.arange(5)).sum()
            loss.backward()  # type: ignore[no-untyped-call]
            assert maps.grad is not None
            gradients.append(maps.grad)
    assert torch.equal(*gradients)


def test_a_script_that_lays_its_maps_channels_last_draws_as_before() -> None:
    last = torch.randn(4, 8, 5, 5).to(memory_format=torch.channels_last)
    plain = of_seed(DRAWING["dropout"], last)
    with workbench() as bench:
        bench.model = model = small_cnn()
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        bench.optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        weight = next(model.parameters())
        weight.data = weight.data.contiguous()  # else there is nothing to do
        bench.train(1)
        bench.switchboard.switch(PLAN)
        assert is_channels_last(weight)
        assert all(map(torch.equal, plain, of_seed(DRAWING["dropout"], last)))


def test_a_script_that_has_put_all_its_weights_channels_last_has_it_already() -> None:
    with workbench() as bench:
        bench.model = model = small_cnn()
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        bench.optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        bench.train(1)
        with pytest.raises(NotApplicable, match="has put its weights channels last itself"):
            bench.switchboard.switch(PLAN)
        bench.train(1)


# ---- memory that the script uses in another way, too
def test_weights_that_a_state_without_a_copy_follows_are_left_alone() -> None:
    with workbench() as bench:
        bench.train(1)
        start = bench.model.state_dict()
        with pytest.raises(NotApplicable, match=r"holds views of its weights, as by model.state_dict"):
            bench.switchboard.switch(PLAN)
        bench.train(1)
        assert torch.equal(start["0.0.weight"], next(bench.model.parameters()))
        del start
        bench.switchboard.switch(PLAN)
        assert is_channels_last(next(bench.model.parameters()))


def test_where_a_checkpoint_is_held_it_is_not_off_and_that_is_said() -> None:
    """Convolutions follow their weights: what is timed then is no plain training."""
    with workbench() as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        bench.train(1)
        held = bench.model.state_dict()
        bench.switchboard.switch(BASELINE)
        assert is_channels_last(next(bench.model.parameters()))
        assert bench.switchboard.left_on is not None
        assert bench.switchboard.left_on[0] == "channels_last"
        del held
        bench.switchboard.switch(PLAN)
        bench.train(1)
        bench.switchboard.switch(BASELINE)
        assert bench.switchboard.left_on is None
        assert not is_channels_last(next(bench.model.parameters()))


def of_first(bench: Workbench) -> nn.Parameter:
    return bench.model.get_submodule("0.0").get_parameter("weight")


SHARED: dict[str, Callable[[Workbench], object]] = {
    "a view": lambda bench: of_first(bench).data[1:],
    "an array": lambda bench: of_first(bench).detach().numpy(),
    "other processes": lambda bench: bench.model.get_submodule("0").share_memory(),
    "one buffer": lambda bench: setattr(of_first(bench), "data", torch.empty(2, 8, 3, 3, 3)[1].normal_()),
    "a buffer of gradients": lambda bench: setattr(of_first(bench), "grad", torch.zeros(2, 8, 3, 3, 3)[0]),
    "a view of the optimizer's state": lambda bench: bench.optimizer.state[of_first(bench)]["exp_avg"][1:],
}


@pytest.mark.parametrize("by", SHARED)
def test_only_the_weight_in_shared_memory_is_left_alone(by: str) -> None:
    with workbench() as bench:
        bench.train(1)
        held = SHARED[by](bench)
        bench.switchboard.switch(PLAN)
        assert [is_channels_last(weight) for weight in four_dimensional(bench.model)] == [False, True]
        bench.train(1)
        (proof,) = bench.switchboard.proofs()
        assert proof.effective
        assert "1 weights left alone whose memory the script uses elsewhere, too" in proof.evidence
        del held


def test_a_state_taken_meanwhile_follows_the_model_for_ever() -> None:
    with workbench() as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        weight = of_first(bench)
        held = bench.model.state_dict()["0.0.weight"]
        bench.optimizer = torch.optim.SGD(bench.model.parameters(), lr=0.1)
        bench.train(2)
        assert torch.equal(held, weight)
        bench.switchboard.switch(BASELINE)
        bench.train(1)
        assert torch.equal(held, weight)
        torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last).view(2, -1)
        del held
        bench.switchboard.switch(PLAN)
        bench.train(1)
        assert bench.switchboard.proofs()[0].effective
        bench.switchboard.switch(BASELINE)
        assert not is_channels_last(weight)
        with pytest.raises(RuntimeError, match="view size is not compatible"):
            torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last).view(2, -1)


def test_a_weight_that_spectral_norm_computes_hides_none() -> None:
    with workbench() as bench:
        bench.model = small_cnn()
        for part in ("0.0", "1.0"):
            nn.utils.spectral_norm(bench.model.get_submodule(part))
        bench.optimizer = torch.optim.SGD(bench.model.parameters(), lr=1e-2)
        bench.switchboard.switch(PLAN)
        bench.train(1)
        assert bench.switchboard.proofs()[0].effective


# ---- on paper
def test_it_applies_to_convolutions() -> None:
    assert ChannelsLast.refuse(facts()) == []


def test_without_2d_convolutions_it_is_refused() -> None:
    assert ChannelsLast.refuse(facts(roots=(root(convolutions=0),))) == ["the model has no 2-d convolutions"]


def test_where_the_script_has_put_its_weights_so_it_is_refused() -> None:
    roots = (root(channels_last=True), root(convolutions=0))
    assert ChannelsLast.refuse(facts(roots=roots)) == ["the script has put its weights channels last itself"]
    assert ChannelsLast.refuse(facts(roots=(*roots, root()))) == []


@pytest.mark.parametrize(
    ("strides", "found"),
    [((9, 1, 3, 1), True), ((9, 9, 3, 1), False)],
)
def test_one_channel_is_told_by_its_strides(strides: tuple[int, ...], found: bool) -> None:
    weight = torch.empty_strided((4, 1, 3, 3), strides)
    assert weight.is_contiguous()
    assert is_channels_last(weight) is found


class Viewing(nn.Module):
    """As most tutorials write it."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.convolution, self.linear = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(4 * 8 * 8, 4)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.convolution(inputs))
        return self.linear(eval(self.how, {"hidden": hidden, "torch": torch}))  # type: ignore[no-any-return]


VIEWS = {
    "sizes": "hidden.view(hidden.size(0), -1)",
    "a size": "hidden.view(torch.Size([len(hidden), 256]))",
    "a list": "hidden.view([-1, 256])",
    "all there are": "hidden.view(-1, 4 * 8 * 8)",
    "twice": "hidden.view(len(hidden), 4, -1).view(len(hidden), -1)",
    "of a part": "torch.cat([hidden[:, :2].view(len(hidden), -1), hidden[:, 2:].view(len(hidden), -1)], 1)",
}


@pytest.mark.parametrize("how", VIEWS.values(), ids=VIEWS)
def test_a_view_of_what_a_convolution_made_trains_the_same(how: str) -> None:
    losses = []
    for plan in (BASELINE, PLAN):
        torch.manual_seed(0)
        with workbench() as bench:
            bench.model = Viewing(how)
            bench.optimizer = torch.optim.SGD(bench.model.parameters(), lr=1e-2)
            bench.train(1)
            bench.switchboard.switch(plan)
            losses.append(bench.train(4))
            if plan is PLAN:
                (proof,) = bench.switchboard.proofs()
                assert proof.effective
                assert "views were copied" in proof.evidence
            bench.switchboard.switch(BASELINE)
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    made_otherwise = torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last)
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        made_otherwise.view(2, -1)  # again


def flattening(bench: Workbench) -> Viewing:
    """Give the bench a model that flattens what its convolution made."""
    model = Viewing(VIEWS["sizes"])
    bench.model, bench.optimizer = model, torch.optim.Adam(model.parameters(), lr=1e-2)
    return model


FLAT: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "view": lambda tensor: tensor.view(-1),
    "reshape": lambda tensor: tensor.reshape(-1),
    "flatten": lambda tensor: tensor.flatten(),
    "ravel": lambda tensor: tensor.ravel(),
}


WRITTEN = [*((of, flat) for of in ("weight", "its data", "its gradient") for flat in FLAT), ("a map", "view")]


@pytest.mark.parametrize(("of", "how"), WRITTEN)
@torch.no_grad()
def test_a_view_through_which_a_script_may_write_is_never_a_copy(of: str, how: str) -> None:
    flat = FLAT[how]
    with workbench() as bench:
        weight = flattening(bench).convolution.weight
        with torch.enable_grad():
            bench.train(1)
            bench.switchboard.switch(PLAN)
            bench.train(1)
        assert is_channels_last(weight)
        ones = torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last)
        made: dict[str, Callable[[], Any]] = {
            "weight": lambda: weight,
            "its data": lambda: weight.data,
            "its gradient": lambda: weight.grad,
            "a map": lambda: ones,
        }
        before = made[of]().clone()
        written = made[of]()
        flat(written)[7] = 5.0
        flat(written)[9] = 6.0
        expected = before.contiguous()
        expected.view(-1)[7], expected.view(-1)[9] = 5.0, 6.0
        assert torch.equal(made[of](), expected)
        if of != "a map":
            alike = companions(torch, weight, bench.optimizer.state)
            assert len(alike) == 4
            assert len({tensor.stride() for tensor in alike}) == 1, "fused updates read them side by side"
        with torch.enable_grad():
            bench.train(2)


class Masking(nn.Module):
    """Writes through views of what its convolution made."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        maps: torch.Tensor = self.convolution(inputs)
        maps.view(len(maps), -1)[:, ::2] *= 0.5
        return maps


def written_through(maps: torch.Tensor) -> torch.Tensor:
    maps.view(len(maps), -1)[:, ::3] = 0.0
    return maps.mean((2, 3))


def test_what_is_written_through_a_view_of_a_map_is_not_lost() -> None:
    found = []
    for plan in (BASELINE, PLAN):
        torch.manual_seed(0)
        with workbench() as bench:
            bench.model = Masking()
            bench.optimizer = torch.optim.SGD(bench.model.parameters(), lr=1e-1)
            bench.loss_of = lambda model, inputs, labels: F.cross_entropy(
                written_through(model(inputs)), labels
            )
            bench.train(1)
            bench.switchboard.switch(plan)
            losses = bench.train(4)
            with torch.no_grad():
                losses.append(float(written_through(bench.model(torch.ones(2, 3, 4, 4)))[0, 0]))
            found.append(losses)
    assert found[0] == pytest.approx(found[1], rel=1e-5)


def test_a_view_of_a_part_of_a_weight_says_what_to_do() -> None:
    with workbench() as bench:
        weight = flattening(bench).convolution.weight
        bench.train(1)
        bench.switchboard.switch(PLAN)
        with torch.no_grad(), pytest.raises(RuntimeError, match="--without channels_last"):
            weight[0].view(-1)


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        maps: torch.Tensor = torch.relu(self.convolution(inputs))
        return maps


@pytest.mark.parametrize("judged", ["model", "a copy of it"])
@pytest.mark.parametrize("guard", [torch.no_grad, torch.inference_mode])
def test_an_evaluation_that_flattens_what_a_model_returns(judged: str, guard: Callable[[], Any]) -> None:
    with workbench() as bench:
        bench.model = Decoder()
        bench.optimizer = torch.optim.SGD(bench.model.parameters(), lr=1e-2)
        inputs = torch.randn(5, 3, 8, 8)
        bench.model(inputs).sum().backward()
        bench.optimizer.step()
        with guard():
            plain = bench.model(inputs).view(-1, 64), bench.model(inputs)[1].view(-1)
        bench.switchboard.switch(PLAN)
        model = bench.model if judged == "model" else copy.deepcopy(bench.model)
        with guard():
            viewed = model(inputs).view(-1, 64), model(inputs)[1].view(-1)
        assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(plain, viewed, strict=True))


@pytest.mark.parametrize("what", ["the model", "its state", "the optimizer's state", "a copy of the model"])
def test_files_have_the_usual_layout(what: str, tmp_path: Path) -> None:
    """Without hasten, a model with weights channels last fails where it flattens by ``view``."""
    with workbench() as bench:
        model = flattening(bench)
        bench.train(1)
        bench.switchboard.switch(PLAN)
        bench.train(1)
        saved: dict[str, Callable[[], Any]] = {
            "the model": lambda: model,
            "its state": lambda: model.state_dict(),
            "the optimizer's state": lambda: bench.optimizer.state_dict(),
            "a copy of the model": lambda: copy.deepcopy(model),
        }
        torch.save(saved[what](), tmp_path / "saved.pt")
        assert is_channels_last(model.convolution.weight)
    found = torch.load(tmp_path / "saved.pt", weights_only=False)
    if isinstance(found, nn.Module):
        found = found.state_dict()
    elif "state" in found:
        found = found["state"][0]
    maps = [tensor for tensor in found.values() if tensor.dim() == 4]
    assert maps
    assert all(tensor.is_contiguous() for tensor in maps)


@pytest.mark.parametrize("wrong", ["hidden.view(7, -1)", "hidden.view(-1, 255)", "hidden.view(torch.int64)"])
def test_a_view_that_is_wrong_stays_wrong(wrong: str) -> None:
    with workbench() as bench:
        awkward(bench)
        bench.train(1)
        bench.switchboard.switch(PLAN)
        hidden = torch.ones(5, 3, 4, 3, requires_grad=True).to(memory_format=torch.channels_last)
        with pytest.raises(RuntimeError):
            eval(wrong, {"hidden": hidden, "torch": torch})
