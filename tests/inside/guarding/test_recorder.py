"""What the guard compares is written down exactly, and noise touches nothing but what it is meant to."""

from __future__ import annotations

import random
from collections import UserDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from hasten.inside.guarding.perturber import Perturber
from hasten.inside.guarding.recorder import Recorder
from hasten.inside.observing.hooks import Hooks
from hasten.inside.observing.observer import Observer
from hasten.inside.observing.raw_step import RawStep
from hasten.inside.random_state import fingerprint
from hasten.inside.seams import Seams
from hasten.inside.training import Training
from hasten.records.trace import Mode


class Session:
    """A small script under the seams of a worker, with a recorder and perhaps a perturber."""

    def __init__(self, seams: Seams) -> None:
        self.training = Training(torch, seams, available_bytes=0)
        self.hooks = Hooks(self.training, Observer(self._step_ended), lambda: None)
        self.hooks.install()
        self.recorder = Recorder(self.training)
        self.hooks.on_batch.append(self.recorder.batch_came)

    def _step_ended(self, step: RawStep) -> None:
        self.recorder.step_ended(step)

    def perturb(self, relative: float, redraw: bool = False, seed: int = 0) -> None:
        Perturber(self.training, relative, redraw, seed)


@pytest.fixture
def session(seams: Seams) -> Session:
    return Session(seams)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layer(inputs)
        return out


def train(
    steps: int, each_step: Callable[[], Any] = lambda: None, dropout: float = 0.0
) -> tuple[Net, list[float]]:
    torch.manual_seed(1)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        output = nn.functional.dropout(model(torch.ones(2, 4)), dropout)
        loss: Any = (output - 1).pow(2).mean()
        loss.backward()
        each_step()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


def test_where_a_training_begins_anew_is_written_down(session: Session) -> None:
    model, other = Net(), Net()
    train_one(model, 3)
    model.load_state_dict(other.state_dict())
    other.load_state_dict(model.state_dict())  # which is not trained
    train_one(model, 2, made := torch.optim.SGD(model.parameters(), lr=0.1))
    other.load_state_dict(model.state_dict())
    train_one(model, 2, made)
    made.zero_grad()
    model.load_state_dict(other.state_dict())
    train_one(model, 2, made)
    begun = [number for number, step in enumerate(session.recorder.trace(), 1) if step.begins]
    assert begun == [4, 8]


def train_one(model: Net, steps: int, optimizer: torch.optim.Optimizer | None = None) -> None:
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()


def test_noise_may_begin_later(session: Session) -> None:
    plain = train(4)[1]
    Perturber(session.training, 2.0**-8, False, 0, after=2)

    def count() -> None:
        session.training.steps += 1  # as at the end of a step

    session.training.steps = 0
    losses = train(4, count)[1]
    assert losses[:2] == plain[:2]
    assert losses[3] != plain[3]


# ---- digests
def digest(batch: Any) -> str:
    seams = Seams()
    recorder = Recorder(Training(torch, seams, 0))
    seams.undo_all()
    recorder.batch_came(batch)
    (found,) = recorder._batches
    return found


BATCH = torch.arange(6, dtype=torch.float32).reshape(2, 3)


def with_one_byte_changed() -> torch.Tensor:
    changed = BATCH.clone()
    changed.view(torch.uint8)[1, 5] ^= 1
    return changed


CONTAINERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "a tensor": lambda t: t,
    "a list": lambda t: [t, torch.zeros(2)],
    "a tuple in a tuple": lambda t: ((t,), "text"),
    "a dict": lambda t: {"inputs": t},
    "a mapping that is no dict": lambda t: UserDict(inputs=t),
    "a numpy array": lambda t: t.numpy(),
    "a dict of numpy arrays": lambda t: {"x": t.numpy()},
    "a part of a tensor": lambda t: torch.cat([t, t], dim=1)[:, ::2],
}


@pytest.mark.parametrize("kind", CONTAINERS)
def test_a_digest_changes_with_one_byte(kind: str) -> None:
    make = CONTAINERS[kind]
    assert digest(make(BATCH)) == digest(make(BATCH.clone()))
    assert digest(make(BATCH)) != digest(make(with_one_byte_changed()))


OTHERWISE: list[tuple[Any, Any]] = [
    (BATCH, BATCH.reshape(3, 2)),
    (BATCH, BATCH.view(torch.int32)),
    (BATCH, BATCH.flip(0)),
    ([BATCH], (BATCH,)),
    ([BATCH, BATCH], [BATCH]),
    ({"a": BATCH}, {"b": BATCH}),
    ([BATCH, 1], [BATCH, 2]),
    (["a"], ["b"]),
    ([True], [1]),
    (torch.tensor(0.0), torch.tensor(-0.0)),
    (np.zeros(2), np.zeros(2, np.float32)),
    (torch.zeros(0, 2), torch.zeros(0, 3)),
]


@pytest.mark.parametrize(("a", "b"), OTHERWISE)
def test_other_batches_have_other_digests(a: Any, b: Any) -> None:
    assert digest(a) != digest(b)


@pytest.mark.parametrize("batch", [torch.ones(2, 3).t(), torch.zeros(0), torch.ones(2, requires_grad=True)])
def test_any_tensor_has_a_digest(batch: torch.Tensor) -> None:
    assert digest(batch) == digest(batch.detach().clone().contiguous())


# ---- a step
def test_a_step_is_written_down(session: Session) -> None:
    model, losses = train(3)
    trace = session.recorder.trace()
    assert [step.losses for step in trace] == [(loss,) for loss in losses]
    assert [step.rates for step in trace] == [((0.1,),)] * 3
    assert [step.optimizer for step in trace] == [0, 0, 0]
    assert [step.modes for step in trace] == [(Mode(True),)] * 3
    assert model.training


def test_samples_are_told_apart_by_epoch_whatever_the_order(session: Session) -> None:
    """Two loaders' epochs in turns, the second given up midway."""
    data = TensorDataset(torch.arange(24.0).reshape(6, 4))
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for number, (batch,) in enumerate(DataLoader(data, batch_size=2, shuffle=True)):
            if number == 1:
                next(iter(DataLoader(data, batch_size=3)))
            torch.autograd.backward(model(batch).sum())
            optimizer.step()
    epochs: dict[int, list[str]] = {}
    for step in session.recorder.trace():
        for came in step.samples:
            assert came.batches == (2 if len(came.digests) == 3 else 3)
            epochs.setdefault(came.epoch, []).extend(came.digests)
    assert [len(digests) for digests in epochs.values()] == [6, 3, 6, 3]
    assert sorted(epochs[0]) == sorted(epochs[2])
    assert len(set(epochs[0])) == 6


@dataclass
class Answer:
    logits: torch.Tensor


class Answering(Net):
    def forward(self, inputs: torch.Tensor) -> Any:
        return Answer(super().forward(inputs))


def test_noise_reaches_what_a_dataclass_holds(session: Session) -> None:
    model = Answering()
    plain = model(torch.ones(2, 4)).logits
    session.perturb(1e-3)
    noisy = model(torch.ones(2, 4)).logits
    assert not torch.equal(noisy, plain)
    assert torch.allclose(noisy, plain, rtol=1e-2)


def test_batches_belong_to_the_step_that_they_came_for(session: Session) -> None:
    batches = iter([[BATCH], [BATCH, BATCH + 1], []])

    def pull() -> None:
        for batch in next(batches):
            session.recorder.batch_came(batch)

    train(3, pull)
    first, second, third = (step.batches or () for step in session.recorder.trace())
    assert first == second[:1]
    assert len(second) == len(set(second)) == 2
    assert third == ()


class Reads(Net):
    def forward(self, inputs: Any) -> torch.Tensor:
        rows, _, scale = inputs["rows"], inputs["counts"], inputs["scale"]
        out: torch.Tensor = self.layer(torch.as_tensor(rows).float() * scale)
        return out


def inputs_of(session: Session, *batches: dict[str, Any]) -> list[tuple[str, ...]]:
    model = Reads()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in batches:
        model(batch).sum().backward()
        optimizer.step()
    return [step.inputs for step in session.recorder.trace()]


def test_what_models_are_given_without_a_loader_is_written_down(session: Session) -> None:
    """Whole numbers, in tensors and arrays: what is computed from weights seldom is one."""
    batch = {"rows": torch.ones(2, 4, dtype=torch.int64), "counts": np.arange(3), "scale": torch.ones(1)}

    def cut(root: nn.Module, call: Any, args: Any, kwargs: Any) -> object:
        return call({**args[0], "rows": args[0]["rows"][:1]})

    session.training.forward_wrappers["cuts"] = cut
    first, same, scaled, *others = inputs_of(
        session,
        batch,
        {**batch},
        {**batch, "scale": torch.zeros(1)},
        {**batch, "rows": 2 * torch.ones(2, 4, dtype=torch.int64)},
        {**batch, "rows": torch.ones(3, 4, dtype=torch.int64)},
        {**batch, "counts": np.arange(1, 4)},
    )
    assert len(first) == 2
    assert first == same == scaled
    assert len({first, *others}) == 4


def test_what_comes_from_a_loader_is_no_input_of_the_scripts_own(session: Session) -> None:
    model = Reads()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (rows,) in DataLoader(TensorDataset(torch.ones(4, 4, dtype=torch.int64)), batch_size=2):
        model({"rows": rows, "counts": None, "scale": 1.0}).sum().backward()
        optimizer.step()
    assert [(step.inputs, len(step.batches or ())) for step in session.recorder.trace()] == [((), 1)] * 2


def test_train_and_eval_flags_are_told_apart(session: Session) -> None:
    model, _ = train(1)
    model.eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss: Any = model(torch.ones(2, 4)).sum()
    loss.backward()
    optimizer.step()
    assert session.recorder.trace()[-1].modes == (Mode(False),)


DRAWS: dict[str, Callable[[], Any]] = {
    "torch": lambda: torch.rand(1),
    "numpy": lambda: np.random.rand(),
    "random": lambda: random.random(),
}


@pytest.mark.parametrize("by", DRAWS)
def test_one_number_drawn_more_is_seen(session: Session, by: str) -> None:
    turn = iter(range(3))

    def now_and_then() -> None:
        if next(turn) == 1:
            DRAWS[by]()

    train(3, now_and_then)
    first, second, third = (step.streams for step in session.recorder.trace())
    assert first != second == third


def test_recording_changes_nothing(session: Session) -> None:
    model, losses = train(4, dropout=0.5)
    streams = fingerprint(torch)
    session.training.seams.undo_all()
    plain_model, plain_losses = train(4, dropout=0.5)
    assert losses == plain_losses
    assert fingerprint(torch) == streams
    assert torch.equal(model.layer.weight, plain_model.layer.weight)


# ---- noise
def test_noise_draws_nothing_from_the_scripts_streams(session: Session) -> None:
    session.perturb(1e-3)
    train(3, dropout=0.5)
    with_noise = [step.streams for step in session.recorder.trace()]
    session.training.seams.undo_all()
    with_none = Session(Seams())
    try:
        train(3, dropout=0.5)
        assert [step.streams for step in with_none.recorder.trace()] == with_noise
    finally:
        with_none.training.seams.undo_all()


def losses_with(session: Session, *noise: Any) -> list[float]:
    session.perturb(*noise)
    return train(5)[1]


def test_noise_is_of_the_asked_size(session: Session) -> None:
    perturbed = losses_with(session, 1e-4)
    session.training.seams.undo_all()
    plain = train(5)[1]
    departures = [abs(a - b) / b for a, b in zip(perturbed, plain, strict=True)]
    assert all(0 < departure < 1e-2 for departure in departures)


def test_noise_of_size_zero_is_none(session: Session) -> None:
    perturbed = losses_with(session, 0.0)
    session.training.seams.undo_all()
    assert perturbed == train(5)[1]


@pytest.mark.parametrize(("seed", "same"), [(0, True), (1, False)])
def test_the_noise_is_the_seeds(session: Session, seed: int, same: bool) -> None:
    first = losses_with(session, 1e-4, False, 0)
    session.training.seams.undo_all()
    again = Session(Seams())
    try:
        assert (losses_with(again, 1e-4, False, seed) == first) is same
    finally:
        again.training.seams.undo_all()


def test_gradients_are_perturbed_at_the_step(session: Session) -> None:
    session.perturb(1e-2)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    loss: Any = model(torch.ones(2, 4)).sum()
    loss.backward()
    assert model.layer.weight.grad is not None
    before = model.layer.weight.grad.clone()
    optimizer.step()
    departure = (model.layer.weight.grad - before).abs() / before.abs()
    assert 0 < departure.max() < 0.1


def test_evaluation_is_not_perturbed(session: Session) -> None:
    model, _ = train(1)
    session.perturb(1e-2)
    with torch.no_grad():
        assert torch.equal(model(torch.ones(2, 4)), model.layer(torch.ones(2, 4)))


def test_other_random_numbers_are_drawn_where_they_are_asked_for(session: Session) -> None:
    session.perturb(0.0, redraw=True)
    redrawn = train(3, dropout=0.5)[1]
    session.training.seams.undo_all()
    plain = train(3, dropout=0.5)[1]
    assert redrawn != plain
