"""The same techniques on other processors: by recorded flags, and by oneDNN made to imitate lesser ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hasten.inside.techniques.catalog import CATALOG
from hasten.machine import this_machine
from hasten.records.facts import Facts
from hasten.records.plan import BASELINE, Plan, Settings
from hasten.testing.technique_contract import CATALOG_SETTINGS, LIVE, check_steps_leave_no_trace, pairs_of
from hasten.testing.workbench import normed_cnn, workbench
from hasten.tuning.candidates import choose

from ..machine.processors import PROCESSORS
from ..thorough import cases
from .lower_precisions import NAMES
from .made_up import facts, machine, root

ROOT = Path(__file__).parents[2]
MEDIUM: Settings = {"precision": "medium"}
WITH_CONVOLUTIONS: Settings = {"precision": "medium", "convolutions": True}
LOWER: dict[str, dict[str, Settings]] = {
    "Intel Haswell": {},
    "Intel Cascade Lake": {},
    "Intel Cooper Lake": {"bf16": {}, "matmul_precision": MEDIUM},
    "Intel Sapphire Rapids": {"bf16": {}, "fp16": {}, "matmul_precision": WITH_CONVOLUTIONS},
    "AMD Milan": {},
    "AMD Genoa": {"bf16": {}, "matmul_precision": MEDIUM},
    "Graviton 2": {},
    "Graviton 3": {"bf16": {}, "matmul_precision": WITH_CONVOLUTIONS},
    "Apple M1": {},
}
"""What of lower precision is tried on each."""
ISAS = {
    "SSE41": "",
    "AVX": "avx2",
    "AVX2": "avx2",
    "AVX512_CORE": "avx512f",
    "AVX512_CORE_VNNI": "avx512_vnni",
    "AVX512_CORE_BF16": "avx512_bf16",
    "AVX512_CORE_FP16": "avx512_fp16",
    "AVX512_CORE_AMX": "amx_bf16",
    "AVX512_CORE_AMX_FP16": "amx_fp16",
}
"""Values of ONEDNN_MAX_CPU_ISA, and the flag without which a processor cannot imitate it."""
ALWAYS = ("AVX512_CORE", "AVX512_CORE_AMX")


def facts_of(processor: str) -> Facts:
    return facts(machine(**PROCESSORS[processor]), roots=(root(batch_norm=True),))


@pytest.mark.attack("processors")
@pytest.mark.parametrize("processor", PROCESSORS)
def test_what_is_tried_follows_from_the_flags(processor: str) -> None:
    candidates, _ = choose(facts_of(processor), [], "close")
    lower = {
        candidate.technique.name: candidate.options[0]
        for candidate in candidates
        if candidate.technique.scope == "live" and candidate.technique.precision != "float32"
    }
    assert lower == LOWER[processor]


@pytest.mark.attack("processors")
@pytest.mark.parametrize("processor", cases(PROCESSORS, ["Intel Haswell", "AMD Genoa", "Graviton 3"]))
def test_what_is_tried_there_goes_together_and_leaves_no_trace(processor: str) -> None:
    """Whatever instructions this machine lacks: flags are set and taken back all the same."""
    candidates, _ = choose(facts_of(processor), [], "close")
    live = {
        candidate.technique.name: CATALOG_SETTINGS.get(candidate.technique.name, candidate.options[0])
        for candidate in candidates
        if candidate.technique.name in LIVE and candidate.technique.name != "compile"
    }
    with workbench(make_model=normed_cnn) as bench:
        check_steps_leave_no_trace(
            bench, *(Plan({a: live[a], b: live[b]}) for a, b in pairs_of(list(live))), BASELINE
        )


@pytest.mark.attack("processors")
def test_all_that_touches_float32_products_is_in_the_contract() -> None:
    """On every machine: which of them this processor could use does not decide what is tested."""
    on_cpus = {
        name
        for name, technique in CATALOG.items()
        if technique.scope == "live" and not technique.devices - {"cpu"} and technique.precision != "float32"
    }
    assert on_cpus == {"bf16", "fp16", "matmul_precision"}
    assert on_cpus <= set(LIVE)


@pytest.mark.attack("processors")
@pytest.mark.skipif(this_machine().architecture != "x86_64", reason="ONEDNN_MAX_CPU_ISA is for x86-64")
@pytest.mark.parametrize(
    "isa", [isa if isa in ALWAYS else pytest.param(isa, marks=pytest.mark.thorough) for isa in ISAS]
)
def test_pairs_leave_no_trace_on_a_lesser_processor(isa: str) -> None:
    if ISAS[isa] and ISAS[isa] not in this_machine().cpu_flags:
        pytest.skip(f"needs a processor with {ISAS[isa]}: one that has less cannot imitate {isa}")
    imitated = {**os.environ, "ONEDNN_MAX_CPU_ISA": isa, "ONEDNN_VERBOSE": "1"}
    command = [sys.executable, "-m", "tests.techniques.lower_precisions"]
    done = subprocess.run(command, env=imitated, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": no trace\n") == len(pairs_of(NAMES))
    (seen,) = [line for line in done.stdout.splitlines() if "info,cpu,isa:" in line]
    wide = "AVX-512" in seen or "AVX10" in seen  # as newer processors call it
    assert wide == isa.startswith("AVX512"), seen
