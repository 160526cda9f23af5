"""Convolutions as products: the same numbers but for rounding, in the same layout, and left alone wherever
something else must see the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from hasten.inside.observing.product_convolutions import Sliding, form_of, may_be_product
from hasten.inside.techniques.matmul_convolutions import MatmulConvolutions
from hasten.inside.techniques.support import multiplied_convolutions
from hasten.inside.techniques.support.multiplied_convolutions import Convolution, fits
from hasten.records.plan import Plan
from hasten.testing.technique_contract import (
    check_steps_leave_no_trace,
    check_switching_alone_leaves_no_trace,
    check_what_the_script_drops_is_freed,
    plan_of,
)
from hasten.testing.workbench import patch_cnn, workbench

from .made_up import facts, root
from .watched_calls import CALLS

LAST = torch.channels_last
NONE = "no convolution of few channels has a kernel that moves by its size or spans its input"
PLAN = Plan({"matmul_convolutions": {}})
PATCHES = nn.Conv2d(3, 8, 4, stride=4)
PICTURES = torch.randn(2, 3, 8, 8)


# ---- what is computed
def both_ways(one: Callable[..., Any], pictures: Any, layer: nn.Conv2d, gradient: Any) -> list[Any]:
    mine = pictures.clone(memory_format=torch.preserve_format).requires_grad_()
    layer.zero_grad()
    found = one(mine, layer.weight, layer.bias)
    found.backward(gradient)
    kept = [layer.weight.grad, *([] if layer.bias is None else [layer.bias.grad])]
    return [found.detach(), mine.grad, *(one.clone() for one in kept if one is not None)]


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_it_gives_torch_s_numbers_forward_and_backward(data: Any) -> None:
    def draw(least: int, most: int) -> int:
        return int(data.draw(st.integers(least, most)))

    groups, channels, count = draw(1, 3), draw(1, 4), draw(1, 3)
    sides, kernel = [draw(4, 9), draw(4, 9)], [draw(2, 4), draw(2, 4)]
    stride, padding, dilation = [1, 1], [0, 0], [1, 1]
    form = data.draw(st.sampled_from(["patches", "spans width", "spans height"]))
    if form == "patches":
        stride, groups = kernel, 1
    else:
        spanned = 1 if form == "spans width" else 0
        kernel[spanned] = sides[spanned]
        stride[1 - spanned], padding[1 - spanned] = draw(1, 2), draw(0, 2)
        dilation[1 - spanned] = draw(1, 2) if sides[1 - spanned] >= 7 else 1
    bias, make = bool(data.draw(st.booleans())), cast(Any, nn.Conv2d)
    layer = make(channels * groups, 2 * groups, kernel, stride, padding, dilation, groups, bias)
    pictures = torch.randn(count, channels * groups, *sides)
    if data.draw(st.booleans()):
        pictures = pictures.to(memory_format=LAST)
    sliding = Sliding.of(layer.stride, layer.padding, layer.dilation, groups)
    assert sliding is not None
    found = form_of(sides, layer.weight.shape, sliding)
    assert found is not None
    expected = layer(pictures)
    assert found == form or layer.weight.shape[2:] == pictures.shape[2:]
    gradient = torch.randn_like(expected)

    def multiplied(pictures: Any, weight: Any, bias: Any) -> Any:
        return Convolution(found, pictures, weight, bias, sliding).multiplied(torch)

    def plain(pictures: Any, weight: Any, bias: Any) -> Any:
        return F.conv2d(pictures, weight, bias, tuple(stride), tuple(padding), tuple(dilation), groups)

    for ours, theirs in zip(
        both_ways(multiplied, pictures, layer, gradient),
        both_ways(plain, pictures, layer, gradient),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("pictures_last", [False, True])
@pytest.mark.parametrize("weights_last", [False, True])
@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize(
    "shape",
    [
        pytest.param((3, 8, (2, 2), (2, 2), (9, 8)), id="patches"),
        pytest.param((3, 1, (2, 2), (2, 2), (9, 8)), id="one channel out"),
        pytest.param((1, 8, (2, 2), (2, 2), (9, 8)), id="one channel in"),
        pytest.param((3, 8, (4, 4), (4, 4), (4, 4)), id="one patch"),
        pytest.param((1, 8, (3, 8), (1, 1), (9, 8)), id="words"),
        pytest.param((3, 1, (9, 3), (1, 1), (9, 8)), id="electrodes"),
    ],
)
def test_what_it_returns_lies_in_memory_as_torch_s(
    dtype: Any, pictures_last: bool, weights_last: bool, count: int, shape: Any
) -> None:
    """A script that takes a view of it must go on, and layers that follow choose kernels by it."""
    kinds = {False: torch.contiguous_format, True: LAST}
    channels, out, kernel, stride, sides = shape
    layer: Any = nn.Conv2d(channels, out, kernel, stride)
    layer = layer.to(memory_format=kinds[weights_last], dtype=dtype)
    pictures = torch.randn(count, channels, *sides, dtype=dtype).to(memory_format=kinds[pictures_last])
    expected = layer(pictures)
    with workbench(make_model=patch_cnn) as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        found = layer(pictures)
    assert found.stride() == expected.stride()
    assert found.dtype == dtype
    torch.testing.assert_close(found, expected, rtol=0.02, atol=0.02)


def test_a_weight_of_another_layout_is_another_kind(counted: list[str]) -> None:
    """With one channel both layouts are contiguous, and torch goes by the strides."""
    layer: Any = nn.Conv2d(1, 8, 2, stride=2)
    pictures = torch.randn(4, 1, 8, 8)
    with workbench(make_model=patch_cnn) as bench:
        bench.train(1)
        for layout in (LAST, torch.contiguous_format):
            layer = layer.to(memory_format=layout)
            expected = layer(pictures)
            bench.switchboard.switch(PLAN)
            counted.clear()
            assert layer(pictures).stride() == expected.stride()
            assert counted == ["patches"] * 2, "compared first"
            bench.switchboard.switch(Plan({}))


# ---- which calls it takes
SLIDING = Sliding((1, 1), (0, 0), (1, 1))


@pytest.mark.parametrize(
    ("sides", "weight", "changes", "form"),
    [
        pytest.param((32, 300), (100, 1, 3, 300), {}, "spans width", id="words"),
        pytest.param((22, 250), (16, 1, 22, 1), {"groups": 8}, "spans height", id="electrodes"),
        pytest.param((224, 224), (384, 3, 16, 16), {"stride": (16, 16)}, "patches", id="patches"),
        pytest.param((30, 31), (8, 3, 4, 4), {"stride": (4, 4)}, "patches", id="patches and a rest"),
        pytest.param((32, 300), (100, 1, 3, 300), {"padding": (2, 0)}, "spans width", id="padded words"),
        pytest.param((32, 300), (100, 1, 3, 300), {"padding": (0, 1)}, None, id="padded width"),
        pytest.param((32, 300), (100, 1, 3, 299), {}, None, id="moves along both"),
        pytest.param((32, 1), (100, 1, 3, 1), {}, None, id="nothing to span"),
        pytest.param((28, 28), (32, 1, 3, 3), {}, None, id="usual"),
        pytest.param((28, 28), (32, 3, 1, 1), {}, None, id="one by one"),
        pytest.param((28, 28), (32, 96, 2, 2), {"stride": (2, 2)}, None, id="many channels"),
        pytest.param((4, 4), (32, 128, 4, 4), {}, None, id="many channels to span"),
        pytest.param(
            (28, 28), (32, 3, 4, 4), {"stride": (4, 4), "padding": (2, 2)}, None, id="padded patches"
        ),
        pytest.param((28, 28), (32, 1, 4, 4), {"stride": (4, 4), "groups": 3}, None, id="groups"),
    ],
)
def test_only_kernels_that_span_or_make_patches(sides: Any, weight: Any, changes: Any, form: Any) -> None:
    made = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), **changes}
    assert form_of(sides, weight, Sliding(**made)) == form


def test_arguments_in_every_way_that_torch_takes_them() -> None:
    assert Sliding.of([2], "valid", 1, 1) == Sliding((2, 2), (0, 0), (1, 1))
    assert Sliding.of((2, 1), 3, [1, 2], 4) == Sliding((2, 1), (3, 3), (1, 2), 4)
    wrong: list[tuple[Any, Any, Any]] = [(1, "same", 1), ((), 0, 1), (2.0, 0, 1)]
    assert all(Sliding.of(*each, 1) is None for each in wrong)


@pytest.mark.parametrize(
    ("layer", "may"),
    [
        (nn.Conv2d(1, 100, (3, 300)), True),
        (nn.Conv2d(8, 16, (22, 1), groups=8), True),
        (nn.Conv2d(1, 8, (7, 4), padding=(3, 0)), True),
        (nn.Conv2d(3, 192, 4, stride=4), True),
        (nn.Conv2d(3, 32, 3), False),
        (nn.Conv2d(1, 8, (1, 64), padding="same"), False),
        (nn.Conv2d(96, 192, 2, stride=2), False),
        (nn.Conv2d(3, 32, 1), False),
        (nn.LazyConv2d(32, 3), False),
    ],
)
@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_modules_that_may_be_called_so(layer: Any, may: bool) -> None:
    assert may_be_product(layer) == may


WEIGHT = torch.randn(8, 3, 4, 4)


@pytest.mark.parametrize(
    ("pictures", "weight", "taken"),
    [
        pytest.param(PICTURES, WEIGHT, True, id="usual"),
        pytest.param(PICTURES.bfloat16(), nn.Parameter(WEIGHT), True, id="bfloat16"),
        pytest.param(PICTURES.double(), WEIGHT.double(), False, id="float64"),
        pytest.param(PICTURES[0], WEIGHT, False, id="one picture"),
        pytest.param(PICTURES[:0], WEIGHT, False, id="none"),
        pytest.param(PICTURES.to("meta"), WEIGHT.to("meta"), False, id="nowhere"),
        pytest.param(PICTURES.to_mkldnn(), WEIGHT, False, id="another layout"),
        pytest.param("pictures", WEIGHT, False, id="no tensor"),
    ],
)
def test_only_tensors_that_it_knows(pictures: Any, weight: Any, taken: bool) -> None:
    assert fits(torch, pictures, weight) == taken


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The forms that were computed as products."""
    seen: list[str] = []
    plain = Convolution.multiplied

    def noting(mine: Convolution, torch: Any) -> Any:
        seen.append(mine.form)
        return plain(mine, torch)

    monkeypatch.setattr(Convolution, "multiplied", noting)
    return seen


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("call", CALLS)
def test_what_must_see_the_call_does(call: Callable[[Any, Any], object], counted: list[str]) -> None:
    expected = call(PATCHES, PICTURES)
    with workbench(make_model=patch_cnn) as bench:
        bench.switchboard.switch(PLAN)
        bench.train(1)
        assert counted
        counted.clear()
        found = call(PATCHES, PICTURES)
    assert not counted
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


# ---- as a technique
def test_training_under_it() -> None:
    with workbench(make_model=patch_cnn) as bench:
        bench.switchboard.switch(PLAN)
        bench.train(5)
        (proof,) = bench.switchboard.proofs()
    assert proof.effective
    assert proof.evidence == "10 convolutions computed more simply, 0 by torch"


def test_switching_leaves_no_trace() -> None:
    with workbench(make_model=patch_cnn) as bench:
        bench.train(1)
        check_switching_alone_leaves_no_trace(bench, PLAN)
        check_steps_leave_no_trace(bench, PLAN)
        check_what_the_script_drops_is_freed(bench, "matmul_convolutions")
        assert "conv2d" in repr(torch.conv2d)
        assert torch.conv2d is F.conv2d


@pytest.mark.parametrize("order", [("compile", "matmul_convolutions"), ("matmul_convolutions", "compile")])
def test_a_compiled_model_is_left_as_it_is(order: tuple[str, str]) -> None:
    """In one graph: what stands in for conv2d does not break it."""
    with workbench(make_model=patch_cnn) as bench:
        bench.train(2)
        for plan in (plan_of(order[0]), plan_of(*order)):
            bench.switchboard.switch(plan, prepare=True)
            bench.train(2)
        proofs = {proof.technique: proof for proof in bench.switchboard.proofs()}
    assert proofs["matmul_convolutions"].effective
    if order[0] == "compile":
        assert proofs["matmul_convolutions"].evidence == "the model is compiled, and has code of its own"
    assert "1 graph" in proofs["compile"].evidence, proofs["compile"].evidence


def test_other_convolutions_are_left_to_torch_and_it_is_said() -> None:
    with workbench() as bench:
        bench.switchboard.switch(PLAN)
        bench.train(2)
        (proof,) = bench.switchboard.proofs()
    assert not proof.effective
    assert proof.evidence == NONE


def test_numbers_that_differ_are_found_and_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with workbench(make_model=patch_cnn) as plain:
        expected = plain.train(3)
    plain_patches = multiplied_convolutions._of_patches
    monkeypatch.setattr(multiplied_convolutions, "_of_patches", lambda *given: plain_patches(*given).flip(2))
    with workbench(make_model=patch_cnn) as bench:
        bench.switchboard.switch(PLAN)
        found = bench.train(3)
        (proof,) = bench.switchboard.proofs()
    torch.testing.assert_close(found, expected)
    assert not proof.effective
    assert "it gave other numbers for (" in proof.evidence


def test_pictures_that_are_not_numbers_say_nothing_of_the_next(counted: list[str]) -> None:
    broken = torch.full_like(PICTURES, float("nan"))
    with workbench(make_model=patch_cnn) as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        assert PATCHES(broken).isnan().all()
        counted.clear()
        PATCHES(PICTURES)
        PATCHES(PICTURES)
        assert counted == ["patches"] * 3  # compared once
        bench.train(1)
        (proof,) = bench.switchboard.proofs()
    assert proof.effective, proof.evidence


def test_numbers_too_large_say_nothing_of_the_next(counted: list[str]) -> None:
    pictures, weight = torch.full((2, 3, 4, 4), 300.0).half(), torch.full((8, 3, 4, 4), 300.0).half()
    with workbench(make_model=patch_cnn) as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        assert F.conv2d(pictures, weight, stride=4).isinf().all()
        counted.clear()
        F.conv2d(pictures / 300, weight / 300, stride=4)
        assert counted == ["patches"] * 2


def test_what_nearly_cancels_differs_by_rounding_alone(counted: list[str]) -> None:
    weight = torch.randn(8, 3, 4, 4)
    weight = weight - weight.mean(dim=(1, 2, 3), keepdim=True)
    with workbench(make_model=patch_cnn) as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        F.conv2d(torch.ones(2, 3, 4, 4), weight, stride=4)
        bench.train(1)
        (proof,) = bench.switchboard.proofs()
    assert proof.effective, proof.evidence


@pytest.mark.parametrize("bias", [0.5, torch.zeros(1), torch.zeros(8).double()])
def test_a_bias_that_torch_refuses_is_refused_as_torch_does(bias: Any) -> None:
    def mistake() -> str:
        with pytest.raises((RuntimeError, TypeError)) as error:
            F.conv2d(PICTURES, WEIGHT, bias, stride=4)
        return str(error.value).split("\n")[0]

    with workbench(make_model=patch_cnn) as bench:
        bench.train(1)
        plain = mistake()
        bench.switchboard.switch(PLAN)
        F.conv2d(PICTURES, WEIGHT, torch.zeros(8), stride=4)
        assert mistake() == plain


def test_a_precision_that_was_asked_for_products_is_not_that_of_convolutions(counted: list[str]) -> None:
    before = torch.get_float32_matmul_precision()
    with workbench(make_model=patch_cnn) as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        torch.set_float32_matmul_precision("medium")
        try:
            PATCHES(PICTURES)
        finally:
            torch.set_float32_matmul_precision(before)
    assert not counted


@pytest.mark.parametrize("stride", [4, 4.0, (4, 4, 4), ()])
def test_a_mistake_of_the_script_s_is_told_as_torch_tells_it(stride: Any) -> None:
    def mistake() -> str:
        with pytest.raises((RuntimeError, TypeError)) as error:
            F.conv2d(PICTURES, WEIGHT[:, :2], stride=stride)
        return str(error.value).split("\n")[0]

    plain = mistake()
    with workbench(make_model=patch_cnn) as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        assert mistake() == plain


def test_gradients_can_be_differentiated() -> None:
    def second() -> Any:
        pictures = PICTURES.clone().requires_grad_()
        (gradient,) = torch.autograd.grad((PATCHES(pictures) ** 2).sum(), pictures, create_graph=True)
        return torch.autograd.grad((gradient**2).sum(), pictures)[0]

    expected = second()
    with workbench(make_model=patch_cnn) as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        torch.testing.assert_close(second(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("context", [torch.inference_mode, torch.no_grad])
def test_an_evaluation(context: Callable[[], Any]) -> None:
    with workbench(make_model=patch_cnn) as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        bench.train(1)
        pictures = torch.randn(7, 3, 8, 8)
        with context():
            found = bench.model(pictures)
        bench.switchboard.switch(Plan({}))
        with context():
            torch.testing.assert_close(found, bench.model(pictures))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"roots": (root(products=0),)}, NONE),
        ({"roots": (root(products=1, devices=("cuda",)),)}, "the training is not on the CPU"),
        ({"uses": ("compile",)}, "the script compiles its model"),
    ],
)
def test_where_it_does_not_apply(changes: Any, why: str) -> None:
    assert MatmulConvolutions.refuse(facts(**{"roots": (root(products=1),), **changes})) == [why]
    assert MatmulConvolutions.refuse(facts(roots=(root(products=1),))) == []
