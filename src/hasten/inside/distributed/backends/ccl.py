"""oneCCL's own C interface, from the package ``oneccl``, without its retired torch bindings.

It is erratic on some machines, a rank that dies leaves the others waiting for ever and its files in /dev/shm:
do not choose it without having measured it there.

Source: https://uxlfoundation.github.io/oneCCL/ (C API); ccl.h of release 2022.1
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import torch

from ...internals.groups import Store
from .engine import reduce_scatter_by_all_reduce

_ID_BYTES = 4096
_ENVIRONMENT = {
    "CCL_PLUGIN": "ONECCL_LEGACY_CPU", "CCL_ATL_TRANSPORT": "ofi",
    "CCL_WORKER_OFFLOAD": "0", "CCL_ATL_SHM": "1",
}  # fmt: skip
_OF_A_RANK = {
    "CCL_LOCAL_RANK": "LOCAL_RANK",
    "CCL_LOCAL_SIZE": "LOCAL_WORLD_SIZE",
}  # what oneCCL needs without a launcher
_NEEDED = (  # in this order: a library's own needs must be loaded before it
    *("libintlc.so.5", "libimf.so", "libsvml.so", "libirng.so", "libccl.so.2", "libumf.so.1"),
    *("libur_loader.so.0", "libsycl.so.9", "libccl.so.1", "libccl_legacy_cpu.so"),
)
_TYPES = {
    torch.int8: 0, torch.uint8: 1, torch.bool: 1, torch.int32: 2, torch.int64: 4, torch.float16: 6,
    torch.float32: 7, torch.float64: 8, torch.bfloat16: 9,
}  # fmt: skip
_OPS = {"sum": 0, "avg": 0, "product": 1, "max": 2, "min": 3}
_BYTES = 0  # the data type for plain bytes: int8


class _Id(ctypes.Structure):
    _fields_ = (("data", ctypes.c_char * _ID_BYTES),)


class Ccl:
    """An ``Engine`` over oneCCL's C functions."""

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta) -> None:
        self.rank, self._size, self._library = rank, size, library()
        self._group = ctypes.c_void_p()
        with _warnings_on_stderr():
            name = self._meet(store)
            self._check(self._library.onecclCommInitRank(ctypes.byref(self._group), size, name, rank))

    def _meet(self, store: Any) -> _Id:  # its stub does not accept bytes
        """The name under which all ranks meet, created by rank 0."""
        name = _Id()
        if self.rank == 0:
            self._check(self._library.onecclGetUniqueId(ctypes.byref(name)))
            store.set("ccl/id", bytes(name))
        told = store.get("ccl/id")
        ctypes.memmove(ctypes.byref(name), told, len(told))
        return name

    def all_reduce(self, tensor: torch.Tensor, op: str) -> None:
        """Raises NotImplementedError for what oneCCL cannot reduce: bitwise operations, complex numbers."""
        if op not in _OPS or tensor.dtype not in _TYPES:
            raise NotImplementedError(f"oneCCL has no {op} of {tensor.dtype}: use gloo or shm")
        if tensor.numel() == 0:
            return
        where = tensor.data_ptr()
        kind = _TYPES[tensor.dtype]
        self._check(
            self._library.onecclAllReduce(where, where, tensor.numel(), kind, _OPS[op], self._group, None)
        )
        if op == "avg":
            tensor.div_(self._size)

    def reduce_scatter(self, output: torch.Tensor, tensor: torch.Tensor, op: str) -> None:
        reduce_scatter_by_all_reduce(self, output, tensor, op)

    def broadcast(self, tensor: torch.Tensor, root: int) -> None:
        where, many = tensor.data_ptr(), tensor.numel() * tensor.element_size()
        if many:
            self._check(self._library.onecclBroadcast(where, where, many, _BYTES, root, self._group, None))

    def all_gather(self, output: torch.Tensor, tensor: torch.Tensor) -> None:
        many = tensor.numel() * tensor.element_size()
        if many:
            self._check(
                self._library.onecclAllGather(
                    tensor.data_ptr(), output.data_ptr(), many, _BYTES, self._group, None
                )
            )

    def barrier(self) -> None:
        self.all_reduce(torch.zeros(1), "sum")

    def close(self) -> None:
        """The communicator ends with the process: destroying it would wait for all ranks."""

    @staticmethod
    def _check(code: int) -> None:
        if code:
            raise RuntimeError(f"oneCCL failed with error {code}; CCL_LOG_LEVEL=info tells more")


@contextmanager
def _warnings_on_stderr() -> Iterator[None]:
    """oneCCL prints warnings to standard output, which is the script's."""
    sys.stdout.flush()
    own = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(own, 1)
        os.close(own)


def _take_away_files(process: int) -> None:
    """Remove what this process left in /dev/shm; processes forked from it have their own files."""
    if os.getpid() == process:
        for path in Path("/dev/shm").glob(f"{process}:*"):
            path.unlink(missing_ok=True)


def variables(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """What oneCCL needs in a rank's environment, in addition to what the user has set.

    It would ask a launcher which ranks are on this machine, and knows only a few of them: "torch", which
    scripts set, is not among them. We tell each rank its number ourselves, so no launcher is needed, whatever
    CCL_PROCESS_LAUNCHER says.
    """
    wanted = {**_ENVIRONMENT, "FI_PROVIDER_PATH": str(folder), "CCL_ROOT": sys.prefix}
    wanted |= {ours: environment[name] for ours, name in _OF_A_RANK.items() if name in environment}
    made = {name: value for name, value in wanted.items() if name not in environment}
    return {**made, "CCL_PROCESS_LAUNCHER": "none"}


@cache
def library() -> ctypes.CDLL:
    """libccl.so.2 with all that it needs. Raises RuntimeError if it is not installed."""
    folder = Path(sys.prefix, "lib")
    os.environ.update(variables(os.environ, folder))
    try:
        for name in _NEEDED:
            if (folder / name).exists():
                ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)
        found = ctypes.CDLL(str(folder / "libccl.so.2"))
    except OSError as error:
        raise RuntimeError(
            f"the backend ccl needs oneCCL ({error}): pip install 'hasten[ccl]', or use shm or gloo"
        ) from error
    atexit.register(_take_away_files, os.getpid())
    pointer, many, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    found.onecclGetUniqueId.argtypes = [pointer]
    found.onecclCommInitRank.argtypes = [pointer, many, _Id, number]
    found.onecclAllReduce.argtypes = [pointer, pointer, many, number, number, pointer, pointer]
    found.onecclBroadcast.argtypes = [pointer, pointer, many, number, number, pointer, pointer]
    found.onecclAllGather.argtypes = [pointer, pointer, many, number, pointer, pointer]
    return found
