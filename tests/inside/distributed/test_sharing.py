"""What is shared of an evaluation, and what each rank computes in full: of models and calls of many kinds."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from hasten.inside.distributed.fingerprint import Incomparable, content_of, value_of
from hasten.inside.structures import tensors_of

from .asking import Rank, Stopped, ranks_ask

pytestmark = pytest.mark.attack("truth")

ROWS = 21  # uneven in 2 and in 3
Pair = namedtuple("Pair", "first second")


@dataclass
class Record:
    logits: Any
    features: Any = None


def rows(count: int = ROWS, seed: int = 5) -> Any:
    return torch.randn(count, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Model(nn.Module):
    """Two layers, and then what a case does of it."""

    def __init__(self, after: Callable[..., Any]) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.first, self.last = nn.Linear(6, 8).double(), nn.Linear(8, 6).double()
        self.norm = nn.BatchNorm1d(8).double()
        self.register_buffer("offset", torch.zeros(6, dtype=torch.float64))
        self.count, self.kept = 0, None
        self.after = [after]  # in a list, so that it is no method

    def forward(self, x: Any, **more: Any) -> Any:
        out = self.last(torch.tanh(self.norm(self.first(x)))) + self.offset
        return self.after[0](self, x, out, **more)


def plain(model: Any, x: Any, out: Any) -> Any:
    return out


def made(after: Callable[..., Any]) -> Callable[[], Model]:
    return lambda: Model(after)


def same(found: Any, expected: Any) -> bool:
    if type(found) is not type(expected):
        return False
    pairs = zip(tensors_of(torch, found), tensors_of(torch, expected), strict=True)
    return all(torch.allclose(a, b, rtol=0, atol=1e-12, equal_nan=True) for a, b in pairs)


FORMS: dict[str, Callable[..., Any]] = {
    "a tensor": plain,
    "a tuple": lambda model, x, out: (out, out + 1),
    "a list": lambda model, x, out: [out, out + 1],
    "a dict": lambda model, x, out: {"logits": out, "more": {"features": out + 1}},
    "a named tuple": lambda model, x, out: Pair(out, out + 1),
    "a dataclass": lambda model, x, out: Record(out),
    "a dataclass in a dict": lambda model, x, out: {"of": [Record(out, out * 2)]},
    "None as well": lambda model, x, out: (out, None),
    "whole numbers": lambda model, x, out: out.argmax(1),
    "truths": lambda model, x, out: out > 0,
    "complex numbers": lambda model, x, out: torch.complex(out, out),
    "not contiguous": lambda model, x, out: out.view(-1, 2, 3).transpose(1, 2),
    "nan and infinity": lambda model, x, out: out.masked_fill(out > 0.1, float("-inf")).log(),
}


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("form", FORMS)
def test_rows_are_shared_in_any_form(form: str, size: int) -> None:
    def ask(rank: Rank) -> None:
        for seed in range(3):
            x = rows(seed=seed)
            assert same(rank.ask(x), rank.model(x))
        assert rank.evaluation.shared == 2

    ranks_ask(made(FORMS[form]), ask, size)


def _kept(model: Any, x: Any, out: Any) -> Any:
    model.kept = out.detach() * 1
    return out


def _counted(model: Any, x: Any, out: Any) -> Any:
    model.count += 1
    return out


def _listed(model: Any, x: Any, out: Any) -> Any:
    model.after.append(out)
    return out


def _changing_its_input(model: Any, x: Any, out: Any) -> Any:
    x.clamp_(-1, 1)
    return out


def _changing_a_buffer(model: Any, x: Any, out: Any) -> Any:
    model.offset.add_(1)
    return out


WHOLE: dict[str, Callable[..., Any]] = {
    "the mean of a batch": lambda model, x, out: out - out.mean(0),
    "the largest of a batch": lambda model, x, out: out / out.abs().max(),
    "a softmax over samples": lambda model, x, out: out.softmax(0),
    "samples in order": lambda model, x, out: out.sort(0).values,
    "similarities among samples": lambda model, x, out: out @ out.t(),
    "one row": lambda model, x, out: out.mean(0, keepdim=True),
    "a number as well": lambda model, x, out: (out, out.max().item()),
    "the length as well": lambda model, x, out: (out, len(out)),
    "texts as well": lambda model, x, out: (out, [f"{row:.1f}" for row in out[:, 0].tolist()]),
    "an array of numpy": lambda model, x, out: (out, out.numpy()),
    "the input itself": lambda model, x, out: (out, x),
    "a view of the input": lambda model, x, out: (out, x[:, :2]),
    "one tensor twice": lambda model, x, out: (out, out),
    "two views of one": lambda model, x, out: (out[:, :3], out[:, 3:]),
    "a parameter": lambda model, x, out: (out, model.last.weight),
    "sparse": lambda model, x, out: out.to_sparse(),
    "random": lambda model, x, out: out + 0 * torch.rand(len(out), 1),
    "an attribute that is kept": _kept,
    "a counter": _counted,
    "a list that grows": _listed,
    "a buffer that changes": _changing_a_buffer,
    "an input that changes": _changing_its_input,
    "the number of rows": lambda model, x, out: out * len(x),
}


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("kind", WHOLE)
def test_what_is_more_than_rows_is_computed_by_all(kind: str, size: int) -> None:
    def ask(rank: Rank) -> None:
        twin = deepcopy(rank.model)
        for seed in range(3):
            x = rows(seed=seed)
            given = x.clone()
            with torch.no_grad():
                expected = twin(x)
            found = rank.ask(given)
            assert type(found) is type(expected)
            assert kind == "sparse" or same(found, expected)
            assert torch.equal(given, x)
        assert rank.evaluation.shared == 0
        assert rank.rows.count(ROWS) == 3
        assert (rank.model.count, rank.model.offset[0]) == (twin.count, twin.offset[0])

    ranks_ask(made(WHOLE[kind]), ask, size)


def test_batch_norm_that_goes_on_learning_is_computed_by_all() -> None:
    def ask(rank: Rank) -> Any:
        rank.model.norm.train()
        for seed in range(3):
            rank.ask(rows(seed=seed))
        assert rank.evaluation.shared == 0
        assert rank.model.norm.num_batches_tracked == 3
        return rank.model.norm.running_mean.tolist()

    first, second = ranks_ask(made(plain), ask)
    assert first == second


def test_features_collected_by_a_hook_are_of_all_rows() -> None:
    def ask(rank: Rank) -> None:
        features: list[Any] = []
        rank.model.first.register_forward_hook(lambda layer, inputs, out: features.append(out))
        for _ in range(3):
            rank.ask(rows())
        assert [len(one) for one in features] == [ROWS] * 3

    ranks_ask(made(plain), ask)


# ---- ranks that ask different things
def _permuted(x: Any) -> Any:
    return x.flip(0)


def _one_element(x: Any) -> Any:
    x[-1, -1] += 1e-12
    return x


INPUTS: dict[str, Callable[[Any], Any]] = {
    "other rows": lambda x: rows(seed=8),
    "the same rows in another order": _permuted,
    "the last element of the last row": _one_element,
    "two columns exchanged": lambda x: x[:, [1, 0, 2, 3, 4, 5]],
    "the sign": lambda x: -x,
    "fewer rows": lambda x: x[:-1],
    "many fewer rows": lambda x: x[:3],
    "more rows": lambda x: torch.cat([x, x]),
    "no rows": lambda x: x[:0],
}


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("kind", INPUTS)
def test_other_inputs_are_answered_each(kind: str, size: int) -> None:
    """After equal ones, from the same line; and then one rank asks more often than the others."""

    def ask(rank: Rank) -> None:
        for turn in range(6):
            x = rows(seed=turn % 2)
            if turn >= 3 and rank.rank == size - 1:
                x = INPUTS[kind](x)
            for _ in range(1 + (turn > 3 and rank.rank)):
                assert same(rank.ask(x), rank.model(x))
        assert rank.evaluation.shared == 2

    ranks_ask(made(plain), ask, size)


def _scaled(model: Any, x: Any, out: Any, **more: Any) -> Any:
    factor = more.get("scale", 1.0)
    return out * (factor if not hasattr(factor, "value") else factor.value)


@dataclass
class Opaque:
    value: float


ARGUMENTS: dict[str, tuple[Any, Any]] = {
    "a number": ({"scale": 1.0}, {"scale": 2.0}),
    "a keyword that is missing": ({"scale": 1.0}, {}),
    "a keyword of another name": ({"scale": 1.0}, {"other": 1.0}),
    "a text": ({"name": "a"}, {"name": "b"}),
    "a whole number for a number": ({"scale": 1.0}, {"scale": 1}),
    "a number in a list": ({"more": [1, 2]}, {"more": [1, 3]}),
    "a tensor of no dimension": ({"scale": torch.tensor(1.0)}, {"scale": torch.tensor(2.0)}),
    "a dtype": ({"kind": torch.float32}, {"kind": torch.float64}),
    "an object that we cannot look into": ({"scale": Opaque(1.0)}, {"scale": Opaque(2.0)}),
}


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_other_arguments_are_answered_each(kind: str) -> None:
    def ask(rank: Rank) -> None:
        x = rows()
        for turn in range(5):
            more = ARGUMENTS[kind][rank.rank if turn >= 3 else 0]
            assert same(rank.ask(x, **more), rank.model(x, **more))
        assert rank.evaluation.shared == (0 if "object" in kind else 2)

    ranks_ask(made(_scaled), ask)


def _by_data(model: Any) -> None:
    for parameter in model.parameters():
        parameter.data.mul_(1.01)  # of which no version tells


STATES: dict[str, Callable[[Any], Any]] = {
    "a buffer": lambda model: model.offset.add_(1),
    "a buffer's place": lambda model: setattr(model, "offset", model.offset + 1),
    "running statistics": lambda model: model.norm.running_mean.fill_(0.5),
    "a parameter": lambda model: model.last.weight.data.add_(0.1),
    "all parameters, by data": _by_data,
    "a parameter's place": lambda model: setattr(
        model.last, "weight", nn.Parameter(model.last.weight.detach() * 2)
    ),
    "a flag within": lambda model: model.norm.train(),
    "another layer": lambda model: setattr(model, "last", nn.Sequential(model.last, nn.Tanh())),
}


@pytest.mark.parametrize("kind", STATES)
def test_models_that_differ_answer_each(kind: str) -> None:
    def ask(rank: Rank) -> None:
        x = rows()
        for turn in range(5):
            if turn == 3 and rank.rank == 1:
                with torch.no_grad():
                    STATES[kind](rank.model)
            twin = deepcopy(rank.model)
            with torch.no_grad():
                assert same(rank.ask(x), twin(x))
        assert rank.evaluation.shared == 2

    ranks_ask(made(plain), ask)


# ---- what the first batch does not show
def _coupled_later(model: Any, x: Any, out: Any) -> Any:
    return out if x.max() < 100 else out / out.abs().max()


def test_rows_that_depend_on_each_other_later_stop_the_run() -> None:
    def ask(rank: Rank) -> None:
        for turn in range(40):
            x = rows(seed=turn)
            x[0, 0] += 1000 if turn >= 7 else 0
            rank.ask(x)

    with pytest.raises(Stopped, match="depend on the other samples of a batch, which the first"):
        ranks_ask(made(_coupled_later), ask)


def _noisy_later(model: Any, x: Any, out: Any) -> Any:
    return out + torch.rand(1) * 0 if x.max() > 100 else out


def _failing_for_some(model: Any, x: Any, out: Any) -> Any:
    if len(x) < ROWS and x.max() > 100:
        raise ValueError("not so few")
    return out


def _shorter_for_some(model: Any, x: Any, out: Any) -> Any:
    width = 3 + int((x > 1000).sum() > 1)
    return out[:, :width]


LATER = {
    "drawing at random": _noisy_later,
    "failing for fewer rows": _failing_for_some,
    "of a width by the batch": _shorter_for_some,
}


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("kind", LATER)
def test_what_becomes_more_than_rows_is_computed_by_all_again(kind: str, size: int) -> None:
    def ask(rank: Rank) -> None:
        for turn in range(6):
            x = rows(seed=turn)
            if turn == 3:
                x[0, :2] += 2000  # in rank 0's part alone
            assert same(rank.ask(x), rank.model(x))

    ranks_ask(made(LATER[kind]), ask, size)


def test_an_error_is_the_scripts_own_in_all_ranks() -> None:
    def failing(model: Any, x: Any, out: Any) -> Any:
        if x.max() > 100:
            raise ValueError("too large")
        return out

    def ask(rank: Rank) -> None:
        for turn in range(4):
            x = rows(seed=turn)
            if turn == 3:
                x[0] += 1000
                with pytest.raises(ValueError, match="too large"):
                    rank.ask(x)
            else:
                rank.ask(x)

    ranks_ask(made(failing), ask)


def test_outputs_may_be_changed_in_place() -> None:
    def ask(rank: Rank) -> None:
        x = rows()
        for _ in range(4):
            out = rank.ask(x)
            out.zero_()
        assert rank.evaluation.shared == 3
        assert same(rank.ask(x), rank.model(x))

    ranks_ask(made(plain), ask)


def test_nothing_is_compared_between_a_batch_and_its_backward_pass() -> None:
    """A rank may ask where others do not."""

    def ask(rank: Rank) -> None:
        rank.ask(rows())
        rank.in_step = True
        for _ in range(rank.rank):
            assert len(rank.ask(rows(seed=rank.rank))) == ROWS
        rank.in_step = False
        rank.ask(rows())
        assert rank.evaluation.shared == 1

    ranks_ask(made(plain), ask, 3)


def test_a_last_batch_about_the_least_that_is_shared() -> None:
    """One rank's rows are worth sharing, another's are not."""

    def ask(rank: Rank) -> None:
        for count in (7, 8, 8, 7):
            x = rows(count + rank.rank)
            assert same(rank.ask(x), rank.model(x))

    ranks_ask(made(plain), ask)


def test_calls_of_several_kinds_are_proved_each() -> None:
    def of_width(model: Any, x: Any, out: Any, whole: bool = False) -> Any:
        return out.softmax(0) if whole else out

    def ask(rank: Rank) -> None:
        x = rows()
        for turn in range(6):
            more = {"whole": True} if turn % 2 else {}
            assert same(rank.ask(x, **more), rank.model(x, **more))
        assert rank.evaluation.shared == 2

    ranks_ask(made(of_width), ask)


# ---- digests
TENSORS: dict[str, Callable[[], Any]] = {
    "float32": lambda: torch.randn(70000),
    "one element": lambda: torch.randn(1),
    "bfloat16 of an odd length": lambda: torch.randn(8195).bfloat16(),
    "truths": lambda: torch.rand(77) > 0.5,
    "bytes from the middle": lambda: torch.randint(0, 255, (9000,), dtype=torch.uint8)[3:],
    "not contiguous": lambda: torch.randn(300, 70).t(),
    "complex": lambda: torch.randn(50, dtype=torch.complex64),
    "a conjugate": lambda: torch.randn(50, dtype=torch.complex64).conj(),
}


@pytest.mark.parametrize("kind", TENSORS)
def test_each_element_counts_and_so_does_its_place(kind: str) -> None:
    tensor = TENSORS[kind]()
    assert content_of(tensor) == content_of(tensor.clone())
    for place in {0, tensor.numel() // 2, tensor.numel() - 1}:
        other = tensor.clone().contiguous()
        flat = other.reshape(-1)
        flat[place] = ~flat[place] if flat.dtype is torch.bool else flat[place] + 1
        assert content_of(other) != content_of(tensor)
    flat = tensor.reshape(-1)
    if flat.numel() > 1 and kind != "truths":
        assert content_of(flat.flip(0)) != content_of(flat)


@pytest.mark.parametrize(
    "leaf", [object(), lambda: 1, torch.ones(3).to_sparse(), torch.ones(3, device="meta")]
)
def test_what_cannot_be_compared_is_said(leaf: Any) -> None:
    with pytest.raises(Incomparable):
        value_of(leaf)
