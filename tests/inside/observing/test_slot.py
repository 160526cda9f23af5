"""What is made of a model for elsewhere holds the model alone."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from hasten.inside.internals.modules import compiled_call, plain_call, put_call
from hasten.inside.observing.compiling import BlockSlot
from hasten.inside.observing.slot import ForwardSlot, has_slot
from hasten.records.plan import Plan
from hasten.testing.padded_texts import PaddedTexts, TextClassifier
from hasten.testing.workbench import workbench

from ..watching import Watch


def traced(model: torch.nn.Module, ids: Any) -> list[str]:
    made: Any = torch.jit.trace(model, (ids,), check_trace=False)  # type: ignore[no-untyped-call]
    return [node.kind() for node in made.inlined_graph.nodes()]


def exported(model: torch.nn.Module, ids: Any) -> list[str]:
    return [str(node.target) for node in torch.export.export(model, (ids,), strict=False).graph.nodes]


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning",
    "ignore::torch.jit.TracerWarning",
    "ignore:`torch.jit.trace:FutureWarning",  # in newer releases, of trace and of trace_method
)
@pytest.mark.parametrize("made", [traced, pytest.param(exported, marks=pytest.mark.thorough)])
def test_no_technique_gets_into_what_is_exported(made: Callable[[torch.nn.Module, Any], list[str]]) -> None:
    data = PaddedTexts()
    with workbench(data, make_model=TextClassifier) as bench:
        expected = made(bench.model, data.ids[:8])
        bench.switchboard.switch(Plan({"pad_trim": {"multiple": 4}}))
        bench.train(6)
        (proof,) = bench.switchboard.proofs()
        assert proof.effective, proof.evidence
        passes = [made(bench.model, data.ids[:8]) for _ in range(2)]
        assert bench.switchboard.proofs()[0].evidence == proof.evidence
    assert passes == [expected] * 2


class KeepsAll(nn.Linear):
    """Pickled with all attributes, as Lightning's modules and torch's LSTM are."""

    def __getstate__(self) -> dict[str, object]:
        return dict(self.__dict__)


def trained(model: nn.Module, steps: int = 2) -> nn.Module:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        found = model(torch.ones(5, 3, 4))
        (found[0] if isinstance(found, tuple) else found).square().sum().backward()
        optimizer.step()
    return model


def cloned(module: nn.Module, change: float) -> nn.Module:
    """As learn2learn's ``clone_module`` does it, with other values."""
    clone: nn.Module = module.__new__(type(module))
    clone.__dict__ = module.__dict__.copy()
    parameters: Any = {name: p if p is None else p + change for name, p in module._parameters.items()}
    clone._parameters = parameters
    clone._buffers = {name: b if b is None else b.clone() for name, b in module._buffers.items()}
    clone._modules = {name: part and cloned(part, change) for name, part in module._modules.items()}
    return clone


@pytest.mark.parametrize("make", [lambda: KeepsAll(4, 2), lambda: nn.LSTM(4, 2)], ids=["all", "LSTM"])
def test_copies_and_pickles_of_all_attributes_hold_no_slot(make: Callable[[], Any], watch: Watch) -> None:
    model = trained(make())
    assert isinstance(model._compiled_call_impl, ForwardSlot)
    file = io.BytesIO()
    torch.save(model, file)
    assert b"hasten" not in file.getvalue(), "it can be loaded without us"
    file.seek(0)
    for copied in (
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        torch.load(file, weights_only=False),
    ):
        assert copied._compiled_call_impl is None
        assert str(copied(torch.ones(1, 3, 4))) == str(model(torch.ones(1, 3, 4)))


@pytest.mark.attack("truth")
def test_a_clone_with_the_same_attributes_computes_with_its_own_values(watch: Watch) -> None:
    model = trained(nn.Sequential(nn.Linear(4, 2)))
    clone = cloned(model, 0.5)
    (weight, bias), given = clone[0]._parameters.values(), torch.ones(1, 4)  # type: ignore[index]
    expected = given @ weight.T + bias
    assert torch.equal(clone(given), expected)
    del model
    assert torch.equal(clone(given), expected)


def test_a_copy_that_shares_the_attributes_is_trained_as_a_root_of_its_own(watch: Watch) -> None:
    model = trained(KeepsAll(4, 2))
    other = trained(copy.copy(model))
    assert [has_slot(one) for one in (model, other)] == [True, True]
    assert watch.training.roots == [model, other]
    watch.training.seams.undo_all()
    assert [compiled_call(one) for one in (model, other)] == [None, None]


@pytest.mark.attack("truth")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # compile: of what goes into a block
@pytest.mark.parametrize(
    ("technique", "settings", "norm"),
    [
        ("drop_bias", {}, nn.BatchNorm2d),
        ("drop_bias", {"which": "all"}, nn.BatchNorm2d),
        ("checkpointing", {}, nn.Identity),
        ("compile", {"backend": "eager", "regions": "blocks"}, nn.Identity),
    ],
    ids=["drop_bias", "of all", "checkpointing", "compile"],
)
def test_so_does_a_clone_under_techniques_that_change_layers(
    technique: str, settings: Any, norm: Callable[[int], nn.Module]
) -> None:
    with workbench(make_model=lambda: of_blocks(norm)) as bench:
        bench.train(1)
        bench.switchboard.switch(Plan({technique: settings}))
        bench.train(2)
        (proof,) = bench.switchboard.proofs()
        assert proof.effective, proof.evidence
        clone, given = cloned(bench.model, 0.01), torch.randn(4, 3, 8, 8)
        found = clone(given)
        for part in clone.modules():
            part.__dict__.pop("_compiled_call_impl", None)
        assert torch.allclose(found, clone(given), atol=1e-6)
        assert bench.switchboard.proofs() == [proof]


def of_blocks(norm: Callable[[int], nn.Module]) -> nn.Module:
    blocks = [nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), norm(4), nn.ReLU()) for _ in range(3)]
    first = nn.Conv2d(3, 4, 1)
    return nn.Sequential(first, nn.Sequential(*blocks), nn.Flatten(), nn.Linear(4 * 8 * 8, 4))


def test_a_compiled_graph_goes_through_the_slot_of_a_block() -> None:
    """torch.compile looks at the call of a module that has hooks."""
    layer = nn.Linear(4, 4)
    layer.register_forward_hook(lambda *_: None)
    put_call(layer, BlockSlot(layer, lambda own, args, kwargs: plain_call(own)(*args, **kwargs)))
    compiled = torch.compile(lambda given: layer(given), backend="eager", fullgraph=True)
    assert torch.equal(compiled(torch.ones(2, 4)), layer(torch.ones(2, 4)))
