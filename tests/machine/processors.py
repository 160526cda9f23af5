"""Processors as their flags were read from /proc/cpuinfo, as far as techniques ask for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hasten.inside.techniques.bf16 import Bf16
from hasten.machine import this_machine
from hasten.records.facts import Facts

from ..bench.made_up import observation

_AVX512 = ("avx2", "avx512f", "avx512dq", "avx512bw", "avx512vl")

PROCESSORS: dict[str, dict[str, Any]] = {
    "Intel Haswell": {"cpu_flags": ("avx2",)},
    "Intel Cascade Lake": {"cpu_flags": (*_AVX512, "avx512_vnni")},
    "Intel Cooper Lake": {"cpu_flags": (*_AVX512, "avx512_vnni", "avx512_bf16")},
    "Intel Sapphire Rapids": {
        "cpu_flags": (
            *_AVX512,
            "avx512_vnni",
            "avx512_bf16",
            "avx512_fp16",
            "amx_bf16",
            "amx_tile",
            "amx_int8",
        )
    },
    "AMD Milan": {"cpu_flags": ("avx2", "sse4a")},
    "AMD Genoa": {"cpu_flags": (*_AVX512, "avx512_vnni", "avx512_bf16", "sse4a")},
    "Graviton 2": {"architecture": "aarch64", "cpu_flags": ("fp", "asimd", "asimddp")},
    "Graviton 3": {"architecture": "aarch64", "cpu_flags": ("fp", "asimd", "asimddp", "sve", "bf16", "i8mm")},
    "Apple M1": {"system": "Darwin", "architecture": "arm64", "cpu_flags": (), "libc": ""},
}
"""What differs from the machine of tests/techniques/made_up.py."""


def bf16_refused_here() -> list[str]:
    """By this machine, for a network in float32."""
    return Bf16.refuse(Facts(this_machine(Path("/")), observation()))
