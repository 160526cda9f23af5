"""A model that becomes smaller while it trains, and what its script saves and loads."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn

from hasten.inside.techniques.prune import Prune
from hasten.records.plan import BASELINE, Plan
from hasten.testing.workbench import Workbench, workbench

from .made_up import facts, machine, root

pytest.importorskip("torch_pruning", reason="torch-pruning is not installed: pip install 'hasten[prune]'")

AFTER = 3


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.end = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.end(self.second(torch.relu(self.norm(self.first(x))))))


def residual() -> nn.Module:
    """A skip connection, groups, a function that is not zero at zero, and flattened channels."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        Block(16),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 16, 3, groups=2),
        nn.Sigmoid(),
        nn.Flatten(),
        nn.Dropout(0.1),
        nn.Linear(64, 20),
        nn.GELU(),
        nn.Linear(20, 4),
    )


OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "Adam": lambda p: torch.optim.Adam(p, 1e-3),
    "AMSGrad, fused": lambda p: torch.optim.AdamW(p, 1e-3, amsgrad=True, fused=True),
    "SGD with momentum": lambda p: torch.optim.SGD(p, 0.01, momentum=0.9),
}


@contextmanager
def pruned(
    make: Callable[[], nn.Module] = residual,
    optimizer: Callable[..., Any] = OPTIMIZERS["Adam"],
    steps: int = 6,
    **settings: Any,
) -> Iterator[Workbench]:
    """A training with ``prune``, which cuts after the third of ``steps`` steps."""
    with workbench() as bench:
        bench.model = make()
        bench.optimizer = optimizer(bench.model.parameters())
        bench.switchboard.switch(Plan({"prune": {"ratio": 0.4, "after": AFTER, **settings}}))
        bench.train(steps)
        yield bench


def proof(bench: Workbench) -> Any:
    (found,) = bench.switchboard.proofs()
    return found


def shapes(state: Any) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in state.items()}


@pytest.mark.parametrize("scope", ["local", "global"])
@pytest.mark.parametrize("criterion", ["l1", "l2"])
def test_the_model_is_smaller_and_trains_on(scope: str, criterion: str) -> None:
    with pruned(scope=scope, criterion=criterion) as bench:
        count = sum(p.numel() for p in bench.model.parameters())
        full = sum(p.numel() for p in residual().parameters())
        assert count < 0.8 * full
        assert proof(bench).effective
        assert f"parameters {full:,} to {count:,}, multiply-accumulates" in proof(bench).evidence
        assert bench.model[-1].out_features == 4  # type: ignore[index]
        before = [p.detach().clone() for p in bench.model.parameters()]
        bench.train(1)
        assert all(not torch.equal(a, b) for a, b in zip(before, bench.model.parameters(), strict=True))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_checkpoint_computes_the_same_in_the_scripts_own_model(optimizer: str) -> None:
    with pruned(optimizer=OPTIMIZERS[optimizer]) as bench:
        plain = residual()
        state = bench.model.state_dict()
        assert shapes(state) == shapes(plain.state_dict())
        plain.load_state_dict(state)
        pictures = torch.randn(5, 3, 8, 8)
        bench.model.eval()
        found, expected = plain.eval()(pictures), bench.model(pictures)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        fresh = OPTIMIZERS[optimizer](plain.parameters())
        fresh.load_state_dict(bench.optimizer.state_dict())
        for parameter in plain.parameters():
            for name, value in fresh.state[parameter].items():
                assert value.numel() == 1 or value.shape == parameter.shape, name
        plain.train()(pictures).sum().backward()
        fresh.step()


def test_removed_channels_are_zero_in_the_checkpoint_and_kept_ones_are_as_trained() -> None:
    with pruned() as bench:
        state, live = bench.model.state_dict(), dict(bench.model.named_parameters())
        gone = state["1.weight"].eq(0)  # of a batch norm: nothing of such a channel reaches the next layer
        assert 0 < gone.sum() < 16
        for name in ("0.weight", "0.bias", "1.bias", "1.running_mean"):
            assert state[name][gone].eq(0).all(), name
            assert state[name][~gone].ne(0).any(), name
        assert state["1.running_var"][gone].eq(1).all()
        torch.testing.assert_close(state["0.weight"][~gone], live["0.weight"].detach())


def test_checkpoints_of_either_size_load_and_training_goes_on_from_them() -> None:
    with pruned() as bench:
        model, optimizer = (
            copy.deepcopy(bench.model.state_dict()),
            copy.deepcopy(bench.optimizer.state_dict()),
        )
        live = [p.detach().clone() for p in bench.model.parameters()]
        moments = [bench.optimizer.state[p]["exp_avg"].clone() for p in bench.model.parameters()]
        bench.train(2)
        bench.model.load_state_dict(model)
        bench.optimizer.load_state_dict(optimizer)
        for before, moment, now in zip(live, moments, bench.model.parameters(), strict=True):
            torch.testing.assert_close(before, now.detach(), rtol=0, atol=0)
            torch.testing.assert_close(moment, bench.optimizer.state[now]["exp_avg"], rtol=0, atol=0)
        bench.train(1)


def test_a_part_of_the_model_is_saved_at_full_size_too() -> None:
    with pruned() as bench:
        part: Any = bench.model[3]  # type: ignore[index]
        assert shapes(part.state_dict()) == shapes(Block(16).state_dict())


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_optimizers_state_is_cut_like_its_parameters(optimizer: str) -> None:
    """The update after the cut is that of the kept places of a training that was not cut."""
    with pruned(optimizer=OPTIMIZERS[optimizer], steps=AFTER) as bench:
        full_state = copy.deepcopy(bench.optimizer.state_dict()["state"])
        for index, parameter in enumerate(bench.model.parameters()):
            for name, value in bench.optimizer.state[parameter].items():
                if value.numel() > 1:
                    assert value.shape == parameter.shape
                    assert full_state[index][name].numel() >= value.numel()
                    assert full_state[index][name].sum() == pytest.approx(float(value.sum()), abs=1e-4)
            assert parameter.grad is None or parameter.grad.shape == parameter.shape


def test_each_training_of_a_script_is_counted_by_itself() -> None:
    """As the folds of a cross-validation are, each with a model of its own."""
    full = sum(p.numel() for p in residual().parameters())
    with pruned() as bench:
        for _ in range(2):
            bench.model = residual()
            bench.optimizer = OPTIMIZERS["Adam"](bench.model.parameters())
            bench.train(AFTER - 1)
            assert sum(p.numel() for p in bench.model.parameters()) == full
            bench.train(2)
            assert sum(p.numel() for p in bench.model.parameters()) < 0.8 * full
            assert proof(bench).effective


def test_models_that_train_together_are_cut_together() -> None:
    with workbench(make_model=residual) as bench:
        bench.switchboard.switch(Plan({"prune": {"ratio": 0.4, "after": AFTER}}))
        bench.train(1)
        other = residual()
        others = torch.optim.SGD(other.parameters())
        own = bench.loss_of
        bench.loss_of = lambda model, x, y: own(model, x, y) + own(other, x, y)
        bench.train(1)
        full = sum(p.numel() for p in residual().parameters())
        counts = [sum(p.numel() for p in m.parameters()) for m in (bench.model, other)]
        assert counts == [full, full]
        bench.train(1)
        assert all(sum(p.numel() for p in m.parameters()) < full for m in (bench.model, other))
        del others


def test_until_then_the_training_is_as_it_was_and_no_random_number_is_drawn_for_the_cut() -> None:
    streams = []
    for plan in (BASELINE, Plan({"prune": {"ratio": 0.4, "after": AFTER}})):
        with workbench() as bench:
            bench.model = residual()
            bench.optimizer = torch.optim.Adam(bench.model.parameters())
            torch.manual_seed(4)
            bench.switchboard.switch(plan)
            streams.append((bench.train(AFTER), torch.get_rng_state().tolist()))
    assert streams[0] == streams[1]


def test_the_proof_waits_for_the_cut_and_for_a_step() -> None:
    with pruned(steps=AFTER - 1) as bench:
        assert proof(bench).evidence == "nothing is cut before step 3, and 2 were taken"
        bench.train(1)
        assert not proof(bench).effective
        bench.train(1)
        assert proof(bench).effective


def test_what_is_cut_stays_cut_when_techniques_are_switched() -> None:
    with pruned() as bench:
        small = sum(p.numel() for p in bench.model.parameters())
        bench.training.changed = True
        bench.switchboard.refresh()
        bench.train(2)
        assert proof(bench).effective
        assert sum(p.numel() for p in bench.model.parameters()) == small
        assert shapes(bench.model.state_dict()) == shapes(residual().state_dict())


class Normed(nn.Module):
    """Only the rows between two linear layers can go: all others are mixed by a layer norm."""

    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Linear(192, 16)
        self.norm = nn.LayerNorm(16)
        self.wide = nn.Linear(16, 64)
        self.back = nn.Linear(64, 16)
        self.head = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.into(x.flatten(1))
        out: torch.Tensor = self.head(x + self.back(torch.relu(self.wide(self.norm(x)))))
        return out


def test_channels_that_a_layer_norm_mixes_stay() -> None:
    with pruned(Normed) as bench:
        assert proof(bench).effective, proof(bench).evidence
        model: Any = bench.model
        assert model.norm.normalized_shape == (16,)
        assert model.wide.out_features < 64


class Softmaxed(nn.Module):
    """A function that is not a module mixes the channels: only computing shows it."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.head = nn.Linear(192, 32), nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.wide(x.flatten(1)).softmax(1))
        return out


def shared() -> nn.Module:
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(192, 192), nn.ReLU(), nn.Linear(192, 192), nn.Linear(192, 4)
    )
    model[3].weight = model[1].weight
    return model


def one_layer() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 4))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (Softmaxed, "zeros in place of removed channels do not compute the same"),
        (one_layer, "there is no layer whose channels could be removed"),
        (shared, "there is no layer whose channels could be removed"),
    ],
)
def test_what_cannot_be_cut_is_left_as_it_is(make: Callable[[], nn.Module], reason: str) -> None:
    with pruned(make) as bench:
        assert not proof(bench).effective
        assert proof(bench).evidence.startswith(reason)
        assert shapes(dict(bench.model.named_parameters())) == shapes(dict(make().named_parameters()))


def test_a_copy_of_the_model_is_a_reason_to_leave_it() -> None:
    average = []

    def copied() -> nn.Module:
        model = residual()
        average.append(copy.deepcopy(model))
        return model

    with pruned(copied) as bench:
        assert proof(bench).evidence.startswith("the script keeps a copy of the model")


def test_state_of_another_shape_is_a_reason_to_leave_the_model() -> None:
    with pruned(optimizer=lambda p: torch.optim.Adafactor(p)) as bench:
        assert proof(bench).evidence.startswith("what Adafactor keeps for a parameter does not have")


def test_without_torch_pruning_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    reason = "torch-pruning is not installed here: pip install 'hasten[prune]'"
    assert Prune.refuse_machine(machine()) == [reason]
    assert Prune.refuse(facts()) == [reason]


def test_a_compiled_model_is_refused() -> None:
    assert Prune.refuse(facts()) == []
    (reason,) = Prune.refuse(facts(roots=(root(compiled=True),)))
    assert reason.startswith("the script compiles its model")


@pytest.mark.parametrize(
    ("settings", "after"),
    [({"ratio": 0.3}, 100), ({"ratio": 0.9, "after": 1, "criterion": "l2", "scope": "global"}, 1)],
)
def test_settings_that_can_be_carried_out(settings: dict[str, Any], after: int) -> None:
    Prune.check(settings)
    assert Prune.starts_after(settings) == after
    compile(Prune.by_hand(settings), "by hand", "exec")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "ratio"),
        ({"ratio": 1}, "ratio"),
        ({"ratio": 1.0}, "ratio"),
        ({"ratio": 0.3, "after": 0}, "after"),
        ({"ratio": 0.3, "after": True}, "after"),
        ({"ratio": 0.3, "criterion": "l3"}, "criterion must be one of l1, l2"),
        ({"ratio": 0.3, "scope": "all"}, "scope must be one of local, global"),
        ({"ratio": 0.3, "more": 1}, "found more"),
    ],
)
def test_settings_that_cannot(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Prune.check(settings)


def test_the_lines_by_hand_do_as_they_say() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.Linear(6, 20), nn.Linear(20, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.head(torch.relu(self.body(x)))
            return out

    model, inputs = Model(), torch.rand(3, 6)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
    names = {"step": 100, "model": model, "inputs": inputs, "optimizer": optimizer, "torch": torch}
    exec(Prune.by_hand({"ratio": 0.5}), names)
    assert model.body.out_features == 10
    assert model(inputs).shape == (3, 4)
    assert names["optimizer"].param_groups[0]["params"][0] is model.body.weight  # type: ignore[attr-defined]


def test_a_loop_under_autocast_is_no_obstacle() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16), pruned() as bench:
        assert proof(bench).effective, proof(bench).evidence


def test_an_error_in_a_copy_leaves_the_model_as_it_is_and_is_told() -> None:
    class Fragile(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wide, self.head = nn.Linear(192, 32), nn.Linear(32, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not self.training:
                raise RuntimeError("not in evaluation mode")
            out: torch.Tensor = self.head(self.wide(x.flatten(1)))
            return out

    with pruned(Fragile) as bench:
        assert proof(bench).evidence == "RuntimeError: not in evaluation mode"
        assert shapes(dict(bench.model.named_parameters())) == shapes(dict(Fragile().named_parameters()))
