"""Models of padded texts whose calls must stay whole: each as somebody has written it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from hasten.records.plan import BASELINE, Plan
from hasten.records.trial import Proof
from hasten.testing.padded_texts import PaddedTexts, TextClassifier
from hasten.testing.workbench import of_classes, workbench

PLAN = Plan({"pad_trim": {"multiple": 4}})
THOROUGH = pytest.mark.thorough


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


class ByTask(TextClassifier):
    """Pools over padding where another task is asked for."""

    def forward(self, ids: Any, task: int) -> Any:  # type: ignore[override]
        return super().forward(ids) if task == 0 else self.out(self.embedding(ids).mean(1))


class Now:
    task = 0


def of_tasks(model: nn.Module, ids: Any, labels: Any) -> Any:
    Now.task += 1
    return F.cross_entropy(model(ids, int(Now.task > 5)), labels)


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
        pytest.param(Kind(WithMask, of_masked), "no gradient goes to", id="a mask"),
        pytest.param(Kind(Writing, of_written), "writes into what it is given", id="writes"),
        pytest.param(Kind(Listing, of_listed), "Listing.terms is a term of a loss", id="a list of terms"),
    ],
)
def test_it_is_left_alone(kind: Kind, why: str) -> None:
    expected, _ = trained(kind, BASELINE)
    losses, proof = trained(kind, PLAN)
    assert proof is not None
    assert losses == expected
    assert why in proof.evidence
    assert not proof.effective


def test_another_number_given_is_another_way_to_call_it() -> None:
    kind = Kind(ByTask, of_tasks)
    expected, _ = trained(kind, BASELINE)
    losses, proof = trained(kind, PLAN)
    assert losses == pytest.approx(expected, rel=1e-4)
    assert proof is not None
    assert "depends on padding" in proof.evidence
    assert "5 of 8 passes were cut" in proof.evidence


class Returning(TextClassifier):
    """Returns more from a step on."""

    more = False

    def forward(self, ids: Any) -> Any:
        output = super().forward(ids)
        return (output, ids) if self.more else (output,)


def of_first(model: nn.Module, ids: Any, labels: Any) -> Any:
    output = model(ids)
    assert all(len(tensor) < 2 or tensor.shape[1] in (4, ids.shape[1]) for tensor in output)
    return F.cross_entropy(output[0], labels)


def test_what_returns_more_than_was_compared_is_run_whole() -> None:
    with workbench(PaddedTexts(), make_model=Returning, loss_of=of_first) as bench:
        bench.switchboard.switch(PLAN)
        bench.train(6)
        bench.model.more = True  # type: ignore[assignment]
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
