"""The pooling kernel: the same bits as torch's, and left alone wherever something else must see the call."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from hasten.inside.process.native_code import CannotCompile
from hasten.inside.techniques.fast_pooling import FastPooling
from hasten.inside.techniques.support import max_pooling
from hasten.inside.techniques.support.max_pooling import Pooling, fits, separate_windows
from hasten.inside.training import NotApplicable
from hasten.records.plan import Plan
from hasten.testing.technique_contract import (
    check_steps_leave_no_trace,
    check_switching_alone_leaves_no_trace,
    check_what_the_script_drops_is_freed,
    plan_of,
)
from hasten.testing.workbench import pooled_cnn, workbench

from .made_up import facts, root
from .watched_calls import CALLS

LAST = torch.channels_last
PLAN = Plan({"channels_last": {}, "fast_pooling": {}})
LAID_OUT = Plan({"channels_last": {}})


@pytest.fixture
def pool() -> Callable[[Any], Any]:
    return Pooling(torch).pool


# ---- what the kernel computes
def both_ways(one: Callable[[Any], Any], pictures: Any, gradient: Any) -> tuple[Any, Any]:
    mine = pictures.clone().requires_grad_()
    found = one(mine)
    found.backward(gradient)
    return found.detach(), mine.grad


def bits(tensor: Any) -> Any:
    return tensor.contiguous().view(torch.int16 if tensor.dtype == torch.bfloat16 else torch.int32)


NUMBERS = st.sampled_from([0.0, -0.0, 1.0, 1.0, -1.0, 2.5, 1e-40, -1e-40, float("inf"), -float("inf")])


@given(
    st.integers(1, 3),
    st.integers(8, 20),
    st.integers(2, 9),
    st.integers(2, 9),
    st.data(),
    st.sampled_from([torch.float32, torch.bfloat16]),
)
@settings(max_examples=150, deadline=None)
def test_it_gives_torch_s_bits(
    count: int, channels: int, height: int, width: int, data: Any, dtype: Any
) -> None:
    drawn = data.draw(st.lists(NUMBERS, min_size=16, max_size=16))
    repeated = torch.tensor(drawn).repeat(count * channels * height * width // 16 + 1)
    shape = count, channels, height, width
    pictures = (
        repeated[: count * channels * height * width].reshape(shape).to(dtype).contiguous(memory_format=LAST)
    )
    gradient = torch.randn(count, channels, height // 2, width // 2).to(dtype)
    for mine, theirs in zip(
        both_ways(Pooling(torch).pool, pictures, gradient),
        both_ways(lambda x: F.max_pool2d(x, 2), pictures, gradient),
        strict=True,
    ):
        assert torch.equal(bits(mine), bits(theirs))
        assert mine.is_contiguous(memory_format=LAST)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_nan_wins_as_in_torch(pool: Any, dtype: Any, sign: float) -> None:
    pictures = torch.randn(2, 8, 8, 8)
    pictures[torch.rand_like(pictures) < 0.3] = sign * float("nan")
    pictures = pictures.to(dtype).contiguous(memory_format=LAST)
    gradient = torch.randn(2, 8, 4, 4).to(dtype)
    ours, theirs = (both_ways(one, pictures, gradient) for one in (pool, lambda x: F.max_pool2d(x, 2)))
    assert torch.equal(ours[0].isnan(), theirs[0].isnan())
    assert torch.equal(ours[0].nan_to_num(7.0), theirs[0].nan_to_num(7.0))
    assert torch.equal(bits(ours[1]), bits(theirs[1]))


def test_large_pictures_are_shared_among_threads_and_come_out_the_same(pool: Any) -> None:
    pictures = torch.randn(16, 32, 40, 41).contiguous(memory_format=LAST)
    gradient = torch.randn(16, 32, 20, 20)
    expected = both_ways(lambda x: F.max_pool2d(x, 2), pictures, gradient)
    for threads in (1, 2, 3):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            found = both_ways(pool, pictures, gradient)
        finally:
            torch.set_num_threads(before)
        assert all(map(torch.equal, found, expected))


def test_it_can_be_gone_through_backward_twice(pool: Any) -> None:
    pictures = torch.randn(1, 8, 4, 4).contiguous(memory_format=LAST).requires_grad_()
    found = pool(pictures).sum()
    both = [torch.autograd.grad(found, pictures, retain_graph=True)[0] for _ in range(2)]
    assert torch.equal(*both)
    assert both[0].sum() == found.numel() * 8 * 4


def test_without_gradients_there_is_no_graph(pool: Any) -> None:
    pictures = torch.randn(1, 8, 4, 4).contiguous(memory_format=LAST)
    assert pool(pictures).grad_fn is None
    with torch.no_grad():
        assert pool(pictures.requires_grad_()).grad_fn is None
    with torch.inference_mode():
        assert torch.equal(pool(pictures), F.max_pool2d(pictures, 2))


# ---- which calls it takes
@pytest.mark.parametrize(
    ("arguments", "taken"),
    [
        ((2,), True),
        (((2, 2),), True),
        (([2],), True),
        ((2, 2), True),
        ((2, None), True),
        ((2, []), True),
        ((2, (2, 2), 0, 1, False), True),
        ((2, 1), False),
        ((3, 3), False),
        (((2, 3),), False),
        ((2, 2, 1), False),
        ((2, 2, 0, 2), False),
        ((2, 2, 0, 1, True), False),
    ],
)
def test_only_windows_of_two_by_two_that_do_not_overlap(arguments: Any, taken: bool) -> None:
    assert separate_windows(*arguments) == taken


USUAL = torch.randn(2, 8, 4, 4).contiguous(memory_format=LAST)


@pytest.mark.parametrize(
    ("pictures", "taken"),
    [
        pytest.param(USUAL, True, id="usual"),
        pytest.param(USUAL.bfloat16(), True, id="bfloat16"),
        pytest.param(USUAL.contiguous(), False, id="channels first"),
        pytest.param(USUAL.double(), False, id="float64"),
        pytest.param(USUAL.half(), False, id="float16"),
        pytest.param(USUAL[0], False, id="one picture"),
        pytest.param(USUAL[:, :4].contiguous(memory_format=LAST), False, id="few channels"),
        pytest.param(USUAL[:0], False, id="none"),
        pytest.param(USUAL[:, :, :1], False, id="too small"),
        pytest.param(USUAL.as_subclass(torch.nn.Parameter), False, id="another class"),
        pytest.param(USUAL.to("meta"), False, id="nowhere"),
    ],
)
def test_only_pictures_that_the_kernel_knows(pictures: Any, taken: bool) -> None:
    assert fits(torch, pictures) == taken


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the kernel took each call that the technique saw."""
    seen: list[bool] = []
    plain = FastPooling._is_right

    def noting(mine: FastPooling, *arguments: Any) -> bool:
        seen.append(True)
        return plain(mine, *arguments)

    monkeypatch.setattr(FastPooling, "_is_right", noting)
    return seen


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("call", CALLS)
def test_what_must_see_the_call_does(call: Callable[[Any, Any], object], counted: list[bool]) -> None:
    expected = call(nn.MaxPool2d(2), USUAL)
    with workbench(make_model=pooled_cnn) as bench:
        bench.switchboard.switch(PLAN)
        bench.train(1)
        counted.clear()
        found = call(nn.MaxPool2d(2), USUAL)
    assert not counted
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


# ---- as a technique
@pytest.mark.parametrize("more", [{}, {"bf16": {}}], ids=["float32", "bf16"])
def test_training_is_the_same_to_the_last_bit(more: dict[str, Any]) -> None:
    ended = []
    for plan in (LAID_OUT, PLAN):
        with workbench(make_model=pooled_cnn) as bench:
            bench.switchboard.switch(Plan({**plan.techniques, **more}))
            losses = bench.train(5)
            proofs = {proof.technique: proof for proof in bench.switchboard.proofs()}
            ended.append((losses, [p.detach().clone() for p in bench.model.parameters()]))
    assert proofs["fast_pooling"].effective, proofs["fast_pooling"].evidence
    assert proofs["fast_pooling"].evidence.startswith("10 poolings by the kernel, 0 by torch")
    assert ended[0][0] == ended[1][0]
    assert all(map(torch.equal, ended[0][1], ended[1][1]))


def test_switching_leaves_no_trace() -> None:
    with workbench(make_model=pooled_cnn) as bench:
        bench.train(1)
        check_switching_alone_leaves_no_trace(bench, PLAN)
        check_steps_leave_no_trace(bench, PLAN, LAID_OUT)
        check_what_the_script_drops_is_freed(bench, "fast_pooling")
        assert "max_pool2d" in repr(torch.max_pool2d)


@pytest.mark.parametrize("order", [("compile", "fast_pooling"), ("fast_pooling", "compile")])
def test_a_compiled_model_pools_by_itself(order: tuple[str, str]) -> None:
    """In one graph: what stands in for max_pool2d does not break it."""
    one, both = ({**LAID_OUT.techniques, **plan_of(*names).techniques} for names in (order[:1], order))
    with workbench(make_model=pooled_cnn) as bench:
        bench.train(2)
        for plan in (one, both):
            bench.switchboard.switch(Plan(plan), prepare=True)
            bench.train(2)
        proofs = {proof.technique: proof for proof in bench.switchboard.proofs()}
    assert proofs["fast_pooling"].effective
    if order[0] == "compile":
        assert proofs["fast_pooling"].evidence == "the model is compiled, and pools by kernels of its own"
    assert "1 graph" in proofs["compile"].evidence, proofs["compile"].evidence


def test_channels_first_is_left_to_torch_and_it_is_said() -> None:
    with workbench(make_model=pooled_cnn) as bench:
        bench.switchboard.switch(Plan({"fast_pooling": {}}))
        bench.train(2)
        (proof,) = bench.switchboard.proofs()
    assert not proof.effective
    assert proof.evidence == "no pooling of 2x2 numbers channels last that do not overlap"


def test_a_kernel_that_differs_is_found_and_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with workbench(make_model=pooled_cnn) as plain:
        plain.switchboard.switch(LAID_OUT)
        expected = plain.train(3)
    pooled = Pooling.pooled

    def wrong(pooling: Pooling, pictures: Any) -> Any:
        found, places = pooled(pooling, pictures)
        return found * (1 + 1e-6), places

    monkeypatch.setattr(Pooling, "pooled", wrong)
    with workbench(make_model=pooled_cnn) as bench:
        bench.switchboard.switch(PLAN)
        assert bench.train(3) == expected
        proof = next(one for one in bench.switchboard.proofs() if one.technique == "fast_pooling")
    assert not proof.effective
    assert "it gave other numbers for (" in proof.evidence


@pytest.mark.parametrize("context", [torch.inference_mode, torch.no_grad])
def test_an_evaluation_of_pictures_never_seen_before(context: Callable[[], Any]) -> None:
    with workbench(make_model=pooled_cnn) as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        bench.train(1)
        pictures = torch.randn(7, 3, 8, 8)
        with context():
            found = bench.model(pictures)
        bench.switchboard.switch(LAID_OUT)
        with context():
            assert torch.equal(found, bench.model(pictures))


def test_comparing_with_torch_is_no_backward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several processes would average gradients, and torch would import sympy."""
    seen: list[object] = []
    monkeypatch.setattr(torch.autograd, "grad", lambda *_, **__: seen.append(1))
    monkeypatch.setattr(torch.autograd, "backward", lambda *_, **__: seen.append(1))
    assert Pooling(torch).agrees(USUAL)
    assert not seen


def test_a_script_that_differentiates_gradients_gets_torch_s(counted: list[bool]) -> None:
    with workbench(make_model=pooled_cnn) as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        bench.training.differentiates_gradients = True
        pictures = torch.randn(1, 8, 4, 4).contiguous(memory_format=LAST).requires_grad_()
        (gradient,) = torch.autograd.grad((F.max_pool2d(pictures, 2) ** 2).sum(), pictures, create_graph=True)
        torch.autograd.grad(gradient.sum(), pictures)
    assert not counted


@pytest.mark.parametrize(
    ("changes", "machine", "why"),
    [
        ({"roots": (root(convolutions=0),)}, {}, "the model has no 2-d convolutions"),
        ({"roots": (root(devices=("cuda",)),)}, {}, "the training is not on the CPU"),
        ({"uses": ("compile",)}, {}, "the script compiles its model"),
        ({"uses": ("create_graph=True",)}, {}, "the script differentiates gradients (create_graph=True)"),
        ({"pools_apart": False}, {}, "no pooling of 2x2 numbers that do not overlap was seen in the steps"),
        ({}, {"cxx": ""}, "there is no C++ compiler: install g++ or set CXX"),
    ],
)
def test_where_it_does_not_apply(changes: Any, machine: Any, why: str) -> None:
    usual = facts(**{"roots": (root(convolutions=2),), **changes})
    here = replace(usual, machine=replace(usual.machine, **{"cxx": "/usr/bin/g++", **machine}))
    assert FastPooling.refuse(here) == [why]


# ---- compiling
def test_without_a_compiler_or_with_other_threads_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(CannotCompile, match="there is no compiler no-such-compiler"):
        Pooling(torch)
    monkeypatch.setattr(max_pooling, "_OPENMP", "libother.so")
    with pytest.raises(CannotCompile, match=r"torch's threads are not those of libother.so"):
        Pooling(torch)


def test_a_training_without_it_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with workbench(make_model=pooled_cnn) as bench:
        bench.train(1)
        with pytest.raises(NotApplicable, match="there is no compiler no-such-compiler"):
            bench.switchboard.switch(PLAN)


def test_its_threads_are_torch_s() -> None:
    Pooling(torch)
    with open("/proc/self/maps") as lines:
        found = {os.path.realpath(line.split()[-1]) for line in lines if "libgomp" in line}
    assert len(found) == 1
