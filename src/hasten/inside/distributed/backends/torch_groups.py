"""Gloo and NCCL, through torch's own group objects. Creates no default group: to the script,
torch.distributed looks unused.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from ...internals.groups import Store, c10d
from .engine import reduce_scatter_by_all_reduce

if TYPE_CHECKING:
    from torch import Tensor

_Op: Any = dist.ReduceOp
_OPS = {
    "sum": _Op.SUM, "avg": _Op.SUM, "max": _Op.MAX, "min": _Op.MIN, "product": _Op.PRODUCT,
    "band": _Op.BAND, "bor": _Op.BOR, "bxor": _Op.BXOR,
}  # fmt: skip


class Native:
    """An ``Engine``; with "nccl", for tensors on CUDA devices. ``address``: this machine's, at which alone
    Gloo is to listen, unless GLOO_SOCKET_IFNAME names an interface; "" where Gloo finds one.
    """

    def __init__(
        self, name: str, store: Store, rank: int, size: int, timeout: timedelta, address: str = ""
    ) -> None:
        self.rank, self._size = rank, size
        if name == "nccl":
            options = c10d.ProcessGroupNCCL.Options()
            options._timeout = timeout
            self._group: dist.ProcessGroup = c10d.ProcessGroupNCCL(store, rank, size, options)
        elif address and "GLOO_SOCKET_IFNAME" not in os.environ:
            own = c10d.ProcessGroupGloo._Options()
            own._devices, own._timeout = [c10d.ProcessGroupGloo.create_device(hostname=address)], timeout
            self._group = c10d.ProcessGroupGloo(store, rank, size, own)
        else:
            self._group = c10d.ProcessGroupGloo(store, rank, size, timeout)

    def begin_all_reduce(self, tensor: Tensor, op: str = "sum") -> dist.Work:
        """Returns a work. ``wait`` returns once the tensor is reduced; on a GPU, the current stream waits."""
        options = c10d.AllreduceOptions()
        options.reduceOp = _OPS[op]
        return self._group.allreduce([tensor], options)

    def all_reduce(self, tensor: Tensor, op: str) -> None:
        self.begin_all_reduce(tensor, op).wait()
        if op == "avg":
            tensor.div_(self._size)

    def reduce_scatter(self, output: Tensor, tensor: Tensor, op: str) -> None:
        reduce_scatter_by_all_reduce(self, output, tensor, op)

    def broadcast(self, tensor: Tensor, root: int) -> None:
        options = c10d.BroadcastOptions()
        options.rootRank = root
        self._group.broadcast([tensor], options).wait()

    def all_gather(self, output: Tensor, tensor: Tensor) -> None:
        rows = list(output.view(self._size, *tensor.shape))
        self._group.allgather([rows], [tensor]).wait()

    def barrier(self) -> None:
        self._group.barrier().wait()

    def close(self) -> None:
        """The group ends with the process."""
