"""What the script does itself is seen; what we do for it is not taken for the script's own."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from hasten.inside.internals import compiler
from hasten.inside.observing.compiling import _own_code
from hasten.inside.observing.uses import (
    EVALUATES_IN_TRAINING_MODE,
    LOWERS_EVALUATIONS,
    MAKES_LOADERS,
    Uses,
)
from hasten.records.plan import Plan
from hasten.testing.workbench import Workbench, workbench


@pytest.fixture
def bench() -> Iterator[Workbench]:
    with workbench() as made:
        yield made


@pytest.fixture
def uses(bench: Workbench) -> Uses:
    seen = Uses()
    seen.watch(bench.training)
    bench.training.makes_loaders = False  # the bench's own does not count
    return seen


def test_a_plain_training_uses_nothing(bench: Workbench, uses: Uses) -> None:
    bench.train(2)
    assert uses.names() == ()


def test_a_loader_counts_once_it_is_made(uses: Uses) -> None:
    DataLoader(TensorDataset(torch.zeros(4, 2)))
    assert uses.names() == (MAKES_LOADERS,)


@pytest.mark.parametrize(
    ("modes", "found"),
    [((True,), (EVALUATES_IN_TRAINING_MODE,)), ((False,), ()), ((True, False), ())],
    ids=["training", "eval", "both"],
)
def test_the_mode_of_passes_without_gradients_is_seen(
    modes: tuple[bool, ...], found: tuple[str, ...], bench: Workbench, uses: Uses
) -> None:
    bench.train(1)
    for mode in modes:
        bench.model.train(mode)
        with torch.no_grad():
            bench.model(torch.ones(1, 3, 8, 8))
    assert uses.names() == found


def test_autocast_by_the_script_is_seen(uses: Uses) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        pass
    assert uses.names() == ("autocast",)


@pytest.mark.parametrize("reentrant", [True, False])
def test_what_a_checkpoint_computes_again_is_no_autocast_of_the_scripts(
    bench: Workbench, reentrant: bool
) -> None:
    uses = Uses(lambda: bench.observer.in_backward)
    uses.watch(bench.training)
    model = Again(nn.Linear(4, 4), reentrant)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    bench.switchboard.start(Plan({"bf16": {}}))
    for _ in range(3):
        loss: Any = model(torch.ones(2, 4, requires_grad=True)).sum()
        loss.backward()
        optimizer.step()
        bench.switchboard.switch(Plan({"bf16": {}}))
    assert bench.switchboard.proofs()[0].effective
    assert "autocast" not in uses.names()


class Again(nn.Sequential):
    """Computes its layers again in the backward pass."""

    def __init__(self, layer: nn.Module, reentrant: bool) -> None:
        super().__init__(layer)
        self.reentrant = reentrant

    def forward(self, inputs: torch.Tensor) -> Any:
        return checkpoint(super().forward, inputs, use_reentrant=self.reentrant)


def test_autocast_around_a_function_is_seen(uses: Uses) -> None:
    @torch.autocast("cpu", dtype=torch.bfloat16)  # type: ignore[untyped-decorator]
    def forward() -> bool:
        return torch.is_autocast_enabled("cpu")

    assert forward()
    assert uses.names() == ("autocast",)


def test_autocast_that_is_not_enabled_is_none(uses: Uses) -> None:
    with torch.autocast("cpu", enabled=False):
        pass
    assert uses.names() == ()


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("precision", "gradients", "enabled", "found"),
    [
        (torch.bfloat16, True, True, ("bfloat16",)),
        (torch.float16, True, True, ("float16",)),
        (torch.bfloat16, False, True, ()),
        (torch.bfloat16, True, False, ()),
    ],
    ids=["bf16", "fp16", "evaluations only", "switched off by an option"],
)
def test_what_training_passes_are_lowered_to(
    precision: torch.dtype, gradients: bool, enabled: bool, found: tuple[str, ...], uses: Uses
) -> None:
    with torch.set_grad_enabled(gradients), torch.autocast("cpu", precision, enabled=enabled):
        pass
    assert uses.autocast() == found
    lowered = "autocast" if found else LOWERS_EVALUATIONS
    assert uses.names() == ((lowered,) if enabled else ())
    assert uses.names(evaluations=True) == (("autocast",) if enabled else ())


def test_our_own_autocast_is_not_the_scripts(bench: Workbench, uses: Uses) -> None:
    bench.train(1)
    bench.switchboard.switch(Plan({"bf16": {}}))
    bench.train(2)
    (proof,) = bench.switchboard.proofs()
    assert proof.effective
    assert uses.names() == ()


def test_gradients_that_are_differentiated_are_seen(bench: Workbench, uses: Uses) -> None:
    x = torch.ones(2, requires_grad=True)
    torch.autograd.grad(x.square().sum(), x)
    assert uses.names() == ()
    (slope,) = torch.autograd.grad(x.square().sum(), x, create_graph=True)
    slope.sum().backward()  # type: ignore[no-untyped-call]
    assert uses.names() == ("create_graph=True",)


def test_a_gradient_scaler_is_seen(uses: Uses) -> None:
    torch.amp.GradScaler("cpu")
    assert uses.names() == ("GradScaler",)


def test_a_gradient_scaler_that_is_not_enabled_is_none(uses: Uses) -> None:
    torch.amp.GradScaler("cpu", enabled=False)
    assert uses.names() == ()


def test_each_use_is_named_once_in_the_order_seen(uses: Uses) -> None:
    for _ in range(2):
        torch.amp.GradScaler("cpu")
        with torch.autocast("cpu"):
            pass
    assert uses.names() == ("GradScaler", "autocast")


def test_what_is_watched_still_works(uses: Uses) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert nn.Linear(2, 2)(torch.ones(1, 2)).dtype is torch.bfloat16
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    assert scaler.get_scale() == 4.0 or not scaler.is_enabled()


def test_settings_of_the_process_by_the_script_are_seen(uses: Uses) -> None:
    torch.set_flush_denormal(False)
    assert uses.names() == ("set_flush_denormal",)


def test_a_model_that_is_compiled_is_seen(bench: Workbench, uses: Uses) -> None:
    bench.model = torch.compile(bench.model, backend="eager")  # type: ignore[assignment]
    bench.train(1)
    assert uses.names() == ("compile",)


def test_a_model_that_is_compiled_in_place_is_seen(bench: Workbench, uses: Uses) -> None:
    bench.model.compile(backend="eager")
    bench.train(1)
    assert uses.names() == ("compile",)


def test_a_layer_of_it_that_is_compiled_is_seen(bench: Workbench, uses: Uses) -> None:
    next(iter(bench.model.children())).compile(backend="eager")
    bench.train(1)
    assert uses.names() == ("compile",)


def test_a_compiled_function_counts_once_it_is_called(bench: Workbench, uses: Uses) -> None:
    torch._dynamo.utils.counters.clear()

    @torch.compile(backend="eager")
    def helper(number: torch.Tensor) -> torch.Tensor:
        return number * 2

    bench.train(1)
    assert uses.names() == ()
    helper(torch.ones(3))
    assert uses.names() == ("compile",)


def test_what_a_library_compiles_and_is_not_trained_does_not_count(bench: Workbench, uses: Uses) -> None:
    torch._dynamo.utils.counters.clear()
    unused = torch.compile(nn.Linear(2, 2), backend="eager")
    torch.compile(torch.relu, backend="eager")
    bench.train(1)
    assert uses.names() == ()
    del unused


@pytest.mark.parametrize(
    "first", [False, True], ids=["the script compiled nothing", "it had compiled a function"]
)
def test_what_we_compile_is_not_taken_for_the_scripts(
    uses: Uses, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    """A helper that a library compiles and never calls does not count either when graphs are ours."""
    monkeypatch.setattr(compiler, "is_imported", lambda: True)
    monkeypatch.setattr(compiler, "graphs", lambda: int(first))
    torch.compile(lambda x: x, backend="eager")
    torch.compile(_own_code("ours"), backend="eager")
    monkeypatch.setattr(compiler, "graphs", lambda: 9)
    assert ("compile" in uses.names()) is first


def test_torchs_functions_have_their_signatures(bench: Workbench, uses: Uses) -> None:
    """Accelerate asks whether ``zero_grad`` takes ``set_to_none``."""
    assert "set_to_none" in inspect.signature(bench.optimizer.zero_grad).parameters
    assert "set_to_none" in inspect.signature(bench.model.zero_grad).parameters
    assert "max_norm" in inspect.signature(nn.utils.clip_grad_norm_).parameters
    assert "retain_graph" in inspect.signature(torch.Tensor.backward).parameters
    assert "pickle_module" in inspect.signature(torch.save).parameters
    assert list(inspect.signature(torch.optim.Optimizer).parameters) == ["params", "defaults"]
    assert list(inspect.signature(DataLoader.__iter__).parameters) == ["self"]


def test_functions_of_torch_that_are_watched_can_be_scripted(uses: Uses) -> None:
    """Under the name that the script has imported, too."""
    imported = nn.utils.rnn.pack_padded_sequence

    class Packs(nn.Module):
        def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
            one = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
            return one.data + imported(x, lengths, batch_first=True).data

    given = torch.ones(2, 3, 4), torch.tensor([3, 2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        scripted = torch.jit.script(Packs())
    assert torch.equal(scripted(*given), Packs()(*given))
