"""Noise reaches every layer and nothing that it is not meant for."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

from hasten.inside.guarding.perturber import Perturber
from hasten.inside.observing.hooks import Hooks
from hasten.inside.observing.observer import Observer
from hasten.inside.seams import Seams
from hasten.inside.training import Training

SIZE = 1e-3
INPUTS = torch.linspace(-1, 1, 48).reshape(6, 8)


@pytest.fixture
def training() -> Iterator[Training]:
    seams = Seams()
    training = Training(torch, seams, available_bytes=0)
    Hooks(training, Observer(lambda step: None), lambda: None).install()
    try:
        yield training
    finally:
        seams.undo_all()


def perturb(training: Training, relative: float = SIZE) -> None:
    Perturber(training, relative, redraw=False, seed=0)


class Deep(nn.Module):
    """Keeps what each layer was handed."""

    def __init__(self, layers: int = 3) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(layers)])
        self.scale = nn.Parameter(torch.ones(8))
        self.seen: list[torch.Tensor] = []

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.seen = []
        for layer in self.layers:
            inputs = torch.tanh(layer(inputs))
            self.seen.append(inputs.detach().clone())
        return inputs * self.scale


def gradients(model: nn.Module, inputs: torch.Tensor = INPUTS) -> dict[str, torch.Tensor]:
    loss: Any = model(inputs).square().sum()
    loss.backward()
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return found


def departure(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    return float((ours - theirs).norm() / theirs.norm())


def test_every_layer_is_reached_forward_and_backward(training: Training) -> None:
    model = Deep()
    plain = gradients(model)
    seen = model.seen
    perturb(training)
    noisy = gradients(model)
    for before, after in zip(seen, model.seen, strict=True):
        assert SIZE / 10 < departure(after, before) < 10 * SIZE
    for name in plain:
        assert SIZE / 10 < departure(noisy[name], plain[name]) < 20 * SIZE, name


def test_the_gradients_noise_is_not_that_of_the_forward_pass(training: Training) -> None:
    """Of a linear layer, whose gradient does not depend on its output."""
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1, bias=False))
    inner: Any = model[0]
    came: list[torch.Tensor] = []

    def watch(module: nn.Module, args: Any, output: torch.Tensor) -> None:
        output.register_hook(came.append)  # type: ignore[no-untyped-call]

    inner.register_forward_hook(watch)
    for _ in range(2):
        loss: Any = model(INPUTS).sum()
        loss.backward()
        perturb(training)
    assert SIZE / 10 < departure(came[1], came[0]) < 10 * SIZE


def test_a_teacher_is_reached_in_steps_alone(training: Training) -> None:
    """A lower precision rounds there, too."""
    teacher, student = Deep().requires_grad_(False), Deep()
    optimizer = torch.optim.SGD(student.parameters(), lr=0.0)

    def aim() -> torch.Tensor:
        with torch.no_grad():
            found: torch.Tensor = teacher(INPUTS)
        gradients(student)
        return found

    plain = aim()
    assert training.is_helper(teacher)
    perturb(training)
    assert SIZE / 10 < departure(aim(), plain) < 10 * SIZE
    student.eval()
    assert torch.equal(aim(), plain)
    del optimizer


def test_what_is_called_outside_the_root_is_left_alone(training: Training) -> None:
    model, other = Deep(), nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    gradients(model)
    assert training.optimizers == [optimizer]
    plain = other(INPUTS)
    perturb(training)
    gradients(model)
    assert torch.equal(other(INPUTS), plain)
    assert not nn.modules.module._global_forward_hooks


def test_a_forward_pass_that_raises_leaves_no_hook(training: Training) -> None:
    model = Deep()
    gradients(model)
    perturb(training)
    parameters = dict(model.named_parameters())
    with pytest.raises(RuntimeError, match="shapes"):
        model(torch.ones(2, 3))
    assert not nn.modules.module._global_forward_hooks
    assert not nn.modules.module._global_forward_pre_hooks
    assert all(parameter is parameters[name] for name, parameter in model.named_parameters())


class Checkpointed(Deep):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            inputs = checkpoint(layer, inputs, use_reentrant=False)
        return inputs * self.scale


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.ReLU(inplace=True), nn.Linear(8, 8))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.body(inputs)
        return out.add_(1)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(2, 4, batch_first=True)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.lstm(inputs.reshape(6, 4, 2))[0]
        return out[:, -1]


class Penalised(Deep):
    """Differentiates within its forward pass, and again in the backward pass."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        inputs = inputs.clone().requires_grad_()
        out = super().forward(inputs)
        (slope,) = torch.autograd.grad(out.sum(), inputs, create_graph=True)
        return out + slope


def compiled(model: nn.Module) -> Any:
    return torch.compile(model, backend="eager")


MODELS: dict[str, Callable[[], Any]] = {
    "checkpointed": Checkpointed,
    "in place": InPlace,
    "an LSTM": Recurrent,
    "attention": lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
    "differentiated twice": Penalised,
    "compiled": lambda: compiled(Deep()),
    "compiled inside": lambda: nn.Sequential(compiled(Deep()), nn.Linear(8, 8)),
}


@pytest.mark.parametrize("kind", MODELS)
def test_other_models_train_with_noise_of_that_size(training: Training, kind: str) -> None:
    model = MODELS[kind]()
    inputs = INPUTS if kind != "attention" else INPUTS.reshape(2, 3, 8)
    plain = gradients(model, inputs)
    perturb(training)
    noisy = gradients(model, inputs)
    whole = departure(*(torch.cat([g.flatten() for g in one.values()]) for one in (noisy, plain)))
    assert SIZE / 10 < whole < 30 * SIZE


def test_probabilities_stay_below_one(training: Training) -> None:
    """A loss that is handed more raises."""
    model = nn.Sequential(nn.Linear(8, 4), nn.Sigmoid())
    bias: Any = model[0].bias
    nn.init.constant_(bias, 30.0)
    plain = model(INPUTS)
    perturb(training, 1e-2)
    noisy = model(INPUTS)
    assert not torch.equal(noisy, plain)
    assert float(noisy.detach().max()) == 1.0
    nn.functional.binary_cross_entropy(noisy, torch.ones_like(noisy)).backward()  # type: ignore[no-untyped-call]


def test_sums_that_cancel_get_noise_as_large_as_the_others(training: Training) -> None:
    """A gradient of nothing but rounding is what a lower precision makes larger, and Adam makes a step of."""
    perturb(training)
    parameter = nn.Parameter(torch.ones(1000))
    optimizer = torch.optim.SGD([parameter], lr=0.0)
    parameter.grad = torch.cat([torch.ones(500), torch.zeros(500)])
    optimizer.step()
    usual = SIZE * 0.5**0.5
    assert float(parameter.grad[500:].std()) == pytest.approx(usual, rel=0.2)
    assert float((parameter.grad[:500] - 1).std()) == pytest.approx(SIZE, rel=0.2)


def test_sparse_gradients_and_whole_numbers_are_passed_by(training: Training) -> None:
    model = nn.Embedding(5, 3, sparse=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    perturb(training)
    loss: Any = model(torch.tensor([1, 2])).sum()
    loss.backward()
    optimizer.step()
    assert model.weight.grad is not None
    assert model.weight.grad.is_sparse


def test_the_script_s_random_numbers_stay_where_they_were(training: Training) -> None:
    model = Deep()
    gradients(model)
    perturb(training)
    before = torch.get_rng_state()
    gradients(model)
    assert torch.equal(torch.get_rng_state(), before)


def test_drawing_anew_means_every_random_stream(training: Training) -> None:
    """An augmentation may draw by any of them."""
    numpy = pytest.importorskip("numpy")
    root = nn.Linear(8, 8)

    def drawn() -> tuple[float, float, float]:
        torch.manual_seed(1), random.seed(1), numpy.random.seed(1)
        root(INPUTS).sum().backward()
        return torch.rand(1).item(), random.random(), float(numpy.random.rand())

    plain = drawn()
    assert drawn() == plain
    Perturber(training, 1e-9, redraw=True, seed=0)
    assert all(a != b for a, b in zip(drawn(), plain, strict=True))


def test_the_first_batch_is_drawn_otherwise_but_not_the_first_weights() -> None:
    """An augmentation in the training process draws when the batch's samples are made."""

    class Augmented(Dataset[Any]):
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> Any:
            return torch.full((2,), float(index)), random.random()

    def first(redraw: bool) -> tuple[list[float], list[float], list[float]]:
        seams = Seams()
        try:
            training = Training(torch, seams, available_bytes=0)
            hooks = Hooks(training, Observer(lambda step: None), lambda: None)
            hooks.install()
            hooks.before_samples.append(Perturber(training, 1e-9, redraw=redraw, seed=0).samples_come)
            torch.manual_seed(1)
            random.seed(1)
            next(iter(DataLoader(Augmented(), batch_size=2)))  # a look at the shapes
            model = nn.Linear(2, 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            samples, draws = next(iter(DataLoader(Augmented(), batch_size=4, shuffle=True)))
            assert optimizer.param_groups
            return model.weight.flatten().tolist(), samples[:, 0].tolist(), draws.tolist()
        finally:
            seams.undo_all()

    weights, order, draws = first(redraw=False)
    assert first(redraw=False) == (weights, order, draws)
    other = first(redraw=True)
    assert other[:2] == (weights, order)
    assert other[2] != draws


@pytest.mark.parametrize("samples", [5, 300])
def test_noise_reaches_layers_under_vmap(training: Training, samples: int) -> None:
    """Gradients of single samples: drawing random numbers is refused there."""
    model = Deep()
    weights = {name: p.detach() for name, p in model.named_parameters()}
    inputs = torch.linspace(-1, 1, samples * 8).reshape(samples, 8)

    def loss_of(weights: dict[str, torch.Tensor], one: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model, weights, (one,)).square().sum()  # type: ignore[no-any-return]

    def found() -> dict[str, torch.Tensor]:
        of_one: Any = torch.func.grad(loss_of)
        each: dict[str, torch.Tensor] = torch.func.vmap(of_one, in_dims=(None, 0))(weights, inputs)
        return each

    torch.optim.SGD(model.parameters(), lr=0.1)
    plain = found()
    perturb(training)
    first, second = found(), found()
    for name, gradient in plain.items():
        assert 0 < (first[name] - gradient).norm() < 20 * SIZE * gradient.norm(), name
        assert not torch.equal(first[name], second[name]), "other noise each time"
