"""What is made of a model for elsewhere holds the model alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from hasten.records.plan import Plan
from hasten.testing.padded_texts import PaddedTexts, TextClassifier
from hasten.testing.workbench import workbench


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
