"""Where our own watching fails, the script must not: it trains on as if we had never been there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset, dataloader

from hasten.inside.observing.hooks import Hooks
from hasten.inside.observing.loaders import Loaders
from hasten.inside.observing.observer import Observer
from hasten.inside.observing.slot import ForwardSlot
from hasten.inside.seams import Seams
from hasten.inside.switch import Switchboard
from hasten.inside.training import NotApplicable, Training
from hasten.records.plan import Plan

PLACES: list[tuple[type[Any], str]] = [
    (Observer, "forward_begins"),
    (Observer, "forward_ends"),
    (Observer, "backward_begins"),
    (Observer, "backward_ends"),
    (Observer, "data_waited"),
    (Observer, "epoch_began"),
    (Observer, "update_begins"),
    (Observer, "update_ends"),
    (Loaders, "batch_came"),
    (Loaders, "batch_trained"),
    (Hooks, "_consider"),
    (Training, "add_root"),
    (Training, "add_optimizer"),
]


class OurBug(Exception):
    pass


def losses_of_a_training() -> tuple[list[float], torch.nn.Module]:
    """Two epochs of four batches; the second has another optimizer."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    data = TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
    losses = []
    for _ in range(2):
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        for inputs, targets in DataLoader(data, batch_size=8, shuffle=True):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            torch.autograd.backward(loss)
            optimizer.step()
            losses.append(loss.item())
    return losses, model


@pytest.fixture
def failures() -> Iterator[list[BaseException]]:
    """What our seams gave up for; they are undone at the end in any case."""
    found: list[BaseException] = []
    seams = Seams(found.append)
    Hooks(Training(torch, seams, 2**32), Observer(lambda step: None), lambda: None).install()
    yield found
    seams.undo_all()


@pytest.mark.parametrize(("owner", "name"), PLACES, ids=[name for _, name in PLACES])
def test_the_training_is_the_same_and_every_seam_is_taken_back(
    owner: type[Any], name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    plain, _ = losses_of_a_training()
    replaced = [
        (torch.Tensor, "backward"),
        (torch.autograd, "backward"),
        (torch.nn.Module, "__call__"),
        (torch.optim.Optimizer, "__init__"),
        (DataLoader, "__iter__"),
        (dataloader._BaseDataLoaderIter, "__next__"),
    ]
    before = [getattr(*place) for place in replaced]

    def fail(*_: Any) -> None:
        raise OurBug(name)

    monkeypatch.setattr(owner, name, fail)
    failures = request.getfixturevalue("failures")  # now our seams come in
    losses, model = losses_of_a_training()
    assert losses == plain
    assert [str(failure) for failure in failures] == [name]
    assert [getattr(*place) for place in replaced] == before
    assert not isinstance(model._compiled_call_impl, ForwardSlot)


def test_an_error_of_the_scripts_own_passes_through_and_gives_nothing_up(
    failures: list[BaseException],
) -> None:
    model = torch.nn.Linear(4, 1)
    with pytest.raises(RuntimeError, match="shape"):
        model(torch.ones(2, 5))
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar"):
        model(torch.ones(2, 4)).backward()
    assert failures == []


def test_without_anybody_to_tell_the_error_is_raised() -> None:
    def fail() -> None:
        raise OurBug

    with pytest.raises(OurBug):
        Seams().watching(fail)()


def test_a_technique_that_fails_unforeseen_is_not_applicable(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OurBug("of an unheard-of kind")

    monkeypatch.setattr("hasten.inside.techniques.bf16.Bf16.install", fail)
    board = Switchboard(Training(torch, Seams(), 2**32))
    with pytest.raises(NotApplicable, match="failed here with OurBug: of an unheard-of kind"):
        board.switch(Plan({"bf16": {}}))
    assert not board.plan
