"""oneDNN's arithmetic: what is set, what is put back, and what the proof can tell apart."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from hasten.inside.techniques.onednn_fpmath import OnednnFpmath
from hasten.inside.training import NotApplicable
from hasten.records.plan import BASELINE, Plan
from hasten.testing.workbench import workbench

from .made_up import facts, machine, root

PLAN = Plan({"onednn_fpmath": {}})
AMX = {"cpu_flags": ("avx512_bf16", "amx_bf16")}


def precisions() -> tuple[str, ...]:
    backends: Any = torch.backends
    return (
        torch.get_float32_matmul_precision(),
        backends.mkldnn.matmul.fp32_precision,
        backends.mkldnn.conv.fp32_precision,
        backends.cuda.matmul.fp32_precision,
    )


def test_products_and_convolutions_are_set_and_put_back() -> None:
    before = precisions()
    with workbench() as bench:
        bench.switchboard.switch(PLAN)
        assert precisions()[:3] == ("medium", "bf16", "bf16")
        bench.switchboard.switch(BASELINE)
    assert precisions() == before


@pytest.mark.parametrize("rounded", [True, False])
def test_the_proof_sees_the_rounding_of_bfloat16(monkeypatch: pytest.MonkeyPatch, rounded: bool) -> None:
    """Where the processor cannot, the product is rounded here."""
    plain = torch.Tensor.__matmul__

    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return plain(a.bfloat16().float(), b.bfloat16().float()) if rounded else plain(a.double(), b.double())

    with workbench() as bench:
        bench.train(1)
        bench.switchboard.switch(PLAN)
        bench.train(1)
        monkeypatch.setattr(torch.Tensor, "__matmul__", product)
        (proof,) = bench.switchboard.proofs()
        assert proof.effective is rounded, proof.evidence
        monkeypatch.undo()
        bench.switchboard.switch(BASELINE)


def test_what_the_script_sets_itself_stands() -> None:
    torch.set_float32_matmul_precision("high")
    try:
        with workbench() as bench, pytest.raises(NotApplicable, match="sets a float32 precision itself"):
            bench.switchboard.switch(PLAN)
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize(
    ("changes", "observed", "reason"),
    [
        ({}, {}, "no matrix instructions for bfloat16 (amx_bf16)"),
        ({"architecture": "aarch64", "cpu_flags": ("asimd",)}, {}, "(bf16)"),
        ({**AMX, "environment": {"ONEDNN_DEFAULT_FPMATH_MODE": "BF16"}}, {}, "you set ONEDNN_DEFAULT"),
        (AMX, {"uses": ("autocast",)}, "already uses autocast"),
        (AMX, {"roots": (root(dtypes=("float64",)),)}, "not all float32"),
        (AMX, {"roots": (root(devices=("cuda:0",)),)}, "not on the CPU"),
    ],
)
def test_what_it_refuses(changes: dict[str, Any], observed: dict[str, Any], reason: str) -> None:
    (found,) = OnednnFpmath.refuse(facts(machine(**changes), **observed))
    assert reason in found


@pytest.mark.parametrize("changes", [AMX, {"architecture": "aarch64", "cpu_flags": ("asimd", "bf16")}])
def test_where_it_applies(changes: dict[str, Any]) -> None:
    assert OnednnFpmath.refuse(facts(machine(**changes))) == []


def test_the_same_by_hand() -> None:
    assert 'set_float32_matmul_precision("medium")' in OnednnFpmath.by_hand({})
