"""The contract on what the shipped examples train: their models, data and optimizers."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import Subset, TensorDataset

from hasten import examples
from hasten.inside.techniques.exclusion import within
from hasten.inside.training import NotApplicable
from hasten.records.plan import BASELINE
from hasten.testing.technique_contract import (
    LIVE,
    check_steps_leave_no_trace,
    check_switching_alone_leaves_no_trace,
    plan_of,
)
from hasten.testing.workbench import Workbench, workbench

Bench = AbstractContextManager[Workbench]


@cache
def names_of(example: str, *arguments: str) -> dict[str, Any]:
    """What the script defines."""
    path = str(examples.path(example))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [path, *arguments])
        patch.syspath_prepend(str(Path(path).parent))  # one takes what it needs from another
        return runpy.run_path(path)


def fashion_cnn() -> Bench:
    names = names_of("fashion_cnn")
    convert = names["Compose"]([names["Resize"](32), names["ToTensor"](), names["Normalize"]([0.29], [0.35])])
    data = names["FashionMNIST"](train=True, transform=convert)
    return workbench(Subset(data, range(24)), torch.optim.Adam, names["Net"])


def bn_cnn() -> Bench:
    names = names_of("bn_cnn")
    convert = names["Compose"]([names["ToTensor"](), names["Normalize"]([0.29], [0.35])])
    data = names["FashionMNIST"](train=True, transform=convert)
    return workbench(Subset(data, range(24)), torch.optim.Adam, names["ConvNet"])


def augmented_resnet() -> Bench:
    names = names_of("augmented_resnet")
    convert = names["Compose"]([names["ToTensor"](), names["Normalize"]([0.29], [0.35])])
    data = names["FashionMNIST"](train=True, transform=convert)

    def momentum(parameters: Any) -> Any:
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)

    return workbench(Subset(data, range(24)), momentum, names["ResNet"])


def char_gpt() -> Bench:
    names = names_of("char_gpt", "--steps", "1", "--batch-size", "24", "--block-size", "16")
    inputs, targets = names["get_batch"]()

    def its_own_loss(model: torch.nn.Module, inputs: Any, targets: Any) -> Any:
        return model(inputs, targets)[1]

    return workbench(TensorDataset(inputs, targets), torch.optim.AdamW, names["GPT"], its_own_loss)


EXAMPLES: dict[str, Callable[[], Bench]] = {
    "fashion_cnn": fashion_cnn,
    "bn_cnn": bn_cnn,
    "augmented_resnet": augmented_resnet,
    "char_gpt": char_gpt,
}


@pytest.fixture(params=EXAMPLES)
def bench(request: pytest.FixtureRequest) -> Iterator[Workbench]:
    """One thread: sums are added in one order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with EXAMPLES[request.param]() as made:
        yield made
    torch.set_num_threads(before)


def applies(bench: Workbench, name: str) -> bool:
    try:
        bench.switchboard.switch(plan_of(name))
    except NotApplicable:
        return False
    bench.switchboard.switch(BASELINE)
    return True


ELSEWHERE = {"compile": "tests/techniques/test_compile.py compiles models of these kinds, for minutes"}


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in LIVE if name not in ELSEWHERE])
def test_a_technique_leaves_no_trace(bench: Workbench, name: str) -> None:
    try:
        check_switching_alone_leaves_no_trace(bench, plan_of(name))
        check_steps_leave_no_trace(bench, plan_of(name))
    except NotApplicable as reason:
        pytest.skip(f"{name} does not apply: {reason}")


def test_all_of_them_in_turn_leave_no_trace(bench: Workbench) -> None:
    """Everything that goes together, put in one by one and taken out one by one."""
    bench.train(1)  # roots are found
    names: list[str] = []
    for name in LIVE:
        if name not in ELSEWHERE and within(plan_of(*names, name)) is None and applies(bench, name):
            names.append(name)
    assert len(names) > 5
    in_turn = [names[:many] for many in range(1, len(names))]
    out_again = [names[many:] for many in range(len(names))]
    check_steps_leave_no_trace(bench, *(plan_of(*some) for some in in_turn[::3] + out_again[::3]))
