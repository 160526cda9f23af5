"""Samples of a step where no loader tells them: of the forward passes that its backward passes belong to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from hasten.inside.observing import passes as module
from hasten.inside.observing.hooks import Hooks
from hasten.inside.observing.observer import Observer
from hasten.inside.observing.raw_step import RawStep
from hasten.inside.seams import Seams
from hasten.inside.training import Training
from hasten.records.plan import Plan
from hasten.testing.workbench import Workbench, normed_cnn, workbench

STEPS = 4


@pytest.fixture
def steps() -> Iterator[list[RawStep]]:
    seams, seen = Seams(), list[RawStep]()
    try:
        Hooks(Training(torch, seams, 2**32), Observer(seen.append), lambda: None).install()
        yield seen
    finally:
        seams.undo_all()


def sgd(*models: nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD([p for model in models for p in model.parameters()], lr=1e-3)


def batch(count: int) -> Tensor:
    return torch.randn(count, 4)


def go_back(loss: Tensor) -> None:
    loss.backward()  # type: ignore[no-untyped-call]


class Head(nn.Module):
    """Gives a pair, of which a loss may use either."""

    def __init__(self) -> None:
        super().__init__()
        self.policy, self.value = nn.Linear(4, 2), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.policy(x), self.value(x)


Loop = Callable[[], None]
LOOPS: dict[str, tuple[Loop, int]] = {}


def loop(name: str, samples: int) -> Callable[[Loop], Loop]:
    """A training of some steps, of ``samples`` each; 0 if that is not clear."""

    def add(train: Loop) -> Loop:
        LOOPS[name] = (train, samples)
        return train

    return add


@loop("one batch", 32)
def _one_batch() -> None:
    model = nn.Linear(4, 2)
    optimizer = sgd(model)
    for _ in range(STEPS):
        go_back(model(batch(32)).square().mean())
        optimizer.step()


@loop("micro-batches", 4 * 32)
def _micro_batches() -> None:
    model = nn.Linear(4, 2)
    optimizer = sgd(model)
    for _ in range(STEPS):
        for _ in range(4):
            go_back(model(batch(32)).square().mean() / 4)
        optimizer.step()


@loop("twelve micro-batches in one place", 12 * 24)
def _in_place() -> None:
    model, place = nn.Linear(4, 2), torch.empty(24, 4)
    optimizer = sgd(model)
    for _ in range(STEPS):
        for _ in range(12):
            go_back(model(place.copy_(batch(24))).square().mean())
        optimizer.step()


@loop("micro-batches and one backward pass", 3 * 10 + 7)
def _summed() -> None:
    model = nn.Linear(4, 2)
    optimizer = sgd(model)
    for _ in range(STEPS):
        go_back(torch.stack([model(batch(n)).square().mean() for n in (10, 10, 10, 7)]).sum())
        optimizer.step()


@loop("actions, then a batch of memories", 128)
def _memories() -> None:
    model = nn.Linear(4, 2)
    optimizer = sgd(model)
    for step in range(STEPS):
        for _ in range(step % 3):
            model(batch(1)).argmax().item()  # without no_grad, as many do
        go_back(model(batch(128)).square().mean())
        optimizer.step()


@loop("actions whose graph is still there", 128)
def _kept_graph() -> None:
    model = nn.Linear(4, 2)
    optimizer = sgd(model)
    for _ in range(STEPS):
        kept = [model(batch(1)) for _ in range(3)]
        go_back(model(batch(128)).square().mean())
        optimizer.step()
        assert kept


@loop("actions without gradients", 256)
def _no_gradients() -> None:
    model = nn.Linear(4, 2)
    optimizer = sgd(model)
    for _ in range(STEPS):
        with torch.no_grad():
            model(batch(1))
        go_back(model(batch(256)).square().mean())
        optimizer.step()


@loop("an episode, move by move", 43)
def _episode() -> None:
    model = nn.Linear(4, 2)
    optimizer = sgd(model)
    for _ in range(STEPS):
        go_back(torch.stack([model(batch(1)).logsumexp(1) for _ in range(43)]).sum())
        optimizer.step()


@loop("an episode of states without a batch", 0)
def _no_batch() -> None:
    model = nn.Linear(4, 2)
    optimizer = sgd(model)
    for _ in range(STEPS):
        go_back(torch.stack([model(torch.randn(4)).sum() for _ in range(9)]).sum())
        optimizer.step()


@loop("a rollout, then a batch of it", 64)
def _rollout() -> None:
    model = Head()
    optimizer = sgd(model)
    for _ in range(STEPS):
        values = [model(batch(16))[1].detach() for _ in range(8)]
        policy, value = model(torch.randn(64, 4))
        go_back(policy.square().mean() + (value - values[0].mean()).square().mean())
        optimizer.step()


@loop("the second of two outputs", 20)
def _second_output() -> None:
    model = Head()
    optimizer = sgd(model)
    for _ in range(STEPS):
        model(batch(3))
        go_back(model(batch(20))[1].mean())
        optimizer.step()


@loop("actor and critic of the same states", 50)
def _actor_critic() -> None:
    actor, critic = nn.Linear(4, 2), nn.Linear(4, 1)
    optimizer = sgd(actor, critic)
    for _ in range(STEPS):
        states = batch(50)
        go_back(actor(states).square().mean() + critic(states).mean())
        optimizer.step()


@loop("one module after the other", 30)
def _one_after_the_other() -> None:
    encoder, decoder = nn.Linear(4, 6), nn.Linear(6, 4)
    optimizer = sgd(encoder, decoder)
    for _ in range(STEPS):
        go_back(decoder(encoder(batch(30)).relu()).square().mean())
        optimizer.step()


@loop("two heads of one batch", 32)
def _two_heads() -> None:
    model = nn.Linear(4, 2)
    optimizer = sgd(model)
    for _ in range(STEPS):
        x = batch(32)
        go_back(model(x)[:, 0].mean() + model(x)[:, 1].square().mean())
        optimizer.step()


@loop("a cell that goes on from what it returned", 12)
def _cell() -> None:
    model = nn.GRUCell(4, 6)
    optimizer = sgd(model)
    for _ in range(STEPS):
        state, states = torch.zeros(12, 6), []
        for _ in range(9):
            state = model(batch(12), state)
            states.append(state)
        go_back(torch.stack(states).square().mean())
        optimizer.step()


@loop("a cell of which the last state counts", 12)
def _last_state() -> None:
    model = nn.GRUCell(4, 6)
    optimizer = sgd(model)
    for _ in range(STEPS):
        state = torch.zeros(12, 6)
        for _ in range(9):
            state = model(batch(12), state)
        go_back(state.square().mean())
        optimizer.step()


@loop("micro-batches of what a table of weights gives", 4 * 10)
def _after_a_table() -> None:
    table, model = nn.Parameter(torch.randn(50, 4)), nn.Linear(4, 2)
    optimizer = torch.optim.SGD([table, *model.parameters()], lr=1e-3)
    for _ in range(STEPS):
        for _ in range(4):
            go_back(model(table[torch.randint(50, (10,))]).square().mean())
        optimizer.step()


@loop("real and made", 2 * 64)
def _real_and_made() -> None:
    generator, critic = nn.Linear(4, 4), nn.Linear(4, 1)
    sgd(generator)
    of_critic = sgd(critic)
    for _ in range(STEPS):
        made = generator(batch(64)).detach()
        go_back(critic(made).mean() - critic(batch(64)).mean())
        of_critic.step()


@loop("a closure that is called again and again", 200)
def _closure() -> None:
    model, x = nn.Linear(4, 2), batch(200)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = model(x + 0).square().mean()
        go_back(loss)
        return loss

    for _ in range(STEPS):
        optimizer.step(closure)  # type: ignore[no-untyped-call]


@loop("two losses of one pass", 16)
def _two_losses() -> None:
    model = nn.Linear(4, 2)
    optimizer = sgd(model)
    for _ in range(STEPS):
        out = model(batch(16))
        out.mean().backward(retain_graph=True)
        go_back(out.square().mean())
        optimizer.step()


@loop("an earlier pass, differentiated later", 8 + 8)
def _later() -> None:
    model = nn.Linear(4, 2)
    optimizer = sgd(model)
    for _ in range(STEPS):
        first, second = model(batch(8)), model(batch(8))
        go_back(second.mean())
        go_back(first.mean())
        optimizer.step()


class Flat(nn.Module):
    """A language model that returns a row of scores for each token."""

    def __init__(self, positions_first: bool = False) -> None:
        super().__init__()
        self.embedding, self.scores = nn.Embedding(9, 6), nn.Linear(6, 9)
        self.cell = nn.GRU(6, 6, batch_first=not positions_first)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.scores(self.cell(self.embedding(ids))[0]).view(ids.numel(), 9)
        return scores, nn.functional.cross_entropy(scores, ids.flatten())


@loop("sequences of which a row for each token comes back", 12)
def _flat() -> None:
    model = Flat()
    optimizer = sgd(model)
    for _ in range(STEPS):
        go_back(model(torch.randint(9, (12, 16)))[1])
        optimizer.step()


@loop("a row for each token, where time comes first", 0)
def _flat_time_first() -> None:
    model = Flat(positions_first=True)
    optimizer = sgd(model)
    for _ in range(STEPS):
        go_back(model(torch.randint(9, (16, 12)))[1])
        optimizer.step()


@loop("rows that become others", 0)
def _other_rows() -> None:
    model = nn.Sequential(nn.Linear(4, 6), nn.Unflatten(1, (3, 2)), nn.Flatten(0, 1))
    optimizer = sgd(model)
    for _ in range(STEPS):
        go_back(model(batch(8)).square().mean())
        optimizer.step()


@loop("time comes first", 0)
def _time_first() -> None:
    model = nn.GRU(4, 3)
    optimizer = sgd(model)
    for _ in range(STEPS):
        go_back(model(torch.randn(20, 5, 4))[0].mean())
        optimizer.step()


@loop("by autograd.grad", 24)
def _by_grad() -> None:
    model = nn.Linear(4, 2)
    optimizer = sgd(model)
    for _ in range(STEPS):
        model(batch(2))
        loss = model(batch(24)).square().mean()
        for p, gradient in zip(
            model.parameters(), torch.autograd.grad(loss, list(model.parameters())), strict=True
        ):
            p.grad = gradient
        optimizer.step()


@loop("a loader that was read to the end before", 32)
def _read_before() -> None:
    x = torch.cat([x for (x,) in DataLoader(TensorDataset(batch(320)), batch_size=100)])
    model = nn.Linear(4, 2)
    optimizer = sgd(model)
    for step in range(STEPS + 1):
        go_back(model(x[32 * step : 32 * step + 32]).square().mean())
        optimizer.step()


@loop("a loader for evaluation", 32)
def _evaluation() -> None:
    model, loader = nn.Linear(4, 2), DataLoader(TensorDataset(batch(50)), batch_size=50)
    optimizer = sgd(model)
    for _ in range(STEPS):
        go_back(model(batch(32)).square().mean())
        optimizer.step()
        with torch.no_grad():
            for (x,) in loader:
                model(x)


@pytest.mark.attack("truth")
@pytest.mark.parametrize("name", LOOPS)
def test_samples_are_those_that_backward_passes_belong_to(name: str, steps: list[RawStep]) -> None:
    train, samples = LOOPS[name]
    train()
    assert [step.inputs for step in steps[-STEPS:]] == [samples] * STEPS
    assert [step.samples for step in steps[-STEPS:]] == [0] * STEPS


PLANS: dict[str, dict[str, Any]] = {
    "bf16": {},
    "channels_last": {},
    "fused_optimizer": {"form": "foreach"},
    "zero_grad_to_none": {},
    "optimizer_in_backward": {},
    "drop_bias": {},
    "compile": {"backend": "eager"},
}


@pytest.mark.attack("truth")
@pytest.mark.parametrize("name", PLANS)
def test_samples_are_counted_alike_under_every_technique(name: str) -> None:
    """Else times per sample of two plans would be divided by different numbers."""

    def train(bench: Workbench) -> list[int]:
        for _ in range(3):
            bench.optimizer.zero_grad(set_to_none=False)
            bench.model(torch.randn(2, 3, 8, 8)).argmax().item()
            losses = [bench.model(torch.randn(n, 3, 8, 8)).square().mean() for n in (6, 5)]
            go_back(torch.stack(losses).sum())
            bench.optimizer.step()
        return [step.inputs for step in bench.steps[-3:]]

    with workbench(make_model=normed_cnn, make_optimizer=lambda p: torch.optim.Adam(p, lr=1e-4)) as bench:
        plain = train(bench)
        bench.switchboard.switch(Plan({name: PLANS[name]}))
        under = train(bench)
    assert plain == under == [11] * 3


def test_numbers_that_went_in_are_counted_where_samples_are_not_clear(steps: list[RawStep]) -> None:
    """Without a loader they tell how large a batch was: of sequences with the time first, for example."""
    model = nn.LSTM(4, 2)
    optimizer = sgd(model)
    for length in (3, 9, 5):
        go_back(model(torch.randn(length, 8, 4))[0].square().mean())
        optimizer.step()
    assert [(step.inputs, step.elements) for step in steps] == [(0, length * 32) for length in (3, 9, 5)]


def test_numbers_of_several_passes_add_up(steps: list[RawStep]) -> None:
    model = nn.Linear(4, 2)
    optimizer = sgd(model)
    for rows in (3, 9):
        for _ in range(2):
            go_back(model(batch(rows)).square().mean())
        optimizer.step()
    assert [(step.inputs, step.elements) for step in steps] == [(6, 24), (18, 72)]


def test_a_loaders_batches_are_counted_by_the_loader(steps: list[RawStep]) -> None:
    model = nn.Linear(4, 2)
    optimizer = sgd(model)
    for (x,) in DataLoader(TensorDataset(batch(40)), batch_size=10):
        go_back(model(x[:5]).square().mean())
        optimizer.step()
    assert [(step.samples, step.inputs, step.elements) for step in steps] == [(10, 0, 40)] * 4


def test_a_graph_that_is_too_large_is_not_clear(
    steps: list[RawStep], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_NODES", 10)
    model = nn.Linear(4, 2)
    optimizer = sgd(model)
    loss = model(batch(1)).sum() + model(batch(32)).square().mean()
    for _ in range(20):
        loss = loss * 1.0
    go_back(loss)
    optimizer.step()
    assert steps[0].inputs == 0


def test_when_several_passes_come_late_one_step_is_unclear(
    steps: list[RawStep], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where each backward pass has had one forward pass for long, passes are not marked."""
    monkeypatch.setattr(module, "_MARKED_STEPS", 2)
    model = nn.Linear(4, 2)
    optimizer = sgd(model)
    for count in (1, 1, 3, 3, 3):
        go_back(torch.stack([model(batch(5)).mean() for _ in range(count)]).sum())
        optimizer.step()
    assert [step.inputs for step in steps] == [5, 5, 0, 15, 15]


def test_graphs_are_not_kept_alive(steps: list[RawStep]) -> None:
    import weakref

    model = nn.Linear(4, 2)
    sgd(model)
    given = batch(1)
    ref = weakref.ref(given)
    model(given).argmax().item()
    del given
    assert ref() is None
