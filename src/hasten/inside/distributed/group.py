"""A process group for torch.distributed, built from an engine's few collectives."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, NoReturn, Protocol, TypeVar

import torch
import torch.distributed as dist
from torch.futures import Future

from ..internals.compiler import never_compiled
from ..internals.groups import name_given, work_from
from .backends.engine import Engine
from .point_to_point import Pairs

_Op: Any = dist.ReduceOp.RedOpType
_OPS = {
    _Op.SUM: "sum", _Op.AVG: "avg", _Op.MAX: "max", _Op.MIN: "min", _Op.PRODUCT: "product",
    _Op.BAND: "band", _Op.BOR: "bor", _Op.BXOR: "bxor",
}  # fmt: skip
_ASKED_BY_COMPILER = {"rank", "size", "getRank", "getSize", "name", "getBackendName"}


class Rooted(Protocol):
    """Options of a collective that has a root."""

    rootRank: int


Tensors = Sequence[torch.Tensor]
_Group: Any = dist.ProcessGroup  # its stubs have only one signature of each
_Kind = TypeVar("_Kind", bound=type)


def _past_the_compiler(kind: _Kind) -> _Kind:
    """Methods of ``kind`` are not compiled where torch.compile meets them inside a model (DDP calls back from
    C++): it would fail on a group's attributes, and there is nothing to compile.
    """
    for name, method in list(vars(kind).items()):
        if isinstance(method, FunctionType) and name not in _ASKED_BY_COMPILER and not name.endswith("__"):
            setattr(kind, name, never_compiled(method))
    return kind


@_past_the_compiler
class CollectiveGroup(_Group):  # type: ignore[misc]
    """All that torch.distributed and DDP need of a group of CPU ranks. A collective is over when its call
    returns; ``async_op`` is accepted, and its work is done already. Sends and receives go by ``pairs``, and
    are over when their work is.

    Methods have the names by which torch's C++ calls them, those of torch 2.9 and of 2.13.
    """

    # torch's interface for a group's backend, which is the group itself
    supports_coalescing = supports_splitting = supports_shrinking = supports_time_estimate = False

    def __init__(self, name: str, engine: Engine, rank: int, size: int, pairs: Pairs) -> None:
        super().__init__(rank, size)
        self._name, self._engine, self._rank, self._size = name, engine, rank, size
        self._pairs = pairs
        self._in_turn = threading.Lock()  # backward passes call from their own threads

    # ---- who it is
    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    getRank, getSize = rank, size

    def name(self) -> str:
        return self._name

    getBackendName = name

    def _get_backend(self, device: torch.device) -> object:
        """For a group made in Python, that is the group. Raises torch's RuntimeError for other devices."""
        return self if device.type == "cpu" else super()._get_backend(device)

    @property
    def pg_name(self) -> str:
        return name_given(self, self._name)

    @property
    def group_name(self) -> str:
        return self.pg_name

    def shutdown(self) -> None:
        self._engine.close()

    abort = shutdown

    # ---- collectives
    def allreduce(self, tensors: Tensors, opts: object = None) -> dist.Work:
        op = _op(opts)
        return self._each(tensors, lambda tensor: self._engine.all_reduce(tensor, op))

    allreduce_coalesced = allreduce

    def reduce(self, tensors: Tensors, opts: Rooted) -> dist.Work:
        """All ranks compute it; all but the root leave their tensors unchanged."""
        op = _op(opts)

        def act(tensor: torch.Tensor) -> None:
            result = tensor if self._rank == opts.rootRank else tensor.clone()
            self._engine.all_reduce(result, op)

        return self._each(tensors, act)

    def broadcast(self, tensors: Tensors, opts: Rooted | None = None) -> dist.Work:
        root = 0 if opts is None else opts.rootRank
        return self._each(tensors, lambda tensor: self._engine.broadcast(tensor, root))

    def allgather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: object = None) -> dist.Work:
        def act() -> None:
            for output, given in zip(outputs, inputs, strict=True):
                for part, one in zip(output, self._gathered(given), strict=True):
                    part.copy_(one)

        return self._done(act, outputs)

    def allgather_coalesced(
        self, outputs: Sequence[Tensors], inputs: Tensors, opts: object = None
    ) -> dist.Work:
        """``outputs``: for each rank, one tensor for each of ``inputs``."""
        return self.allgather(list(zip(*outputs, strict=True)), inputs)

    def all_gather_single(self, output: torch.Tensor, given: torch.Tensor, opts: object = None) -> dist.Work:
        def act() -> None:
            output.copy_(self._gathered(given).view(output.shape))

        return self._done(act, output)

    _allgather_base = all_gather_single

    def allgather_into_tensor_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: object = None
    ) -> dist.Work:
        for output, given in zip(outputs, inputs, strict=True):
            self.all_gather_single(output, given)
        return self._done(lambda: None, list(outputs))

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Rooted) -> dist.Work:
        def act() -> None:
            found = self._gathered(inputs[0])
            if self._rank == opts.rootRank:
                for part, one in zip(outputs[0], found, strict=True):
                    part.copy_(one)

        return self._done(act, outputs)

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Rooted) -> dist.Work:
        def act() -> None:
            shape = (self._size, *outputs[0].shape)
            parts = outputs[0].new_empty(shape)
            if self._rank == opts.rootRank:
                torch.stack(list(inputs[0]), out=parts)
            self._engine.broadcast(parts, opts.rootRank)
            outputs[0].copy_(parts[self._rank])

        return self._done(act, outputs)

    def reduce_scatter_single(
        self, output: torch.Tensor, given: torch.Tensor, opts: object = None
    ) -> dist.Work:
        op = _op(opts)

        def act() -> None:
            result = output if output.is_contiguous() else torch.empty_like(output).contiguous()
            self._engine.reduce_scatter(result, given.contiguous(), op)
            if result is not output:
                output.copy_(result)

        return self._done(act, output)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_tensor_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: object = None
    ) -> dist.Work:
        for output, given in zip(outputs, inputs, strict=True):
            self.reduce_scatter_single(output, given, opts)
        return self._done(lambda: None, list(outputs))

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: object) -> dist.Work:
        op = _op(opts)

        def act() -> None:
            for output, parts in zip(outputs, inputs, strict=True):
                result = torch.empty_like(output, memory_format=torch.contiguous_format)
                self._engine.reduce_scatter(result, torch.stack(list(parts)), op)
                output.copy_(result)

        return self._done(act, outputs)

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: object = None) -> dist.Work:
        """Broadcasts everything to all ranks: simple, but expensive for large tensors."""

        def act() -> None:
            for sender in range(self._size):
                for receiver in range(self._size):
                    sizes = torch.tensor([inputs[receiver].numel() if self._rank == sender else 0])
                    self._engine.broadcast(sizes, sender)
                    flat = outputs[0].new_empty(int(sizes))
                    if self._rank == sender:
                        flat.copy_(inputs[receiver].reshape(-1))
                    self._engine.broadcast(flat, sender)
                    if self._rank == receiver:
                        outputs[sender].copy_(flat.view(outputs[sender].shape))

        return self._done(act, outputs)

    def alltoall_base(
        self,
        output: torch.Tensor,
        given: torch.Tensor,
        output_sizes: Sequence[int],
        input_sizes: Sequence[int],
        opts: object = None,
    ) -> dist.Work:
        """Rows of ``given`` for each rank; no sizes: as many for each."""
        mine = output if output.is_contiguous() else torch.empty_like(output).contiguous()
        outputs = list(torch.split(mine, list(output_sizes) or len(output) // self._size))
        inputs = list(torch.split(given.contiguous(), list(input_sizes) or len(given) // self._size))
        self.alltoall(outputs, inputs)

        def act() -> None:
            if mine is not output:
                output.copy_(mine)

        return self._done(act, output)

    all_to_all_single = alltoall_base

    def barrier(self, opts: object = None) -> dist.Work:
        return self._done(self._engine.barrier if self._size > 1 else lambda: None, [])

    # ---- point to point
    def send(self, tensors: Tensors, receiver: int, tag: int = 0) -> dist.Work:
        return self._pairs.send(tensors, receiver, tag)

    def recv(self, tensors: Tensors, sender: int, tag: int = 0) -> dist.Work:
        return self._pairs.receive(tensors, sender, tag)

    def recv_anysource(self, *_: object) -> NoReturn:
        """Raises NotImplementedError: a receiver must name the sender."""
        raise NotImplementedError(
            f"{self._name} cannot receive from any rank: name one by recv(tensor, src), or make a group that "
            "can by dist.new_group(backend='gloo')"
        )

    # ---- means
    def _gathered(self, tensor: torch.Tensor) -> torch.Tensor:
        """One row for each rank."""
        rows = torch.empty((self._size, *tensor.shape), dtype=tensor.dtype)
        if self._size == 1:
            rows[0] = tensor
        else:
            self._engine.all_gather(rows, tensor.contiguous())
        return rows

    def _each(self, tensors: Tensors, act: Callable[[torch.Tensor], None]) -> dist.Work:
        """Call ``act`` with each tensor, contiguous as the engine needs it, in place."""

        def acts() -> None:
            for tensor in tensors if self._size > 1 else ():
                if tensor.is_contiguous():
                    act(tensor.detach())
                else:
                    plain = tensor.detach().contiguous()
                    act(plain)
                    tensor.detach().copy_(plain)

        return self._done(acts, list(tensors))

    def _done(self, act: Callable[[], None], result: object) -> dist.Work:
        with self._in_turn, torch.no_grad():
            act()
        future: Future[object] = Future()
        future.set_result(result)
        return work_from(future)


def _op(opts: object) -> str:
    """The operation's name for an engine. A ``ReduceOp`` has a kind and perhaps a factor; torch also passes
    kinds.
    """
    given = getattr(opts, "reduceOp", _Op.SUM)
    kind: Any = given if isinstance(given, _Op) else given.op
    if kind not in _OPS:
        raise NotImplementedError(f"{kind} is not known here; these are: {', '.join(_OPS.values())}")
    return _OPS[kind]
