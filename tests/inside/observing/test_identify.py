"""Names and properties of what was seen."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    Sampler,
    Subset,
    TensorDataset,
)

from hasten.inside.observing.identify import (
    compile_backends,
    describe_loader,
    describe_optimizer,
    describe_root,
    sparsely_trained,
    why_not_fused,
    without_parts,
)
from hasten.inside.samples.dataset_traits import takes_items_one_by_one


def parameters() -> list[nn.Parameter]:
    return [nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(2, 2))]


def test_what_is_installed_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_backends()
    monkeypatch.delattr(importlib.metadata, "entry_points")
    assert compile_backends() == compile_backends()


# ---- roots
def test_a_root_is_described() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.ConvTranspose2d(4, 4, 3), nn.BatchNorm2d(4), nn.Conv1d(4, 4, 1)
    )
    root = describe_root(torch, model)
    assert root.name == "torch.nn.modules.container.Sequential"
    assert root.parameters == sum(p.numel() for p in model.parameters())
    assert (root.dtypes, root.devices) == (("float32",), ("cpu",))
    assert root.convolutions == 2
    assert (root.batch_norm, root.dropout, root.scripted, root.compiled) == (True, False, False, False)


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("owned", "frozen", "trained"),
    [
        pytest.param("all", "", 6 + 12, id="all of it"),
        pytest.param("0", "", 6, id="a copy that averages is not"),
        pytest.param("0", "1", 6, id="nor a frozen one"),
        pytest.param("all", "0", 12, id="nor a frozen one that an optimizer was given"),
        pytest.param("", "1", 6, id="without optimizers, what gets gradients"),
        pytest.param("", "", 6 + 12, id="without optimizers, all"),
        pytest.param("0", "0", 6, id="an optimizer has what is frozen for now"),
    ],
)
def test_what_of_a_root_is_trained(owned: str, frozen: str, trained: int) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 4))
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not (frozen and name.startswith(frozen)))
    mine = {id(p) for name, p in model.named_parameters() if owned == "all" or (owned and name[0] == owned)}
    root = describe_root(torch, model, mine)
    assert (root.trained, root.parameters) == (trained, 18)


@pytest.mark.attack("truth")
def test_a_part_is_told_with_the_whole_of_it() -> None:
    model, other = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 4)), nn.Linear(2, 2)
    assert without_parts([model[0], model, other, model[1]]) == [model, other]


class HoldsParameters(nn.Module):
    """As Keras's models, whose layers are in a list."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = layers
        self.held = nn.ParameterList([p for layer in layers for p in layer.parameters()])


def test_parameters_decide_what_is_a_part() -> None:
    layers: list[nn.Module] = [nn.Linear(2, 2), nn.Linear(2, 4)]
    model = HoldsParameters(layers)
    assert without_parts([*layers, model]) == [model]
    wrapper = nn.Sequential(layers[0])
    assert without_parts([layers[0], wrapper]) == [wrapper]


def test_types_of_all_parameters_are_listed() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).to(torch.bfloat16))
    assert describe_root(torch, model).dtypes == ("bfloat16", "float32")


def test_whole_numbers_have_no_precision() -> None:
    """Keras keeps the state of its seeds among the parameters."""
    model = nn.Linear(2, 2)
    model.seeds = nn.Parameter(torch.zeros(2, dtype=torch.int32), requires_grad=False)
    assert describe_root(torch, model).dtypes == ("float32",)


@pytest.mark.parametrize(("p", "found"), [(0.5, True), (0.0, False)])
def test_dropout_that_drops_nothing_is_none(p: float, found: bool) -> None:
    assert describe_root(torch, nn.Sequential(nn.Linear(2, 2), nn.Dropout(p))).dropout is found


def test_a_compiled_model_is_told_by_what_it_holds() -> None:
    model = nn.Linear(2, 2)
    wrapped: Any = nn.Sequential(model)
    wrapped._orig_mod = model
    assert describe_root(torch, wrapped).compiled
    assert describe_root(torch, nn.Sequential(wrapped)).compiled


# ---- optimizers
FUSIBLE: dict[str, Callable[..., Any]] = {
    "Adam": torch.optim.Adam,
    "AdamW": torch.optim.AdamW,
    "SGD": torch.optim.SGD,
    "Adagrad": torch.optim.Adagrad,
}


@pytest.mark.parametrize("name", FUSIBLE)
def test_four_optimizers_have_a_fused_form(name: str) -> None:
    found = describe_optimizer(torch, FUSIBLE[name](parameters(), lr=0.1))
    assert (found.name, found.parameters, found.fused, found.can_fuse) == (name, 7, False, True)
    assert found.why_not == ""


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("frozen", "updated"), [((), 7), ((0,), 4), ((0, 1), 7)], ids=["none", "some", "all, for now"]
)
def test_an_optimizer_updates_what_gets_gradients(frozen: tuple[int, ...], updated: int) -> None:
    given = parameters()
    for number in frozen:
        given[number].requires_grad_(False)
    assert describe_optimizer(torch, torch.optim.SGD(given, lr=0.1)).parameters == updated


class OwnAdam(torch.optim.Adam):
    """A subclass may have a step of its own."""


WITHOUT: dict[str, Callable[[Any], Any]] = {
    "RMSprop": lambda p: torch.optim.RMSprop(p),
    "NAdam": lambda p: torch.optim.NAdam(p),
    "Adadelta": lambda p: torch.optim.Adadelta(p),
    "LBFGS": lambda p: torch.optim.LBFGS(p),
    "OwnAdam": lambda p: OwnAdam(p),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_others_have_none_and_are_named(name: str) -> None:
    optimizer = WITHOUT[name](parameters())
    assert why_not_fused(torch, optimizer) == f"{name} has no fused form in torch"
    assert not describe_optimizer(torch, optimizer).can_fuse


def test_a_class_of_the_scripts_with_a_known_name_has_none() -> None:
    impostor = type("Adam", (torch.optim.Adam,), {})
    assert "no fused form" in why_not_fused(torch, impostor(parameters(), lr=0.1))


@pytest.mark.parametrize("flag", ["foreach", "differentiable", "capturable"])
def test_what_the_script_asked_for_stands(flag: str) -> None:
    optimizer = torch.optim.Adam(parameters())
    optimizer.param_groups[0][flag] = True
    assert why_not_fused(torch, optimizer) == f"the script asked for {flag}=True"


def test_foreach_false_is_no_wish_for_foreach() -> None:
    assert why_not_fused(torch, torch.optim.Adam(parameters(), foreach=False)) == ""


def test_a_parameter_the_fused_form_cannot_update_is_named() -> None:
    complex_one = nn.Parameter(torch.zeros(2, dtype=torch.complex64))
    assert "complex64" in why_not_fused(torch, torch.optim.Adam([complex_one]))


def test_the_fused_form_of_adagrad_is_for_the_cpu() -> None:
    on_gpu = SimpleNamespace(device=torch.device("cuda"), is_floating_point=lambda: True, grad=None)
    for kind, why_not in ((torch.optim.Adam, ""), (torch.optim.Adagrad, "fused Adagrad exists on CPU only")):
        optimizer: Any = kind(parameters())
        optimizer.param_groups[0]["params"] = [on_gpu]
        assert why_not_fused(torch, optimizer) == why_not


def test_weights_that_the_script_has_put_channels_last_are_told() -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Conv2d(4, 8, 3), nn.Linear(8, 2))
    assert not describe_root(torch, model).channels_last
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    assert describe_root(torch, model).channels_last
    assert not describe_root(torch, nn.Linear(8, 2)).channels_last


def test_sparse_gradients_are_named() -> None:
    table = nn.EmbeddingBag(10, 4, sparse=True)
    optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
    assert why_not_fused(torch, optimizer) == ""
    expected = "the fused form takes no sparse gradients"
    assert why_not_fused(torch, optimizer, sparsely_trained(torch, [table])) == expected
    table(torch.tensor([[1, 2]])).sum().backward()
    assert describe_optimizer(torch, optimizer).why_not == expected


def test_an_optimizer_that_is_fused_already_is_told() -> None:
    assert describe_optimizer(torch, torch.optim.Adam(parameters(), fused=True)).fused


# ---- loaders
class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(12))


class StreamWithLength(Stream):
    def __len__(self) -> int:
        return 12


class Wholesale(TensorDataset):
    """Makes a batch in one go."""

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices]


ROWS = TensorDataset(torch.zeros(12, 3))


class Odd(Sampler[list[int]]):
    """A batch sampler that says nothing of its batch size."""

    def __init__(self) -> None:
        pass

    def __iter__(self) -> Iterator[list[int]]:
        return iter([[1], [3, 5]])


def described(dataset: Dataset[Any], **options: Any) -> Any:
    return describe_loader(iter(DataLoader(dataset, **options)), training=True, sample_bytes=12)


def test_a_loader_is_described() -> None:
    found = described(ROWS, batch_size=4, shuffle=True)
    assert (found.dataset, found.samples, found.batch_size) == ("TensorDataset", 12, 4)
    assert (found.workers, found.iterable, found.pin_memory) == (0, False, False)
    assert (found.training, found.default_fetch, found.sample_bytes) == (True, True, 12)


@pytest.mark.parametrize("dataset", [Stream(), StreamWithLength()])
@pytest.mark.parametrize("batch_size", [4, None])
def test_an_iterable_dataset_is_a_stream(dataset: Dataset[Any], batch_size: int | None) -> None:
    found = described(dataset, batch_size=batch_size)
    assert (found.iterable, found.samples, found.default_fetch) == (True, None, False)


def test_a_list_may_be_a_dataset() -> None:
    found = described([1, 2, 3], batch_size=2)  # type: ignore[arg-type]
    assert (found.dataset, found.samples, found.iterable, found.default_fetch) == ("list", 3, False, True)


def test_workers_are_counted() -> None:
    iterator = iter(DataLoader(ROWS, batch_size=4, num_workers=1))
    assert describe_loader(iterator, True, None).workers == 1
    list(iterator)


def test_without_automatic_batches_there_is_no_default_fetch() -> None:
    assert not described(ROWS, batch_size=None).default_fetch


def test_a_batch_sampler_of_the_scripts_may_have_no_batch_size() -> None:
    assert described(ROWS, batch_sampler=Odd()).batch_size is None
    assert described(ROWS, batch_sampler=BatchSampler(range(12), 3, False)).batch_size == 3


@pytest.mark.parametrize(
    ("dataset", "one_by_one"),
    [
        pytest.param(ROWS, True, id="a plain dataset"),
        pytest.param(Subset(ROWS, [1, 2]), True, id="torch's own Subset"),
        pytest.param(Subset(Subset(ROWS, [1, 2]), [0]), True, id="a Subset of a Subset"),
        pytest.param(Wholesale(torch.zeros(12, 3)), False, id="one with __getitems__"),
        pytest.param(Subset(Wholesale(torch.zeros(12, 3)), [1]), False, id="a Subset of such a one"),
        pytest.param(type("Subset", (Subset,), {})(ROWS, [1]), False, id="another class of that name"),
    ],
)
def test_whether_items_are_taken_one_by_one(dataset: Dataset[Any], one_by_one: bool) -> None:
    assert takes_items_one_by_one(dataset) is one_by_one
    assert described(dataset, batch_size=1).default_fetch is one_by_one
