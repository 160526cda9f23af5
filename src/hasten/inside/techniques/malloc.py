"""Keep freed memory in the process, so that steps do not request zeroed pages from the kernel repeatedly.

glibc returns large blocks to the kernel when they are freed, and every step's activations then fault in fresh
pages. Other allocators are configured to keep memory, too; they are used if installed.

It helps if steps allocate many tensors of a MiB and more on the CPU; another allocator helps if many threads
allocate at once. It hurts if memory is scarce, because the process keeps its peak.

Sources: mallopt(3), M_MMAP_THRESHOLD and M_TRIM_THRESHOLD; https://jemalloc.net/jemalloc.3.html;
https://gperftools.github.io/gperftools/tcmalloc.html; https://microsoft.github.io/mimalloc/environment.html;
https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

import ctypes
import os

from ...records.facts import Facts
from ...records.machine import Machine
from ...records.plan import Settings
from ...records.trial import Proof
from ..training import Training
from .base import Technique
from .support.native import file_of, mapped

_MMAP_THRESHOLD_BYTES = 32 * 2**20  # the largest that glibc accepts on 64-bit systems
_TRIM_THRESHOLD_BYTES = 16 * 2**30
_MALLOC_INFO = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
_OWN_TRIM_THRESHOLD_BYTES = 64 * 2**20  # the largest that glibc chooses by itself
_BLOCK_BYTES = 8 * 2**20  # of the proof
_BLOCKS_AT_ONCE = 9  # together more than the trim threshold of its own
_DECAY_MS = 60_000  # longer than a step takes
_RESERVED_BYTES = 16 * 2**30

_VARIABLES = {
    "glibc": {
        "MALLOC_MMAP_THRESHOLD_": str(_MMAP_THRESHOLD_BYTES),
        "MALLOC_TRIM_THRESHOLD_": str(_TRIM_THRESHOLD_BYTES),
    },
    "tcmalloc": {
        "TCMALLOC_RELEASE_RATE": "0",
        "TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD": str(2**60),  # no lines about large tensors on standard error
    },
    "jemalloc": {
        # memory unused for a minute may be reclaimed by the kernel when it needs some (muzzy), not before;
        # oversize_threshold: else blocks above 8 MiB come from an arena of their own that keeps nothing
        "MALLOC_CONF": f"background_thread:true,dirty_decay_ms:{_DECAY_MS},muzzy_decay_ms:-1,"
        "oversize_threshold:0",
    },
    "mimalloc": {
        "MIMALLOC_RESERVE_OS_MEMORY": str(
            _RESERVED_BYTES
        ),  # without, blocks above 16 MiB come from the kernel
        "MIMALLOC_PURGE_DELAY": str(_DECAY_MS),
        "MIMALLOC_RESET_DELAY": str(_DECAY_MS),  # the same two before version 2.1
        "MIMALLOC_DECOMMIT_DELAY": str(_DECAY_MS),
    },
}
_OWN = ("MALLOC_", "TCMALLOC_", "MIMALLOC_")


class Malloc(Technique):
    name = "malloc"
    summary = "freed memory is kept for the next step (glibc thresholds, or another allocator)"
    layer = "environment"
    risk = "exact"
    scope = "process"
    restarts = True
    steadies = True

    def __init__(self) -> None:
        self._kind = "glibc"

    @classmethod
    def refuse_machine(cls, machine: Machine) -> list[str]:
        own = sorted(
            name
            for name, value in machine.environment.items()
            if name.startswith(_OWN) or (name == "GLIBC_TUNABLES" and "glibc.malloc" in value)
        )
        if own:
            return [f"you set {', '.join(own)} yourself, and that stands"]
        preloaded = machine.environment.get("LD_PRELOAD", "")
        if "malloc" in preloaded:
            return [f"you preload another allocator: {preloaded}"]
        if not _kinds(machine):
            return [f"needs glibc, found {machine.libc or 'another C library'}"]
        return []

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        return cls.refuse_machine(facts.machine) + (
            [] if facts.on_cpu else ["the training is not on the CPU"]
        )

    @classmethod
    def options(cls, facts: Facts) -> list[Settings]:
        """glibc's thresholds, which need nothing, then the allocators that are installed."""
        return [{} if kind == "glibc" else {"kind": kind} for kind in _kinds(facts.machine)]

    @classmethod
    def check(cls, settings: Settings) -> None:
        if set(settings) - {"kind"} or settings.get("kind", "glibc") not in _VARIABLES:
            raise ValueError(f"malloc takes no settings but kind, one of {', '.join(_VARIABLES)}")

    @classmethod
    def refuse_settings(cls, settings: Settings, machine: Machine) -> list[str]:
        kind = settings.get("kind", "glibc")
        if kind in _kinds(machine):
            return []
        if kind == "glibc":
            return [f"needs glibc, found {machine.libc or 'another C library'}"]
        return [f"{kind} is not installed here"]

    @classmethod
    def environment(cls, settings: Settings, machine: Machine) -> dict[str, str]:
        kind = str(settings.get("kind", "glibc"))
        preload = {} if kind == "glibc" else {"LD_PRELOAD": machine.libraries[kind]}
        variables = {**preload, **_VARIABLES[kind]}
        if kind == "mimalloc":
            reserved = min(_RESERVED_BYTES, machine.available_bytes // 2)
            variables["MIMALLOC_RESERVE_OS_MEMORY"] = str(reserved)  # addresses only, until they are used
        return variables

    def install(self, training: Training, settings: Settings) -> None:
        self._kind = str(settings.get("kind", "glibc"))

    def proof(self, training: Training) -> Proof:
        """Asks the allocator itself: which library answers ``malloc``; for glibc, whether large blocks come
        from a heap that keeps them when they are freed.
        """
        return self._proof_of_thresholds() if self._kind == "glibc" else self._proof_of_library()

    def _proof_of_library(self) -> Proof:
        """The library is in the process, and it answers ``malloc``."""
        file = file_of("malloc")
        effective = self._kind in os.path.basename(file) and mapped(file)
        return Proof(self.name, effective, f"malloc calls go to {file}, {self._kind} was asked for")

    def _proof_of_thresholds(self) -> Proof:
        """Ask the allocator itself: do blocks of 8 MiB come from the heap, and does its top keep them when
        they are freed, more of them than it would keep by itself?

        Where the top has kept so much already, one block is enough; else the heap grows, once.
        """
        libc = ctypes.CDLL(None)
        libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        libc.free.argtypes = [ctypes.c_void_p]
        try:
            libc.mallinfo2.restype = _MallocInfo
        except AttributeError:
            return Proof(self.name, False, "this C library has no mallinfo2 to ask (glibc before 2.33)")
        before = libc.mallinfo2()
        blocks = [libc.malloc(_BLOCK_BYTES)]
        if before.keepcost <= _OWN_TRIM_THRESHOLD_BYTES:
            most = (before.fordblks + 2 * _OWN_TRIM_THRESHOLD_BYTES) // _BLOCK_BYTES  # if scattered
            while len(blocks) < most and libc.mallinfo2().arena <= before.arena + _OWN_TRIM_THRESHOLD_BYTES:
                blocks += [libc.malloc(_BLOCK_BYTES) for _ in range(_BLOCKS_AT_ONCE)]
        mapped = libc.mallinfo2().hblks - before.hblks
        for block in reversed(blocks):
            libc.free(block)
        kept = libc.mallinfo2().keepcost
        effective = mapped == 0 and kept > _OWN_TRIM_THRESHOLD_BYTES
        evidence = f"of {len(blocks)} blocks {mapped} were mapped; free bytes kept at the heap's top: {kept}"
        return Proof(self.name, effective, evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        kind = str(settings.get("kind", "glibc"))
        preload = (
            {}
            if kind == "glibc"
            else {"LD_PRELOAD": f"$(ldconfig -p | grep -o '/.*lib{kind}.*' | head -n 1)"}
        )
        variables = {**preload, **_VARIABLES[kind]}
        return "\n".join(f'export {name}="{value}"' for name, value in variables.items())


def _kinds(machine: Machine) -> list[str]:
    """The allocators that can be used here."""
    installed = [kind for kind in _VARIABLES if kind in machine.libraries]
    return ["glibc", *installed] if machine.libc.startswith("glibc") else installed


class _MallocInfo(ctypes.Structure):
    """``struct mallinfo2`` of malloc.h."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _MALLOC_INFO.split())
