"""Padding is cut where the model computes the same without it, and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence

from hasten.inside.observing.padding import MULTIPLE, PaddingSeen, rounded_up
from hasten.inside.techniques.pad_trim import PadTrim
from hasten.inside.techniques.support.padded_calls import Found, Known, cut, find, restore
from hasten.records.plan import BASELINE, Plan
from hasten.records.trial import Proof
from hasten.testing.padded_texts import WIDTH, PaddedTexts, TextClassifier
from hasten.testing.technique_contract import (
    check_steps_leave_no_trace,
    check_switching_alone_leaves_no_trace,
)
from hasten.testing.workbench import LossOf, of_classes, workbench

from .made_up import facts, root

PLAN = Plan({"pad_trim": {"multiple": 4}})
WORDS, CLASSES = 50, 4


class Encoder(nn.Module):
    """Embeddings, positions, one layer of attention; a value for each position."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16, padding_idx=0)
        self.positions = nn.Parameter(torch.randn(WIDTH, 16) * 0.1)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True)

    def forward(self, ids: Any, mask: Any) -> Any:
        hidden = self.embedding(ids) + self.positions[: ids.shape[1]]
        return self.layer(hidden, src_key_padding_mask=mask == 0)


class ByKeywords(nn.Module):
    """As Hugging Face's: keywords in, a dict with loss and logits out."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.out = Encoder(), nn.Linear(16, CLASSES)

    def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any, labels: Any) -> Any:
        assert token_type_ids.shape == input_ids.shape
        logits = self.out(self.encoder(input_ids, attention_mask)[:, 0])
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


class Tagger(nn.Module):
    """A value for each position. With ``labels`` it computes the loss itself."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.out = Encoder(), nn.Linear(16, CLASSES)

    def forward(self, ids: Any, mask: Any, labels: Any = None) -> Any:
        logits = self.out(self.encoder(ids, mask))
        if labels is None:
            return logits
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100), logits


class ToAndFro(nn.Module):
    """Two sequences of different widths, and a mask that hides what comes later."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16, padding_idx=0)
        self.inner = nn.Transformer(16, 2, 1, 1, 32, 0.0, batch_first=True)
        self.out = nn.Linear(16, WORDS)

    def forward(self, source: Any, target: Any, later: Any) -> Any:
        hidden = self.inner(
            self.embedding(source),
            self.embedding(target),
            tgt_mask=later,
            src_key_padding_mask=source == 0,
            tgt_key_padding_mask=target == 0,
            memory_key_padding_mask=source == 0,
        )
        return self.out(hidden)


class Pooled(nn.Module):
    """What takes all positions as they are."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.embedding = nn.Embedding(WORDS, 16, padding_idx=0)
        self.convolution = nn.Conv1d(16, 16, 3, padding=1)
        self.rnn = nn.GRU(16, 16, batch_first=True)
        self.out = nn.Linear(16, CLASSES)
        self.flat = nn.Linear(16 * WIDTH, CLASSES)

    def forward(self, ids: Any, lengths: Any = None) -> Any:
        hidden = self.embedding(ids)
        if self.how == "max over a convolution":
            return self.out(torch.relu(self.convolution(hidden.transpose(1, 2))).amax(-1))
        if self.how == "mean":
            return self.out(hidden.mean(1))
        if self.how == "last position":
            return self.out(self.rnn(hidden)[0][:, -1])
        if self.how == "all in a row":
            return self.flat(hidden.flatten(1))
        packed = pack_padded_sequence(hidden, lengths, batch_first=True, enforce_sorted=False)
        return self.out(self.rnn(packed)[1][-1])


def mask_of(ids: Any) -> Any:
    return (ids != 0).long()


def of_keywords(model: nn.Module, ids: Any, labels: Any) -> Any:
    kinds = torch.zeros_like(ids)
    return model(input_ids=ids, attention_mask=mask_of(ids), token_type_ids=kinds, labels=labels)["loss"]


def tags_of(ids: Any) -> Any:
    return (ids % CLASSES).masked_fill(ids == 0, -100)


def of_tags(model: nn.Module, ids: Any, labels: Any) -> Any:
    logits = model(ids, mask_of(ids))
    assert logits.shape == (*ids.shape, CLASSES)
    return F.cross_entropy(logits.flatten(0, 1), tags_of(ids).flatten(), ignore_index=-100)


def of_tags_in_the_model(model: nn.Module, ids: Any, labels: Any) -> Any:
    loss, logits = model(ids, mask_of(ids), tags_of(ids))
    assert logits.shape == (*ids.shape, CLASSES)
    return loss


def of_all_tags(model: nn.Module, ids: Any, labels: Any) -> Any:
    """Padding is a class of its own, as in a script without ``ignore_index``."""
    return F.cross_entropy(model(ids, mask_of(ids)).flatten(0, 1), (ids % CLASSES).flatten())


def of_next_words(model: nn.Module, ids: Any, labels: Any) -> Any:
    target = ids[:, : WIDTH // 2]
    later = torch.triu(torch.ones(WIDTH // 2, WIDTH // 2, dtype=torch.bool), 1)
    logits = model(ids, target, later)
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), target[:, 1:].flatten(), ignore_index=0)


def of_lengths(model: nn.Module, ids: Any, labels: Any) -> Any:
    return F.cross_entropy(model(ids, mask_of(ids).sum(1)), labels)


def of_log_probabilities(model: nn.Module, ids: Any, labels: Any) -> Any:
    """A masked mean of logarithms: zeros in place of padding would be no numbers."""
    mask = mask_of(ids)
    probabilities = model(ids, mask).softmax(-1)
    picked = probabilities.gather(2, tags_of(ids).clamp(min=0).unsqueeze(2)).squeeze(2)
    return -(picked.log() * mask).sum() / mask.sum()


@dataclass(frozen=True)
class Kind:
    model: Callable[[], nn.Module]
    loss: LossOf = of_classes
    data: dict[str, int] = field(default_factory=dict)


SAME = {
    "ids alone": Kind(TextClassifier),
    "keywords": Kind(ByKeywords, of_keywords),
    "tags": Kind(Tagger, of_tags),
    "tags, with the loss in the model": Kind(Tagger, of_tags_in_the_model),
    "two sequences": Kind(ToAndFro, of_next_words),
    "logarithms": Kind(Tagger, of_log_probabilities),
    "lengths": Kind(lambda: Pooled("packed"), of_lengths),
}
OTHERWISE = {
    "max over a convolution": Kind(lambda: Pooled("max over a convolution")),
    "mean": Kind(lambda: Pooled("mean")),
    "last position": Kind(lambda: Pooled("last position")),
    "all in a row": Kind(lambda: Pooled("all in a row")),
    "padding counts as a class": Kind(Tagger, of_all_tags),
}
SAYS = {
    "max over a convolution": "depends on padding",
    "mean": "what the model returns depends on padding",
    "last position": "what the model returns depends on padding",
    "all in a row": "without its padding a call fails with RuntimeError: ",
    "padding counts as a class": "the loss depends on what the model returns for padding",
}


def bench_of(kind: Kind) -> Any:
    return workbench(PaddedTexts(**kind.data), make_model=kind.model, loss_of=kind.loss)


def trained(kind: Kind, plan: Plan, steps: int = 10) -> tuple[list[float], dict[str, Any], Proof | None]:
    """Losses, weights at the end, and the proof."""
    with bench_of(kind) as bench:
        bench.switchboard.switch(plan)
        torch.manual_seed(1)
        losses = bench.train(steps)
        proofs = bench.switchboard.proofs()
        weights = {name: p.detach().clone() for name, p in bench.model.named_parameters()}
        return losses, weights, proofs[0] if proofs else None


def cut_share(proof: Proof | None) -> int:
    """Passes that were cut."""
    assert proof is not None
    return int(proof.evidence.split()[0])


@pytest.mark.parametrize("name", SAME)
def test_without_its_padding_a_model_trains_the_same(name: str) -> None:
    expected, weights, _ = trained(SAME[name], BASELINE)
    losses, found, proof = trained(SAME[name], PLAN)
    assert proof is not None
    assert proof.effective, proof.evidence
    assert cut_share(proof) >= 9, proof.evidence  # a loss of each position is looked at once before
    assert losses == pytest.approx(expected, rel=1e-4)
    for key, weight in weights.items():
        assert torch.allclose(found[key], weight, atol=1e-3), key


@pytest.mark.parametrize("name", OTHERWISE)
def test_a_model_that_minds_its_padding_is_left_alone(name: str) -> None:
    expected, weights, _ = trained(OTHERWISE[name], BASELINE)
    losses, found, proof = trained(OTHERWISE[name], PLAN)
    assert proof is not None
    assert not proof.effective
    assert cut_share(proof) == 0
    assert SAYS[name] in proof.evidence
    assert losses == expected
    assert all(torch.equal(found[key], weight) for key, weight in weights.items())


def test_a_pass_computes_fewer_columns() -> None:
    widths = []

    class Watched(TextClassifier):
        def forward(self, ids: Any) -> Any:
            widths.append(ids.shape[1])
            return super().forward(ids)

    with workbench(PaddedTexts(), make_model=Watched) as bench:
        bench.train(2)
        assert set(widths) == {WIDTH}
        bench.switchboard.switch(Plan({"pad_trim": {"multiple": 8}}))
        bench.train(10)
        widths.clear()
        bench.train(1)
        assert widths[-1] == 16  # 13 words at most, in a multiple of 8
        bench.switchboard.switch(BASELINE)
        bench.train(1)
        assert widths[-1] == WIDTH


def test_the_random_streams_stay_where_they_are() -> None:
    """Only dropout draws other masks."""
    with workbench(PaddedTexts(), make_model=TextClassifier) as bench:
        torch.manual_seed(1)
        bench.train(5)
        expected = torch.get_rng_state()
        bench.switchboard.switch(PLAN)
        torch.manual_seed(1)
        bench.train(5)
        assert torch.equal(torch.get_rng_state(), expected)


@pytest.mark.parametrize("name", ["ids alone", "tags"])
def test_it_leaves_no_trace(name: str) -> None:
    with bench_of(SAME[name]) as bench:
        check_switching_alone_leaves_no_trace(bench, PLAN)
    with bench_of(SAME[name]) as bench:
        check_steps_leave_no_trace(bench, PLAN)


class Counting(TextClassifier):
    """Keeps running statistics, a number of calls, and its last hidden state."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.calls = 0
        self.history: list[int] = []
        self.hidden: Any = None

    def forward(self, ids: Any) -> Any:
        self.calls += 1
        self.history.append(self.calls)
        hidden = super().forward(ids)
        self.hidden = hidden.detach()
        return self.norm(hidden)


def test_a_model_compared_with_itself_is_not_called_for_the_script() -> None:
    with workbench(PaddedTexts(), make_model=Counting) as bench:
        bench.switchboard.switch(PLAN)
        bench.train(6)
        assert isinstance(bench.model, Counting)
        assert bench.model.calls == 6
        assert bench.model.history == [1, 2, 3, 4, 5, 6]
        assert int(bench.model.norm.num_batches_tracked) == 6  # type: ignore[arg-type]
        assert bench.model.hidden.shape == (8, CLASSES)
        (proof,) = bench.switchboard.proofs()
        assert proof.effective, proof.evidence


@pytest.mark.parametrize(("name", "narrow"), [("ids alone", True), ("tags", False)])
def test_evaluations_of_classes_are_cut_and_those_of_positions_are_not(name: str, narrow: bool) -> None:
    with bench_of(SAME[name]) as bench:
        bench.switchboard.switch(PLAN)
        bench.train(3)
        bench.model.eval()
        inputs, _ = next(iter(bench.loader))
        more = () if narrow else (mask_of(inputs),)
        widths = []
        for module in bench.model.modules():
            if isinstance(module, nn.Embedding):
                module.register_forward_pre_hook(lambda _, given: widths.append(given[0].shape[1]))
        with torch.no_grad():
            bench.model(inputs, *more)
            widths.clear()
            output = bench.model(inputs, *more)
            assert (widths[-1] < WIDTH) is narrow
            bench.switchboard.switch(BASELINE)
            assert torch.allclose(output, bench.model(inputs, *more), atol=1e-5)
            assert widths[-1] == WIDTH


class Turning(TextClassifier):
    """Minds its padding from a step on, as where a script switches to another head."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = {"masked": True}

    def forward(self, ids: Any) -> Any:
        if self.heads["masked"]:
            return super().forward(ids)
        return self.out(self.layer(self.embedding(ids) + self.positions[: ids.shape[1]]).mean(1))


def test_a_proof_is_not_for_ever(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hasten.inside.techniques.support.trim_proofs._SHARE", math.inf)
    with workbench(PaddedTexts(), make_model=Turning) as bench:
        bench.switchboard.switch(PLAN)
        bench.train(8)
        (proof,) = bench.switchboard.proofs()
        assert proof.effective, proof.evidence
        assert isinstance(bench.model, Turning)
        bench.model.heads["masked"] = False
        bench.train(16)
        (proof,) = bench.switchboard.proofs()
    assert not proof.effective
    assert "depends on padding" in proof.evidence
    assert "hasten: pad_trim cuts nothing from here on: what the model returns" in capfd.readouterr().err


class Failing(TextClassifier):
    """Takes widths that it was shown, and no other."""

    def forward(self, ids: Any) -> Any:
        if ids.shape[1] == 4 and self.training and torch.is_grad_enabled():
            raise ValueError("four columns are too few")
        return super().forward(ids)


def test_an_error_of_a_call_that_was_cut_does_not_reach_the_script() -> None:
    with workbench(PaddedTexts(longest=4), make_model=Failing) as bench:
        bench.switchboard.switch(PLAN)
        bench.train(5)
        (proof,) = bench.switchboard.proofs()
    assert not proof.effective
    assert "fails with ValueError: four columns are too few" in proof.evidence


class Wrong(TextClassifier):
    def forward(self, ids: Any) -> Any:
        if ids.shape[0] == 8 and not torch.is_grad_enabled():
            return super().forward(ids)
        raise ZeroDivisionError("the script's own")


def test_an_error_of_the_scripts_own_reaches_it() -> None:
    with workbench(PaddedTexts(), make_model=Wrong) as bench:
        bench.switchboard.switch(PLAN)
        with pytest.raises(ZeroDivisionError, match="the script's own"):
            bench.train(1)


class WithTerm(TextClassifier):
    """Keeps a term of the loss that it does not return."""

    term: Any = None

    def forward(self, ids: Any) -> Any:
        self.term = self.embedding.weight[ids].square().mean()
        return super().forward(ids)


def of_terms(model: Any, ids: Any, labels: Any) -> Any:
    return F.cross_entropy(model(ids), labels) + model.term


def test_a_model_that_keeps_a_term_of_its_loss_is_left_alone() -> None:
    _, _, proof = trained(Kind(WithTerm, of_terms), PLAN)
    assert proof is not None
    assert not proof.effective
    assert "WithTerm.term may be a term of a loss" in proof.evidence


def test_a_model_that_the_script_watches_is_left_alone() -> None:
    with workbench(PaddedTexts(), make_model=TextClassifier) as bench:
        shapes = []
        bench.model.get_submodule("layer").register_forward_hook(lambda _, __, out: shapes.append(out.shape))
        bench.switchboard.switch(PLAN)
        bench.train(3)
        (proof,) = bench.switchboard.proofs()
    assert {shape[1] for shape in shapes} == {WIDTH}
    assert "the script has a hook" in proof.evidence


def test_pictures_are_left_alone() -> None:
    with workbench() as bench:
        expected = bench.train(3)
        assert bench.hooks.padding.share() == 0.0
    with workbench() as bench:
        bench.switchboard.switch(PLAN)
        assert bench.train(3) == expected
        (proof,) = bench.switchboard.proofs()
    assert proof.evidence == "0 of 3 passes were cut, by 0% of their columns"
    assert not proof.effective


@pytest.mark.parametrize("others", [{"bf16": {}}, {"fused_optimizer": {}}, {"batched_fetch": {}}])
def test_it_goes_with_others(others: dict[str, Any]) -> None:
    for techniques in ({**others, **PLAN.techniques}, {**PLAN.techniques, **others}):
        with workbench(PaddedTexts(), make_model=TextClassifier) as bench:
            bench.train(1)
            bench.switchboard.switch(Plan(techniques), prepare=True)
            bench.train(5)
            for proof in bench.switchboard.proofs():
                assert proof.effective, proof.evidence
            bench.switchboard.switch(BASELINE)


# ---- what of a call is padding
IDS = torch.tensor([[7, 3, 5, 2, 0, 0, 0, 0, 0, 0], [9, 9, 0, 0, 0, 0, 0, 0, 0, 0]])
MASK = (IDS != 0).long()


def kept(*tensors: Any, known: Known | None = None, multiple: int = 1) -> dict[int, int]:
    found = find(list(tensors), known or Known(), multiple)
    return dict(found.widths) if found is not None else {}


def test_columns_that_are_padding_in_every_row_are_cut() -> None:
    assert kept(IDS) == {10: 4}
    assert kept(IDS, MASK, torch.zeros_like(IDS)) == {10: 4}
    assert kept(IDS, multiple=8) == {10: 8}
    assert kept(IDS[1:]) == {10: 2}


def test_each_of_a_calls_tensors_has_a_say() -> None:
    longer = MASK.clone()
    longer[1, 6] = 1
    assert kept(IDS, longer) == {10: 7}
    assert kept(IDS, torch.randn(2, 10, 3)) == {}
    assert kept(IDS, torch.randn(2, 10, 3).masked_fill((IDS == 0).unsqueeze(-1), 0.0)) == {10: 4}


def test_positions_are_no_content() -> None:
    assert kept(IDS, torch.arange(10).expand(2, 10)) == {10: 4}
    assert kept(IDS, torch.arange(10).unsqueeze(0)) == {10: 4}


def test_left_padding_is_none() -> None:
    assert kept(IDS.flip(1)) == {}


def test_a_value_that_was_not_proven_to_be_padding_is_none() -> None:
    """Rows that end alike, as all that were cut off at the same separator."""
    known = Known({0: 0})
    assert kept(IDS, known=known) == {10: 4}
    assert kept(IDS.masked_fill(IDS == 0, 5), known=known) == {}


def test_masks_of_attention_are_cut_in_both_dimensions() -> None:
    wide, square = MASK[:, None, None, :], torch.ones(10, 10)
    found = find([IDS, wide, square, torch.zeros(2)], Known(), 1)
    assert found is not None
    cut_ids, cut_wide, cut_square, labels = cut(torch, (IDS, wide, square, torch.zeros(2)), found.cuts)
    assert cut_ids.shape == (2, 4)
    assert cut_wide.shape == (2, 1, 1, 4)
    assert cut_square.shape == (4, 4)
    assert labels.shape == (2,)
    assert cut_ids.is_contiguous()


@pytest.mark.parametrize(
    "tensor", [torch.randn(2, 10), torch.zeros(2, 7, dtype=torch.long), torch.zeros(2, 3, 8, 8)]
)
def test_what_holds_no_sequences_is_never_cut(tensor: Any) -> None:
    assert kept(tensor) == {}


def test_what_is_restored_repeats_the_last_column_without_a_gradient() -> None:
    narrow = torch.arange(6.0).reshape(2, 3).requires_grad_()
    found = Found({5: 3}, {0: 5}, {}, {}, frozenset())
    output = restore(torch, {"a": narrow}, frozenset({(0, 1, 0)}), found)["a"]
    assert output.tolist() == [[0, 1, 2, 2, 2], [3, 4, 5, 5, 5]]
    torch.autograd.backward(output.sum())
    assert narrow.grad is not None
    assert torch.equal(narrow.grad, torch.ones(2, 3))
    with pytest.raises(ValueError, match="2 long, and 3 was expected"):
        restore(torch, narrow[:, :2], frozenset({(0, 1, 0)}), found)


# ---- what is seen of it, and what follows
def test_the_share_of_padding_is_seen() -> None:
    with workbench(PaddedTexts(), make_model=TextClassifier) as bench:
        assert bench.hooks.padding.share() is None
        bench.train(5)
        share = bench.hooks.padding.share()
    data = PaddedTexts()
    longest = int((data.ids != 0).sum(1).max())
    assert share is not None
    assert (WIDTH - rounded_up(longest, MULTIPLE)) / WIDTH <= share < 1


def test_numbers_that_cannot_be_compared_end_the_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the kind of tensor raises, the script goes on being watched."""
    seen = PaddingSeen()
    seen.look((IDS,))
    monkeypatch.setattr("hasten.inside.observing.padding.rows_of", lambda _: 1 / 0)
    seen.look((IDS,))
    assert not seen.wants_more
    assert seen.share() == pytest.approx(0.2)  # of 10 columns 4 are used, and 8 kept


def test_padding_to_a_multiple_of_8_is_none() -> None:
    """Scripts ask for it, and nothing of it is ever cut."""
    seen = PaddingSeen()
    seen.look((torch.tensor([[5, 6, 7, 8, 9, 0, 0, 0], [5, 6, 7, 8, 9, 4, 0, 0]]),))
    assert seen.share() == 0


def test_one_look_too_many_is_not_taken() -> None:
    with workbench(PaddedTexts(), make_model=TextClassifier) as bench:
        bench.train(30)
        assert not bench.hooks.padding.wants_more


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        ({"padding": 0.0}, "no padding beyond multiples of 8 was seen in what goes"),
        ({"padding": 0.04}, "4% of the columns of sequences are padding in all of a batch"),
        ({"padding": 0.5, "roots": ()}, "no module is called in its training steps"),
        ({"padding": 0.5, "uses": ("pack_padded_sequence",)}, "the script packs its sequences"),
        ({"padding": 0.5, "uses": ("compile",)}, "the script compiles its model"),
    ],
)
def test_it_is_refused_where_it_cannot_help(seen: dict[str, Any], reason: str) -> None:
    (told,) = PadTrim.refuse(facts(**seen))
    assert told.startswith(reason)


@pytest.mark.parametrize("padding", [None, 0.05, 0.9])
def test_it_applies_to_padding(padding: float | None) -> None:
    assert PadTrim.refuse(facts(padding=padding)) == []


@pytest.mark.parametrize(("dropout", "risk"), [(False, "exact"), (True, "draws")])
def test_with_dropout_other_masks_are_drawn(dropout: bool, risk: str) -> None:
    assert PadTrim.risk_for(facts(roots=(root(dropout=dropout),))) == risk


@pytest.mark.parametrize("settings", [{"multiple": 0}, {"multiple": True}, {"multiple": 2.0}, {"width": 8}])
def test_impossible_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="multiple"):
        PadTrim.check(settings)
