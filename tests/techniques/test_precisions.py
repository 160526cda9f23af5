"""Flags for float32 products: what they change is seen, and what was set comes back."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from hasten.inside.techniques.cudnn_benchmark import CudnnBenchmark
from hasten.inside.techniques.matmul_precision import MatmulPrecision
from hasten.inside.techniques.support.products import product_changes
from hasten.inside.techniques.tf32 import Tf32
from hasten.inside.training import NotApplicable
from hasten.records.plan import BASELINE, Plan
from hasten.testing.workbench import Workbench, workbench

from .made_up import facts, machine, root

MEDIUM = Plan({"matmul_precision": {"precision": "medium"}})
WITH_CONVOLUTIONS = Plan({"matmul_precision": {"precision": "medium", "convolutions": True}})
AMX = ("avx512f", "avx512_bf16", "amx_bf16")
GPU = machine(accelerators=("NVIDIA H200",))
ON_GPU = (root(devices=("cuda:0",)),)
pytestmark = pytest.mark.filterwarnings("ignore:Please use the new API settings")  # what the tests call


def flags() -> tuple[Any, ...]:
    """All that torch keeps of it, each by the name that sets it alone."""
    backends: Any = torch.backends
    return (
        torch.get_float32_matmul_precision(),
        backends.mkldnn.matmul.fp32_precision,
        backends.mkldnn.conv.fp32_precision,
        backends.cuda.matmul.fp32_precision,
        backends.cudnn.conv.fp32_precision,
        backends.cudnn.rnn.fp32_precision,
        backends.cudnn.benchmark,
    )


@pytest.fixture(autouse=True)
def _a_script_starts_anew() -> Iterator[None]:
    yield
    backends: Any = torch.backends
    torch.set_float32_matmul_precision("highest")
    backends.cudnn.allow_tf32 = True
    for owner in (backends, backends.mkldnn.matmul, backends.mkldnn.conv, backends.cuda.matmul):
        owner.fp32_precision = "none"


@pytest.fixture
def bench() -> Iterator[Workbench]:
    with workbench() as made:
        yield made


def test_the_precision_is_on_and_comes_back(bench: Workbench) -> None:
    bench.train(1)
    bench.switchboard.switch(MEDIUM)
    assert torch.get_float32_matmul_precision() == "medium"
    bench.train(2)
    assert "2 forward passes at medium" in bench.switchboard.proofs()[0].evidence
    bench.switchboard.switch(BASELINE)
    assert torch.get_float32_matmul_precision() == "highest"


def test_a_script_that_sets_the_precision_is_left_alone(bench: Workbench) -> None:
    bench.train(1)
    torch.set_float32_matmul_precision("high")
    with pytest.raises(NotApplicable, match="set the precision itself"):
        bench.switchboard.switch(MEDIUM)
    assert torch.get_float32_matmul_precision() == "high"


@pytest.mark.parametrize(
    ("plan", "found"), [(MEDIUM, ("medium", "bf16", "none")), (WITH_CONVOLUTIONS, ("medium", "bf16", "bf16"))]
)
def test_every_flag_that_is_set_comes_back(bench: Workbench, plan: Plan, found: tuple[str, ...]) -> None:
    before = flags()
    bench.switchboard.switch(plan)
    assert flags()[:3] == found
    bench.switchboard.switch(BASELINE)
    assert flags() == before


def test_a_script_that_sets_convolutions_is_left_alone(bench: Workbench) -> None:
    backends: Any = torch.backends
    convolutions = backends.mkldnn.conv
    convolutions.fp32_precision = "bf16"
    with pytest.raises(NotApplicable, match="precision of convolutions itself, to bf16"):
        bench.switchboard.switch(WITH_CONVOLUTIONS)
    bench.switchboard.switch(MEDIUM)
    bench.switchboard.switch(BASELINE)
    assert convolutions.fp32_precision == "bf16"


@pytest.mark.parametrize("technique", ["matmul_precision", "tf32"])
def test_a_script_that_sets_it_by_the_newer_words_is_left_alone(bench: Workbench, technique: str) -> None:
    backends: Any = torch.backends
    backends.mkldnn.matmul.fp32_precision = "bf16"
    with pytest.raises(NotApplicable, match="sets fp32_precision itself"):
        bench.switchboard.switch(Plan({technique: {}}))
    assert backends.mkldnn.matmul.fp32_precision == "bf16"


@pytest.mark.parametrize("plan", [MEDIUM, WITH_CONVOLUTIONS])
def test_what_the_script_sets_in_the_middle_stands(bench: Workbench, plan: Plan) -> None:
    """Also by the newer words, of which torch says nothing in the older ones: no step may fail by that."""
    backends: Any = torch.backends
    bench.train(1)
    bench.switchboard.switch(plan)
    backends.mkldnn.matmul.fp32_precision = "tf32"
    bench.train(2)
    assert "0 forward passes" in bench.switchboard.proofs()[0].evidence
    bench.switchboard.switch(BASELINE)
    assert backends.mkldnn.matmul.fp32_precision == "tf32"


@pytest.mark.parametrize("plan", [WITH_CONVOLUTIONS, Plan({"tf32": {}})])
def test_torch_warns_of_nothing_that_the_script_does_not(plan: Plan) -> None:
    """torch 2.9 warns of its older flags, in every call where a script wants all warnings."""
    torch.set_warn_always(True)
    try:
        with workbench() as bench, warnings.catch_warnings():
            warnings.simplefilter("error")
            bench.switchboard.switch(plan)
            bench.train(1)
            bench.switchboard.switch(BASELINE)
    finally:
        torch.set_warn_always(False)


@pytest.mark.parametrize("own", ["medium", "high"])
def test_tf32_puts_back_what_the_script_had_set(bench: Workbench, own: str) -> None:
    """It allowed cuBLAS and not cuDNN: allowing both must not change its own word for the first."""
    torch.set_float32_matmul_precision(own)
    torch.backends.cudnn.allow_tf32 = False
    its_own = flags()
    bench.switchboard.switch(Plan({"tf32": {}}))
    assert flags() != its_own
    bench.switchboard.switch(BASELINE)
    assert flags() == its_own


def test_the_proof_fails_where_products_are_as_before(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hasten.inside.techniques import matmul_precision

    monkeypatch.setattr(matmul_precision, "product_changes", lambda *_: False)
    bench.train(1)
    bench.switchboard.switch(MEDIUM)
    bench.train(1)
    (proof,) = bench.switchboard.proofs()
    assert not proof.effective
    assert "does not differ" in proof.evidence


def test_a_product_is_compared_with_itself() -> None:
    calls: list[str] = []
    stream = torch.get_rng_state()
    changed = product_changes(
        torch, torch.device("cpu"), lambda: calls.append("back"), lambda: calls.append("on")
    )
    assert not changed
    assert calls == ["back", "on"]
    assert torch.equal(torch.get_rng_state(), stream)


@pytest.mark.parametrize("technique", ["tf32", "cudnn_benchmark"])
def test_what_is_for_gpus_leaves_a_training_on_the_cpu_alone(bench: Workbench, technique: str) -> None:
    bench.train(1)
    flags = (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.benchmark)
    with pytest.raises(NotApplicable, match="is for CUDA"):
        bench.switchboard.switch(Plan({technique: {}}))
    assert flags == (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.benchmark)


@pytest.mark.parametrize("technique", ["tf32", "cudnn_benchmark"])
def test_flags_come_back(technique: str) -> None:
    """Before a root is found nothing tells that the training is on a CPU, so flags can be set here."""
    with workbench() as bench:
        before = flags()
        bench.switchboard.switch(Plan({technique: {}}))
        assert flags() != before
        (proof,) = bench.switchboard.proofs()
        assert not proof.effective
        bench.switchboard.switch(BASELINE)
        assert flags() == before


# ---- on paper
def test_where_they_apply() -> None:
    assert MatmulPrecision.refuse(facts()) == []
    assert Tf32.refuse(facts(GPU, roots=ON_GPU)) == []
    assert CudnnBenchmark.refuse(facts(GPU, roots=ON_GPU)) == []


@pytest.mark.parametrize(
    ("technique", "found", "reason"),
    [
        (MatmulPrecision, facts(machine(cpu_flags=("avx2",))), "no bfloat16 instructions"),
        (MatmulPrecision, facts(GPU, roots=ON_GPU), "tf32 does this"),
        (MatmulPrecision, facts(roots=(root(dtypes=("float64",)),)), "no float32 parameters"),
        (MatmulPrecision, facts(uses=("autocast",)), "already uses autocast"),
        (
            MatmulPrecision,
            facts(machine(environment={"ONEDNN_DEFAULT_FPMATH_MODE": "BF16"})),
            "you set ONEDNN_DEFAULT_FPMATH_MODE yourself",
        ),
        (Tf32, facts(), "no NVIDIA GPU"),
        (Tf32, facts(GPU), "not on a CUDA GPU"),
        (Tf32, facts(GPU, roots=(root(devices=("cuda:0",), dtypes=("bfloat16",)),)), "no float32 parameters"),
        (CudnnBenchmark, facts(), "no NVIDIA GPU"),
        (CudnnBenchmark, facts(GPU), "not on a CUDA GPU"),
        (CudnnBenchmark, facts(GPU, roots=(root(devices=("cuda:0",), convolutions=0),)), "no 2-d conv"),
    ],
)
def test_what_they_refuse(technique: Any, found: Any, reason: str) -> None:
    (said,) = technique.refuse(found)
    assert reason in said


@pytest.mark.parametrize(
    ("processor", "convolutions", "wanted"),
    [
        ({"cpu_flags": AMX}, 2, {"precision": "medium", "convolutions": True}),
        ({"cpu_flags": AMX}, 0, {"precision": "medium"}),
        ({"cpu_flags": AMX[:2]}, 2, {"precision": "medium"}),
        (
            {"architecture": "aarch64", "cpu_flags": ("asimd", "bf16")},
            2,
            {"precision": "medium", "convolutions": True},
        ),
        ({"architecture": "arm64", "cpu_flags": ("bf16",)}, 2, {"precision": "medium", "convolutions": True}),
    ],
)
def test_convolutions_are_taken_too_where_there_are_matrix_instructions(
    processor: dict[str, Any], convolutions: int, wanted: dict[str, Any]
) -> None:
    found = facts(machine(**processor), roots=(root(convolutions=convolutions),))
    assert MatmulPrecision.options(found) == [wanted]


@pytest.mark.parametrize(
    "settings", [{"precision": "low"}, {"bits": 8}, {"convolutions": 1}, {"precision": ["medium"]}]
)
def test_settings_that_there_are_none_of(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="high, medium"):
        MatmulPrecision.check(settings)


def test_the_same_by_hand() -> None:
    assert MatmulPrecision.by_hand({}) == 'torch.set_float32_matmul_precision("medium")'
    assert "mkldnn.conv.fp32_precision" in MatmulPrecision.by_hand({"convolutions": True})
    assert "allow_tf32 = True" in Tf32.by_hand({})
    assert "benchmark = True" in CudnnBenchmark.by_hand({})
