"""What macOS reports about itself. On every other system all of this is empty."""

from __future__ import annotations

import platform

from hasten.machine.probe import fields_in, number_in, output_of

# sysctl's names below hw.optional, and Linux's names for the same
_FLAGS = {
    "avx2_0": "avx2",
    "fma": "fma",
    "avx512f": "avx512f",
    "AdvSIMD": "asimd",
    "arm.FEAT_FP16": "asimdhp",
    "arm.FEAT_BF16": "bf16",
    "arm.FEAT_I8MM": "i8mm",
    "arm.FEAT_SME": "sme",
}


def sysctl(name: str) -> str:
    """The value of one kernel variable, such as ``hw.memsize`` in bytes; "" for none."""
    return _output_of("sysctl", "-n", name)


def flags() -> tuple[str, ...]:
    """The CPU's extensions that matter for training speed, under Linux's names for them."""
    optional = fields_in(_output_of("sysctl", "hw.optional"))
    return tuple(flag for name, flag in _FLAGS.items() if optional.get(f"hw.optional.{name}") == "1")


def available_bytes() -> int | None:
    """Memory that is free or not used lately, in bytes; None if unknown."""
    pages = fields_in(_output_of("vm_stat"))
    counts = [number_in(pages.get(f"Pages {kind}", "").rstrip(".")) for kind in ("free", "inactive")]
    page_bytes = number_in(sysctl("hw.pagesize"))
    return page_bytes * sum(count or 0 for count in counts) if page_bytes else None


def _output_of(*command: str) -> str:
    return output_of(*command) if platform.system() == "Darwin" else ""
