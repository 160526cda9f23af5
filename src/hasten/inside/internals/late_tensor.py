"""A tensor that is computed when more is asked of it than its properties, or sending it to a device.

Source: https://docs.pytorch.org/docs/stable/notes/extending.html#extending-torch-python-api
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._pytree import tree_map

_TOLD = {  # answered without computing it
    *("shape", "dtype", "device", "ndim", "layout", "is_cuda", "is_leaf", "requires_grad", "grad", "grad_fn"),
    *("size", "dim", "stride", "numel", "nelement", "element_size", "itemsize", "nbytes", "_version"),
    *(
        "is_floating_point",
        "is_complex",
        "is_quantized",
        "is_sparse",
        "is_nested",
        "is_contiguous",
        "__len__",
    ),
    *("is_mps", "is_xpu", "is_meta", "is_inference", "names", "storage_offset", "is_mkldnn"),
}
_HANDED_OUT = {
    *("numpy", "__array__", "data_ptr", "data", "storage", "untyped_storage", "__dlpack__", "set_"),
    "__set__",  # an attribute: it may expose other memory from then on
}
_TO_DEVICES = {"to", "cuda"}

Send = Callable[["LateTensor", Any, Any], "torch.Tensor | None"]
"""(tensor, arguments of ``to``, those by name) -> what ``to`` returns; None if floats are to be sent."""


class LateTensor(torch.Tensor):
    """Float32 in main memory, laid out as ``strides`` say, that ``make`` computes. ``send`` is used first to
    move it to a device, as long as nothing can have written into the computed tensor.
    """

    maker: Callable[[], torch.Tensor]
    sender: Send
    made: torch.Tensor | None
    untouched: int | None  # version of the computed tensor; None if it may be written to unseen

    @staticmethod
    def __new__(
        cls: type[LateTensor],
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        make: Callable[[], torch.Tensor],
        send: Send,
    ) -> LateTensor:
        late: LateTensor = torch.Tensor._make_wrapper_subclass(
            cls, shape, strides=strides, dtype=torch.float32, device=torch.device("cpu")
        )
        late.maker, late.sender, late.made, late.untouched = make, send, None, 0
        return late

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name, given = _name(function), dict(kwargs or {})
        late = args[0] if args and isinstance(args[0], LateTensor) else None
        with torch._C.DisableTorchFunctionSubclass():
            if late is not None and late.made is None and name in _TOLD:
                return function(*args, **given)
            if late is not None and name in _TO_DEVICES and late.is_as_made:
                sent = late.sender(late, args[1:] if name == "to" else ("cuda", *args[1:]), given)
                if sent is not None:
                    return sent
            made = function(*tree_map(_whole, tuple(args)), **tree_map(_whole, given))
        if late is not None and name in _HANDED_OUT:
            late.untouched = None
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch's annotation says less than its documentation
        cls, function: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """What torch's own code requests below the Python API."""
        return function(*tree_map(_whole, tuple(args)), **tree_map(_whole, dict(kwargs or {})))

    def whole(self) -> torch.Tensor:
        """The tensor that this one represents: the same each time. It may be used in an evaluation and
        trained on later, and tensors of inference mode, which have no version either, stay so for ever.
        """
        if self.made is None:
            with torch.inference_mode(False):
                self.made = self.maker()
            self.untouched = self.made._version
        return self.made

    @property
    def is_as_made(self) -> bool:
        made = self.made
        return made is None or (self.untouched == made._version and not made.requires_grad)


def _whole(value: Any) -> Any:
    return value.whole() if isinstance(value, LateTensor) else value


def _name(function: Any) -> str:
    """The name of a method, or of an attribute that is read."""
    name = str(getattr(function, "__name__", ""))
    return str(getattr(function.__self__, "__name__", "")) if name == "__get__" else name
