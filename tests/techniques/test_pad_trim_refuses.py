"""Models of padded texts whose calls must stay whole: each as somebody has written it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from hasten.records.plan import BASELINE, Plan
from hasten.records.trial import Proof
from hasten.testing.padded_texts import PaddedTexts, TextClassifier
from hasten.testing.workbench import of_classes, workbench

from ..thorough import cases

PLAN = Plan({"pad_trim": {"multiple": 4}})


class WithMask(nn.Module):
    """Returns its mask next to a value for each position."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.out = nn.Embedding(50, 16, padding_idx=0), nn.Linear(16, 4)

    def forward(self, ids: Any) -> Any:
        return self.out(self.embedding(ids)), ids != 0


def of_masked(model: nn.Module, ids: Any, labels: Any) -> Any:
    logits, mask = model(ids)
    entropy = F.cross_entropy(logits.flatten(0, 1), (ids % 4).flatten(), reduction="none")
    return (entropy * mask.flatten()).sum() / mask.sum()


class Writing(TextClassifier):
    """Writes into what it is given: padding among the labels becomes -100."""

    def __init__(self) -> None:
        super().__init__()
        self.tags = nn.Linear(16, 4)

    def forward(self, ids: Any, labels: Any) -> Any:  # type: ignore[override]
        labels[labels == 0] = -100
        logits = self.tags(self.embedding(ids))
        return F.cross_entropy(logits.flatten(0, 1), labels.clamp(max=3).flatten(), ignore_index=-100)


def of_written(model: nn.Module, ids: Any, labels: Any) -> Any:
    tags = ids.clone()
    loss = model(ids, tags)
    assert tags.min() == -100  # the script's own
    return loss + (tags == -100).float().mean()


class Listing(TextClassifier):
    """Keeps what its router computed for each position in a list, for a loss of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.terms: list[Any] = []

    def forward(self, ids: Any) -> Any:
        self.terms.append(self.embedding(ids).square().mean(-1))
        return super().forward(ids)


def of_listed(model: Any, ids: Any, labels: Any) -> Any:
    loss = F.cross_entropy(model(ids), labels)
    return loss + model.terms.pop().mean()


class Attending(TextClassifier):
    """Keeps where it looked, for the script to show."""

    looked: Any = None
    keep: Callable[[Any], Any] = staticmethod(lambda weights: weights)

    def forward(self, ids: Any) -> Any:
        weights = self.embedding(ids).detach().mean(-1).masked_fill(ids == 0, float("-inf")).softmax(-1)
        self.looked = type(self).keep(weights)
        return super().forward(ids)


class Tabled(TextClassifier):
    """Keeps a table of positions, as wide as it has needed so far, and how often it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.calls, self.last = torch.zeros(0), 0, 0.0

    def forward(self, ids: Any) -> Any:
        self.calls += 1
        if ids.shape[1] > len(self.table):
            self.table = torch.arange(ids.shape[1])
        out = super().forward(ids)
        self.last = float(out.detach().mean())
        return out


KEPT: dict[str, Callable[[Any], Any]] = {
    "a tensor": lambda weights: weights,
    "an array": lambda weights: weights.numpy(),
    "in a list": lambda weights: [{"weights": weights.mean(0)}],
    "lists of numbers": lambda weights: weights.tolist(),
    "a number": lambda weights: weights.shape[1],
}


class ByTask(TextClassifier):
    """Pools over padding where another task is asked for."""

    def forward(self, ids: Any, told: Any) -> Any:  # type: ignore[override]
        is_first = task_of(told) == 0
        return super().forward(ids) if is_first else self.out(self.embedding(ids).mean(1))


def task_of(told: Any) -> Any:
    if isinstance(told, list):
        return task_of(told[0])
    return told["task"] if isinstance(told, dict) else getattr(told, "task", told)


class Now:
    task = 0
    says: Callable[[int], Any] = staticmethod(int)


def of_tasks(model: nn.Module, ids: Any, labels: Any) -> Any:
    Now.task += 1
    return F.cross_entropy(model(ids, Now.says(int(Now.task > 5))), labels)


WAYS_TO_SAY: dict[str, Callable[[int], Any]] = {
    "a number": int,
    "a fraction": float,
    "a tensor": torch.tensor,
    "in a list": lambda task: [task],
    "in a dict in a list": lambda task: [{"task": task, "name": "made up"}],
    "in an object": lambda task: SimpleNamespace(task=task),
    "in an array": lambda task: np.array(task),
}


class ByMask(nn.Module):
    """Knows of padding by nothing but the mask of what each position sees. The first position counts."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True)
        self.out = nn.Linear(16, 4)

    def forward(self, ids: Any, sees: Any) -> Any:
        return self.out(self.layer(self.embedding(ids), src_mask=sees)[:, 1])


def of_masks(model: nn.Module, ids: Any, labels: Any) -> Any:
    """What comes later is hidden at first; from the sixth step on nothing is."""
    Now.task += 1
    hidden = float("-inf") if Now.task <= 5 else 0.0
    sees = torch.full((ids.shape[1],) * 2, hidden).triu(1)
    return F.cross_entropy(model(ids, sees), labels)


@dataclass(frozen=True)
class Kind:
    model: Callable[[], nn.Module]
    loss: Any = of_classes


def trained(kind: Kind, plan: Plan, steps: int = 8) -> tuple[list[float], Proof | None]:
    Now.task = 0
    with workbench(PaddedTexts(), make_model=kind.model, loss_of=kind.loss) as bench:
        bench.switchboard.switch(plan)
        torch.manual_seed(1)
        losses = bench.train(steps)
        proofs = bench.switchboard.proofs()
        return losses, proofs[0] if proofs else None


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        pytest.param(Kind(WithMask, of_masked), "that gets no gradient", id="a mask"),
        pytest.param(Kind(Writing, of_written), "writes into what it is given", id="writes"),
        pytest.param(Kind(Listing, of_listed), "Listing.terms may be a term of a loss", id="a list of terms"),
    ],
)
def test_it_is_left_alone(kind: Kind, why: str) -> None:
    expected, _ = trained(kind, BASELINE)
    losses, proof = trained(kind, PLAN)
    assert proof is not None
    assert losses == expected
    assert why in proof.evidence
    assert not proof.effective


@pytest.mark.parametrize("what", KEPT)
def test_what_a_model_keeps_beside_its_output_stays_as_wide(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Attending, "keep", staticmethod(KEPT[what]))
    expected, _ = trained(Kind(Attending), BASELINE)
    losses, proof = trained(Kind(Attending), PLAN)
    assert proof is not None
    assert losses == expected
    assert "Attending.looked, which the model keeps beside its output, is another" in proof.evidence


def test_a_table_as_wide_as_the_widest_call_is_no_reason() -> None:
    assert "passes were cut" in (evidence := cut_alike(Kind(Tabled)))
    assert not evidence.startswith("0 of")
    assert "keeps beside" not in evidence


def cut_alike(kind: Kind) -> str:
    """The proof's evidence, where the losses are those of the plain training."""
    expected, _ = trained(kind, BASELINE)
    losses, proof = trained(kind, PLAN)
    assert losses == pytest.approx(expected, rel=1e-4)
    assert proof is not None
    return proof.evidence


@pytest.mark.parametrize("way", cases(WAYS_TO_SAY, ("a number", "in a dict in a list")))
def test_another_number_given_is_another_way_to_call_it(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Now, "says", WAYS_TO_SAY[way])
    evidence = cut_alike(Kind(ByTask, of_tasks))
    assert "depends on padding" in evidence
    assert "5 of 8 passes were cut" in evidence


class BySwitch(TextClassifier):
    """Pools over padding where the script has switched it so."""

    masked = True

    def forward(self, ids: Any) -> Any:
        return super().forward(ids) if self.masked else self.out(self.embedding(ids).mean(1))


def of_switched(model: Any, ids: Any, labels: Any) -> Any:
    Now.task += 1
    model.masked = Now.task <= 5 or Now.task > 7
    return F.cross_entropy(model(ids), labels)


def test_a_switch_of_the_models_own_is_another_way_to_call_it() -> None:
    assert "6 of 8 passes were cut" in cut_alike(Kind(BySwitch, of_switched))


def test_a_mask_that_hides_nothing_any_more_is_another_one() -> None:
    evidence = cut_alike(Kind(ByMask, of_masks))
    assert "depends on padding" in evidence
    assert "5 of 8 passes were cut" in evidence


def test_masks_that_hide_by_ever_other_values_are_not_compared_for_ever() -> None:
    def of_fading_masks(model: nn.Module, ids: Any, labels: Any) -> Any:
        Now.task += 1
        sees = torch.full((ids.shape[1],) * 2, -1000.0 - Now.task).triu(1)
        return F.cross_entropy(model(ids, sees), labels)

    _, proof = trained(Kind(ByMask, of_fading_masks), PLAN)
    assert proof is not None
    assert "a mask that the model is given keeps changing its kind" in proof.evidence


class Returning(TextClassifier):
    """Returns more from a step on."""

    def __init__(self) -> None:
        super().__init__()
        self.returns = {"ids": False}

    def forward(self, ids: Any) -> Any:
        output = super().forward(ids)
        return (output, ids) if self.returns["ids"] else (output,)


def of_first(model: nn.Module, ids: Any, labels: Any) -> Any:
    output = model(ids)
    assert all(len(tensor) < 2 or tensor.shape[1] in (4, ids.shape[1]) for tensor in output)
    return F.cross_entropy(output[0], labels)


def test_what_returns_more_than_was_compared_is_run_whole() -> None:
    with workbench(PaddedTexts(), make_model=Returning, loss_of=of_first) as bench:
        bench.switchboard.switch(PLAN)
        bench.train(6)
        assert isinstance(bench.model, Returning)
        bench.model.returns["ids"] = True
        bench.train(2)
        (proof,) = bench.switchboard.proofs()
    assert not proof.effective
    assert "what it returns is not what was compared" in proof.evidence


def test_a_gradients_hook_is_not_called_for_a_comparison() -> None:
    """As wandb.watch puts one on each parameter."""
    with workbench(PaddedTexts(), make_model=TextClassifier) as bench:
        seen: list[Any] = []
        bench.model.get_parameter("out.weight").register_hook(lambda gradient: seen.append(gradient))  # type: ignore[no-untyped-call]
        bench.switchboard.switch(PLAN)
        bench.train(3)
        (proof,) = bench.switchboard.proofs()
    assert len(seen) == 3
    assert "the script has a hook on a gradient" in proof.evidence
