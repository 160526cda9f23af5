"""Ranks on one machine through shared memory.

A tensor goes through in chunks, small enough to stay in a core's own cache: copied into this rank's slot,
then added up from all slots. Two sets of slots are used in turn, so that ranks need to wait for each other
only once a chunk.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Sequence
from datetime import timedelta

import torch

from ...internals.groups import Store
from .kernel import kernel
from .lockstep import Disagreement, Lockstep, header_bytes
from .segment import Segment

CHUNK_BYTES = 128 * 1024
_KERNEL_TYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.int32: 3, torch.int64: 4}
_TYPES = (
    *(torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.int64, torch.float16, torch.int8),
    *(torch.int16, torch.uint8, torch.bool, torch.complex64, torch.complex128),
)
_OPS = ("sum", "avg", "max", "min", "product", "band", "bor", "bxor")
_ALL_REDUCE, _REDUCE_SCATTER, _BROADCAST, _ALL_GATHER, _BARRIER = range(5)
_NAMES = ("all_reduce", "reduce_scatter", "broadcast", "all_gather", "barrier")


class Shm:
    """An ``Engine``. Raises CannotShare at its start, and later RankGone or Disagreement, naming ranks.

    ``inherited``: a descriptor of empty memory that all ranks have, if they were given one. ``called``: the
    numbers by which errors name them, if they are only some of all ranks.
    """

    def __init__(
        self,
        store: Store,
        rank: int,
        size: int,
        timeout: timedelta,
        inherited: int | None = None,
        called: Sequence[int] = (),
    ) -> None:
        self.rank, self._size = rank, size
        head = -(-header_bytes(size) // mmap.PAGESIZE) * mmap.PAGESIZE
        able = frozenset({"kernel"} if kernel() is not None else ())
        self._segment = Segment(store, rank, size, head + 2 * size * CHUNK_BYTES, able, inherited)
        self._called = called or range(size)
        self._lockstep = Lockstep(self._segment, size, timeout.total_seconds(), self._called)
        self._slots = torch.frombuffer(self._segment.memory, dtype=torch.uint8, offset=head)
        self._slots_address = self._lockstep.address + head
        self._set = ctypes.c_int(0)
        self._broken: BaseException | None = None
        store.set(f"ready/{rank}", "")
        store.wait([f"ready/{other}" for other in range(size)])  # every rank's semaphores exist

    # ---- collectives
    def all_reduce(self, tensor: torch.Tensor, op: str) -> None:
        self._begin(_ALL_REDUCE, tensor, _OPS.index(op))
        kind, library = _KERNEL_TYPES.get(tensor.dtype), self._lockstep.library
        if library is not None and kind is not None and op in ("sum", "avg"):
            self._reduce_by_kernel(library, tensor, kind, op == "avg")
        else:
            self._reduce_by_torch(tensor.view(-1), op)

    def reduce_scatter(self, output: torch.Tensor, tensor: torch.Tensor, op: str) -> None:
        """A rank adds only its own part."""
        self._begin(_REDUCE_SCATTER, tensor, _OPS.index(op))
        parts, mine = tensor.view(self._size, -1), output.view(-1)
        step = max(1, CHUNK_BYTES // tensor.element_size() // self._size)
        for start in self._starts(mine.numel(), step):
            part = parts[:, start : start + step]
            slots = self._next_slots(tensor.dtype, part.numel())
            slots[self.rank].view(part.shape).copy_(part)
            self._meet()
            mine[start : start + step] = self._combined(
                [slot.view(part.shape)[self.rank] for slot in slots], op
            )

    def broadcast(self, tensor: torch.Tensor, root: int) -> None:
        self._begin(_BROADCAST, tensor, root)
        flat = tensor.view(-1).view(torch.uint8)
        for start in self._starts(flat.numel(), CHUNK_BYTES):
            part = flat[start : start + CHUNK_BYTES]
            slot = self._next_slots(torch.uint8, part.numel())[root]
            if self.rank == root:
                slot.copy_(part)
            self._meet()
            if self.rank != root:
                part.copy_(slot)

    def all_gather(self, output: torch.Tensor, tensor: torch.Tensor) -> None:
        self._begin(_ALL_GATHER, tensor, 0)
        flat = tensor.view(-1).view(torch.uint8)
        rows = output.view(-1).view(torch.uint8).view(self._size, -1)
        for start in self._starts(flat.numel(), CHUNK_BYTES):
            part = flat[start : start + CHUNK_BYTES]
            slots = self._next_slots(torch.uint8, part.numel())
            slots[self.rank].copy_(part)
            self._meet()
            for row, slot in zip(rows, slots, strict=True):
                row[start : start + CHUNK_BYTES] = slot

    def barrier(self) -> None:
        self._begin(_BARRIER, None, 0)
        self._meet()

    def close(self) -> None:
        self._segment.close()

    # ---- sums
    def _reduce_by_kernel(self, library: ctypes.CDLL, tensor: torch.Tensor, kind: int, mean: bool) -> None:
        step = self._lockstep
        found = library.hasten_all_reduce(
            *(step.lines_address, self._slots_address, CHUNK_BYTES, self.rank, self._size),
            *(tensor.data_ptr(), tensor.numel(), kind, mean),
            *(ctypes.addressof(step.steps), ctypes.addressof(self._set), step.side, step.spins, step.watch),
        )
        if found == 1:
            self._guarded(step.give_up)
        elif found:
            self._guarded(lambda: self._disagree(found - 2))

    def _reduce_by_torch(self, flat: torch.Tensor, op: str) -> None:
        step = CHUNK_BYTES // flat.element_size()
        for start in self._starts(flat.numel(), step):
            part = flat[start : start + step]
            many = part.numel()
            slots = self._next_slots(flat.dtype, many)
            slots[self.rank].copy_(part)
            self._meet()
            bounds = [many * rank // self._size for rank in range(self._size + 1)]
            low, high = bounds[self.rank], bounds[self.rank + 1]
            slots[self.rank][low:high] = self._combined([slot[low:high] for slot in slots], op)
            self._meet()
            for rank, slot in enumerate(slots):
                part[bounds[rank] : bounds[rank + 1]] = slot[bounds[rank] : bounds[rank + 1]]

    def _combined(self, parts: list[torch.Tensor], op: str) -> torch.Tensor:
        """Combine rows in the order of ranks; low precision is accumulated in float32 and rounded once."""
        wide = parts[0].dtype in (torch.bfloat16, torch.float16) and op in ("sum", "avg")
        total = parts[0].float() if wide else parts[0].clone()
        for part in parts[1:]:
            total = _COMBINE[op](total, part)
        return total / self._size if op == "avg" else total

    # ---- meetings
    def _begin(self, what: int, tensor: torch.Tensor | None, how: int) -> None:
        if self._broken is not None:
            raise type(self._broken)(f"this group ended earlier: {self._broken}") from self._broken
        kind, count = (-1, 0) if tensor is None else (_TYPES.index(tensor.dtype), tensor.numel())
        self._first = True
        self._lockstep.begins((what, kind, count, how))

    def _starts(self, many: int, step: int) -> range:
        """Where chunks begin. An empty tensor has one, too: the ranks must agree on that as well."""
        return range(0, max(many, 1), step)

    def _next_slots(self, dtype: torch.dtype, many: int) -> list[torch.Tensor]:
        """A slot for each rank, of ``many`` elements, in the current set."""
        start = self._set.value * self._size * CHUNK_BYTES
        self._set.value ^= 1
        chosen = self._slots[start : start + self._size * CHUNK_BYTES].view(self._size, CHUNK_BYTES)
        return [slot.view(dtype)[:many] for slot in chosen]

    def _meet(self) -> None:
        self._guarded(self._lockstep.meet)
        if self._first:
            self._first = False
            other = self._lockstep.agree()
            if other is not None:
                self._guarded(lambda: self._disagree(other))

    def _disagree(self, other: int) -> None:
        raise Disagreement(
            f"rank {self._called[self.rank]} calls {_words(self._lockstep.said(self.rank))}, "
            f"but rank {self._called[other]} calls {_words(self._lockstep.said(other))}"
        )

    def _guarded(self, act: Callable[[], None]) -> None:
        """After an error the ranks are out of step, and every later call raises that."""
        try:
            act()
        except BaseException as error:
            self._broken = error
            raise


_COMBINE: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "sum": torch.add,
    "avg": torch.add,
    "max": torch.maximum,
    "min": torch.minimum,
    "product": torch.mul,
    "band": torch.bitwise_and,
    "bor": torch.bitwise_or,
    "bxor": torch.bitwise_xor,
}


def _words(said: list[int]) -> str:
    what, kind, count, how = said
    if what == _BARRIER:
        return "barrier"
    manner = f" from rank {how}" if what == _BROADCAST else f" ({_OPS[how]})" if what != _ALL_GATHER else ""
    return f"{_NAMES[what]}{manner} of {count} {str(_TYPES[kind]).removeprefix('torch.')}"
