"""Padded texts as tutorials hand them to their models, with or without a word on where the padding is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from hasten.inside.techniques.support.said import is_for_each, of_samples, said_in
from hasten.records.plan import BASELINE, Plan
from hasten.records.trial import Proof
from hasten.testing.padded_texts import WIDTH, PaddedTexts
from hasten.testing.workbench import LossOf, workbench

from ..thorough import cases

PLAN = Plan({"pad_trim": {"multiple": 4}})
WORDS, CLASSES = 50, 4


class Classifier(nn.Module):
    """Attention where no padding is, by whichever kind of mask; the mean of all words is classified."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16, padding_idx=0)
        self.positions = nn.Embedding(WIDTH, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.out = nn.Linear(16, CLASSES)

    def classes(self, ids: Any, padding: Any, positions: Any = None) -> Any:
        places = torch.arange(ids.size(1)) if positions is None else positions
        hidden = self.encoder(self.embedding(ids) + self.positions(places), src_key_padding_mask=padding)
        words = (~padding).unsqueeze(-1)
        return self.out((hidden * words).sum(1) / words.sum(1))

    def forward(self, ids: Any, mask: Any = None, lengths: Any = None, positions: Any = None) -> Any:
        if lengths is not None:
            padding = torch.arange(ids.size(1)) >= torch.as_tensor(lengths).unsqueeze(1)
        elif mask is None:
            padding = ids == 0
        elif mask.dtype == torch.bool:
            padding = mask
        else:
            padding = mask.reshape(len(ids), -1) < (0.5 if mask.max() > 0 else -0.5)
        return self.classes(ids, padding, positions)


class Recurrent(nn.Module):
    """As the first tutorial on texts has it."""

    def __init__(self, pooling: str, both_ways: bool = False) -> None:
        super().__init__()
        self.pooling = pooling
        self.embedding = nn.Embedding(WORDS, 16, padding_idx=0)
        self.rnn = nn.LSTM(16, 16, batch_first=True, bidirectional=both_ways)
        self.out = nn.Linear(32 if both_ways else 16, CLASSES)

    def forward(self, ids: Any) -> Any:
        outputs, (last, _) = self.rnn(self.embedding(ids))
        if self.pooling == "last state":
            return self.out(last[-1])
        words = (ids != 0).unsqueeze(-1)
        return self.out(outputs.masked_fill(~words, -1e9).amax(1))


class Summed(nn.Module):
    """Embeddings of padding are zero, and add nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.out = nn.Embedding(WORDS, 16, padding_idx=0), nn.Linear(16, CLASSES)

    def forward(self, ids: Any) -> Any:
        return self.out(self.embedding(ids).sum(1))


class TimeFirst(Summed):
    """Takes (time, samples)."""

    def forward(self, ids: Any) -> Any:
        return self.out(self.embedding(ids).sum(0))


def lengths_of(ids: Any) -> Any:
    return (ids != 0).sum(1)


def trimmed(ids: Any) -> Any:
    return ids[:, : int(lengths_of(ids).max())]


def given(**named: Callable[[Any], Any]) -> LossOf:
    """The loss of a model that is given ids and, by name, what is made of them."""

    def loss_of(model: nn.Module, ids: Any, labels: Any) -> Any:
        return F.cross_entropy(model(ids, **{name: make(ids) for name, make in named.items()}), labels)

    return loss_of


def of_other_ids(change: Callable[[Any], Any]) -> LossOf:
    return lambda model, ids, labels: F.cross_entropy(model(change(ids)), labels)


MASKS: dict[str, Any] = {
    "whole numbers": lambda ids: (ids != 0).long(),
    "floats": lambda ids: (ids != 0).float(),
    "true of padding": lambda ids: ids == 0,
    "with a dimension too many": lambda ids: (ids != 0).long().unsqueeze(1),
    "to be added": lambda ids: ((ids == 0).float() * -1e4)[:, None, None, :],
}
LENGTHS: dict[str, Any] = {
    "list": lambda ids: lengths_of(ids).tolist(),
    "tuple": lambda ids: tuple(lengths_of(ids).tolist()),
    "array": lambda ids: lengths_of(ids).numpy(),
    "tensor": lengths_of,
}
CUT: dict[str, tuple[Any, LossOf]] = {
    **{f"a mask, {name}": (Classifier, given(mask=make)) for name, make in MASKS.items()},
    **{f"lengths in a {name}": (Classifier, given(lengths=make)) for name, make in LENGTHS.items()},
    "no mask": (Classifier, given()),
    "positions of the script's": (
        Classifier, given(positions=lambda ids: torch.arange(ids.size(1)).expand_as(ids))
    ),
    "a sum of embeddings": (Summed, given()),
    "a recurrence, its largest outputs of words": (lambda: Recurrent("words"), given()),
}  # fmt: skip
WHOLE: dict[str, tuple[Any, LossOf]] = {
    "a recurrence, its last state": (lambda: Recurrent("last state"), given()),
    "a recurrence that begins with the padding": (lambda: Recurrent("words", both_ways=True), given()),
    "time first": (TimeFirst, of_other_ids(lambda ids: ids.t())),
    "padded to the longest": (Classifier, of_other_ids(trimmed)),
}
OFTEN = ("a mask, floats", "a mask, true of padding", "no mask", "lengths in a list")


def trained(kind: tuple[Any, LossOf], plan: Plan, steps: int = 8) -> tuple[list[float], Proof | None]:
    make_model, loss_of = kind
    with workbench(PaddedTexts(), make_model=make_model, loss_of=loss_of) as bench:
        bench.switchboard.switch(plan)
        torch.manual_seed(1)
        losses = bench.train(steps)
        proofs = bench.switchboard.proofs()
        return losses, proofs[0] if proofs else None


@pytest.mark.parametrize("name", cases(CUT, OFTEN))
def test_it_is_cut_and_trains_the_same(name: str) -> None:
    expected, _ = trained(CUT[name], BASELINE)
    losses, proof = trained(CUT[name], PLAN)
    assert proof is not None
    assert proof.evidence.startswith("8 of 8 passes were cut"), proof.evidence
    assert proof.effective
    assert losses == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("name", WHOLE)
def test_it_is_left_whole(name: str) -> None:
    expected, _ = trained(WHOLE[name], BASELINE)
    losses, proof = trained(WHOLE[name], PLAN)
    assert proof is not None
    assert proof.evidence.startswith("0 of 8 passes were cut"), proof.evidence
    assert not proof.effective
    assert losses == expected


# ---- what a model gets in addition to tensors
def said(value: Any, rows: int = 8) -> Any:
    return said_in(torch, value, rows)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param({"a": 1}, {"a": 2}, id="numbers"),
        pytest.param({"a": 1}, {"b": 1}, id="names"),
        pytest.param([True], [1], id="kinds"),
        pytest.param([1, [2]], [1, 2], id="structure"),
        pytest.param(torch.tensor(1), torch.tensor(2), id="tensors of one number"),
        pytest.param(torch.float32, torch.float64, id="dtypes"),
        pytest.param({1, 2}, {1, 3}, id="sets"),
        pytest.param([1] * 8, [1] * 7, id="as many as samples, and fewer"),
    ],
)
def test_calls_are_told_apart(one: Any, other: Any) -> None:
    assert said(one) == said(one)
    assert said(one) != said(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param([3] * 8, [4] * 8, id="lengths"),
        pytest.param((3,) * 8, (4,) * 8, id="lengths in a tuple"),
        pytest.param(["a"] * 8, ["b"] * 8, id="texts"),
        pytest.param(torch.zeros(8), torch.ones(8), id="tensors"),
        pytest.param(float("nan"), float("nan"), id="no numbers"),
        pytest.param({1, 2}, {2, 1}, id="sets"),
    ],
)
def test_calls_on_other_samples_are_alike(one: Any, other: Any) -> None:
    assert said(one) == said(other)


def test_few_numbers_may_be_a_shape() -> None:
    assert not is_for_each((32, 32), 2)
    assert said((32, 32), rows=2) != said((32, 64), rows=2)


def test_samples_are_chosen_from_lists_within_others() -> None:
    call = (([1, 2, 3, 4, 5], "name"), {"lengths": (6, 7, 8, 9, 0), "shape": [4, 4]})
    expected = (([5, 5, 1, 1, 5], "name"), {"lengths": (0, 0, 6, 6, 0), "shape": [4, 4]})
    assert of_samples(call, 5, [4, 4, 0, 0, 4]) == expected
