"""What replaces ``Tensor.numpy`` in a process, where compiled code fetches an array of its own by it: had it
been compiled itself, it would do so for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from hasten.inside.checkpoints.seams_of_course import SeamsOfCourse
from hasten.inside.internals.compiler import left_alone
from hasten.inside.observing.leftovers import Waits
from hasten.inside.seams import Seams
from hasten.inside.techniques.support.lowered_arrays import allow_arrays
from hasten.inside.training import Training


def waits(seams: Seams) -> None:
    Waits(Training(torch, seams, 0))


def lowered_arrays(seams: Seams) -> None:
    allow_arrays(Training(torch, seams, 0), torch.bfloat16, "bf16")


def course(seams: Seams) -> None:
    deaf: Any = SimpleNamespace(deaf=lambda: True)
    followed = SeamsOfCourse(deaf, seams, lambda _: None)
    seams.replace(torch.Tensor, "numpy", partial(followed._fetch, "numpy"))


@pytest.mark.parametrize("replacing", [waits, lowered_arrays, course])
def test_a_compiled_model_may_hold_an_array_between_two_graphs(
    replacing: Callable[[Seams], None], seams: Seams
) -> None:
    """As Informer's attention, which computes its sizes by NumPy."""

    def total(values: torch.Tensor) -> float:
        found = np.ceil(np.log(values.shape[0]))
        torch._dynamo.graph_break()
        return float(found + values.sum())

    replacing(seams)
    torch._dynamo.reset()
    compiled = torch.compile(total, backend="eager")
    assert [compiled(torch.ones(3)) for _ in range(2)] == [5.0, 5.0]


def test_nothing_is_left_alone_where_torch_lacks_the_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("torch._C._dynamo.eval_frame.set_code_exec_strategy")

    def function() -> None:
        pass

    assert left_alone(function) is function
