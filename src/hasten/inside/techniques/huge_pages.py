"""Large blocks use pages of 2 MiB instead of 4 KiB: fewer page faults, and fewer TLB misses.

It helps if tensors of many MiB are allocated again and again or accessed without order (large embeddings). It
hurts if memory is scarce or fragmented: a page is zeroed as a whole, and the kernel may have to make room for
it. glibc requests them for its own blocks (from 2.35 on); torch requests them for tensors of 2 MiB and more,
whatever the allocator.

Sources: https://sourceware.org/glibc/manual/latest/html_node/Memory-Allocation-Tunables.html
(glibc.malloc.hugetlb); https://docs.kernel.org/admin-guide/mm/transhuge.html; c10/core/impl/alloc_cpu.cpp
of PyTorch (THP_MEM_ALLOC_ENABLE).
"""

from __future__ import annotations

from ...records.facts import Facts
from ...records.machine import Machine
from ...records.plan import Settings
from ...records.trial import Proof
from ..training import Training
from .base import Technique
from .support.native import huge_bytes

_PAGE_BYTES = 2 * 2**20
_VARIABLES = {
    "glibc": {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"},
    "torch": {"THP_MEM_ALLOC_ENABLE": "1"},
}
_WHY_NOT = {
    "never": "the kernel gives no transparent huge pages here (never)",
    "always": "the kernel gives transparent huge pages unasked here (always)",
    "": "whether the kernel gives transparent huge pages is unknown here",
}


class HugePages(Technique):
    name = "huge_pages"
    summary = "large blocks of memory lie in huge pages"
    layer = "environment"
    risk = "exact"
    scope = "process"
    restarts = True
    jointly = True

    @classmethod
    def refuse_machine(cls, machine: Machine) -> list[str]:
        if machine.huge_pages in _WHY_NOT:
            return [_WHY_NOT[machine.huge_pages]]
        own = [
            name
            for name, value in machine.environment.items()
            if name.startswith("THP_") or (name == "GLIBC_TUNABLES" and "glibc.malloc" in value)
        ]
        return [f"you set {', '.join(own)} yourself, and that stands"] if own else []

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        return cls.refuse_machine(facts.machine) + (
            [] if facts.on_cpu else ["the training is not on the CPU"]
        )

    @classmethod
    def options(cls, facts: Facts) -> list[Settings]:
        return [{"by": by} for by in _VARIABLES if not cls.refuse_settings({"by": by}, facts.machine)]

    @classmethod
    def check(cls, settings: Settings) -> None:
        if set(settings) != {"by"} or settings["by"] not in _VARIABLES:
            raise ValueError(f"huge_pages needs by, one of {', '.join(_VARIABLES)}")

    @classmethod
    def refuse_settings(cls, settings: Settings, machine: Machine) -> list[str]:
        if settings["by"] == "torch" or _glibc(machine) >= (2, 35):
            return []
        return [f"needs glibc 2.35, found {machine.libc or 'another C library'}"]

    @classmethod
    def environment(cls, settings: Settings, machine: Machine) -> dict[str, str]:
        return dict(_VARIABLES[str(settings["by"])])

    def proof(self, training: Training) -> Proof:
        """Asks the kernel how much of this process is in huge pages, while it holds a large tensor."""
        kept = training.torch.ones(16 * _PAGE_BYTES, dtype=training.torch.uint8)
        found = huge_bytes()
        evidence = (
            f"{found / 2**20:.0f} MiB are in huge pages, with a tensor of {kept.numel() / 2**20:.0f} MiB"
        )
        return Proof(self.name, found >= _PAGE_BYTES, evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return "\n".join(f"export {name}={value}" for name, value in _VARIABLES[str(settings["by"])].items())


def _glibc(machine: Machine) -> tuple[int, ...]:
    """(2, 36), or nothing for another C library."""
    name, _, version = machine.libc.partition(" ")
    return tuple(int(part) for part in version.split(".")) if name == "glibc" else ()
