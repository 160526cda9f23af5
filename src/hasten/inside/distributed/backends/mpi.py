"""Ranks that an MPI launcher started, through mpi4py and whatever MPI library it finds.

Large tensors go in pieces, for which MPI libraries have fast paths. MPI has no type for bfloat16 and float16;
they are added in float32 and rounded once.

Source: https://mpi4py.readthedocs.io/en/stable/
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from types import ModuleType

import torch

from ...internals.groups import Store
from .engine import reduce_scatter_by_all_reduce

_PIECE_BYTES = 4 * 2**20
_NAMES = {
    torch.float32: "FLOAT", torch.float64: "DOUBLE", torch.int8: "INT8_T", torch.int16: "INT16_T",
    torch.int32: "INT32_T", torch.int64: "INT64_T", torch.uint8: "UINT8_T", torch.bool: "C_BOOL",
    torch.complex64: "C_FLOAT_COMPLEX", torch.complex128: "C_DOUBLE_COMPLEX",
}  # fmt: skip
_OPS = {
    "sum": "SUM", "avg": "SUM", "max": "MAX", "min": "MIN", "product": "PROD",
    "band": "BAND", "bor": "BOR", "bxor": "BXOR",
}  # fmt: skip


class Mpi:
    """An ``Engine``. A rank that dies ends the whole job: that is how MPI works."""

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta) -> None:
        try:
            from mpi4py import MPI
        except ImportError as error:
            raise RuntimeError(
                f"the backend mpi needs mpi4py and an MPI library ({error}): pip install 'hasten[mpi]'"
            ) from error
        world = MPI.COMM_WORLD
        store.set(f"mpi/{rank}", str(world.rank))
        world_ranks = [int(store.get(f"mpi/{other}")) for other in range(size)]
        if len(set(world_ranks)) < size:
            raise RuntimeError(
                f"{size} ranks were started, but MPI knows of {world.size}: start them by mpirun -n {size} "
                "(or srun --mpi=pmix), not each by itself"
            )
        self.rank, self._size, self._mpi = rank, size, MPI
        self._group = world.Create_group(world.group.Incl(world_ranks))

    def all_reduce(self, tensor: torch.Tensor, op: str) -> None:
        """MPI has no half precisions: these are reduced in float32 and rounded once."""
        if tensor.dtype in (torch.bfloat16, torch.float16):
            wide = tensor.float()
            self.all_reduce(wide, op)
            tensor.copy_(wide)
            return
        kind, how = getattr(self._mpi, _NAMES[tensor.dtype]), getattr(self._mpi, _OPS[op])
        for piece in self._pieces(tensor):
            self._group.Allreduce(self._mpi.IN_PLACE, [_memory(self._mpi, piece), piece.numel(), kind], how)
        if op == "avg":
            tensor.div_(self._size)

    def reduce_scatter(self, output: torch.Tensor, tensor: torch.Tensor, op: str) -> None:
        reduce_scatter_by_all_reduce(self, output, tensor, op)

    def broadcast(self, tensor: torch.Tensor, root: int) -> None:
        for piece in self._pieces(tensor):
            self._group.Bcast([_memory(self._mpi, piece), self._mpi.BYTE], root)

    def all_gather(self, output: torch.Tensor, tensor: torch.Tensor) -> None:
        mine = _memory(self._mpi, tensor)
        self._group.Allgather([mine, self._mpi.BYTE], [_memory(self._mpi, output), self._mpi.BYTE])

    def barrier(self) -> None:
        self._group.Barrier()

    def close(self) -> None:
        """The communicator ends with the process: freeing it would wait for all ranks."""

    @staticmethod
    def _pieces(tensor: torch.Tensor) -> Sequence[torch.Tensor]:
        return torch.split(tensor.view(-1), max(1, _PIECE_BYTES // tensor.element_size()))


def _memory(mpi: ModuleType, tensor: torch.Tensor) -> object:
    """The tensor's bytes, without a copy."""
    kind = getattr(mpi, "buffer", None) or mpi.memory  # its name since mpi4py 4, and before
    return kind.fromaddress(tensor.data_ptr(), tensor.numel() * tensor.element_size())
