"""Keep freed memory in the process, so that a step does not ask the kernel for zeroed pages again and again.

glibc returns large blocks to the kernel when they are freed, and every step's activations then fault in fresh
pages. Source: mallopt(3), M_MMAP_THRESHOLD and M_TRIM_THRESHOLD.
"""

from __future__ import annotations

import ctypes

from ...records.facts import Facts
from ...records.machine import Machine
from ...records.plan import Settings
from ...records.trial import Proof
from ..training import Training
from .base import Technique

_MMAP_THRESHOLD_BYTES = 32 * 2**20  # the largest that glibc accepts on 64-bit systems
_TRIM_THRESHOLD_BYTES = 16 * 2**30
_MALLOC_INFO = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
_OWN_TRIM_THRESHOLD_BYTES = 64 * 2**20  # the largest that glibc comes to without being told
_VARIABLES = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")


class Malloc(Technique):
    name = "malloc"
    summary = "freed memory is kept for the next step (glibc thresholds)"
    layer = "environment"
    risk = "exact"
    scope = "process"
    steadies = True

    @classmethod
    def refuse_machine(cls, machine: Machine) -> list[str]:
        if not machine.libc.startswith("glibc"):
            return [f"needs glibc, found {machine.libc or 'another C library'}"]
        own = sorted(name for name in machine.environment if name.startswith(("MALLOC_", "GLIBC_TUNABLES")))
        if own:
            return [f"you set {', '.join(own)} yourself, and that stands"]
        preloaded = machine.environment.get("LD_PRELOAD", "")
        if "malloc" in preloaded:
            return [f"you preload another allocator: {preloaded}"]
        return []

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        return cls.refuse_machine(facts.machine) + (
            [] if facts.on_cpu else ["the training is not on the CPU"]
        )

    @classmethod
    def environment(cls, settings: Settings) -> dict[str, str]:
        values = (_MMAP_THRESHOLD_BYTES, _TRIM_THRESHOLD_BYTES)
        return {name: str(value) for name, value in zip(_VARIABLES, values, strict=True)}

    def proof(self, training: Training) -> Proof:
        """Ask the allocator itself: do blocks of 8 MiB come from the heap, and does the heap keep them when
        they are freed, also more of them than it would keep by itself?
        """
        block_bytes = 8 * 2**20
        libc = ctypes.CDLL(None)
        libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        libc.free.argtypes = [ctypes.c_void_p]
        try:
            libc.mallinfo2.restype = _MallocInfo
        except AttributeError:
            return Proof(self.name, False, "this C library has no mallinfo2 to ask (glibc before 2.33)")
        before = libc.mallinfo2()
        needed = before.fordblks + 2 * _OWN_TRIM_THRESHOLD_BYTES  # so much that the heap must grow for it
        blocks = [libc.malloc(block_bytes) for _ in range(needed // block_bytes)]
        mapped = libc.mallinfo2().hblks - before.hblks
        for block in reversed(blocks):
            libc.free(block)
        kept = libc.mallinfo2().fordblks
        effective = mapped == 0 and kept > before.fordblks + _OWN_TRIM_THRESHOLD_BYTES
        evidence = f"of {len(blocks)} blocks {mapped} were mapped; free bytes kept in the heap: {kept}"
        return Proof(self.name, effective, evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return "\n".join(f"export {name}={value}" for name, value in cls.environment(settings).items())


class _MallocInfo(ctypes.Structure):
    """``struct mallinfo2`` of malloc.h."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _MALLOC_INFO.split())
