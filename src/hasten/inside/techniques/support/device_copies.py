"""Where a script sends its batches to a device: ``tensor.to(device)`` and ``tensor.cuda()``."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

from ....records.facts import Facts
from ...seams import Args, Call, Kwargs
from ...training import Training

if TYPE_CHECKING:
    from torch import Tensor
    from torch import device as Device

Send = Callable[[Call, "Tensor", Args, Kwargs], object]
"""(torch's own method, tensor, args, kwargs) -> what the method returns."""


def needs_cuda(facts: Facts) -> list[str]:
    """Why batches are not copied from a loader to a CUDA device; empty if they are."""
    if facts.devices != {"cuda"}:
        where = ", ".join(sorted(facts.devices)) or "no device"
        return [f"the training is on {where}: batches are copied to no CUDA device"]
    if not any(loader.training for loader in facts.observation.loaders):
        return ["the training reads from no DataLoader"]
    return []


def sending(training: Training, send: Send) -> None:
    """Wrap both methods with ``send``, as long as the training's seams are in force. What a compiler traces
    is left alone.
    """
    torch = training.torch

    def around(original: Call) -> Call:
        def method(tensor: Tensor, *args: object, **kwargs: object) -> object:
            if type(tensor) is not torch.Tensor or torch.compiler.is_compiling():
                return original(tensor, *args, **kwargs)
            return send(original, tensor, args, kwargs)

        return method

    def around_cuda(original: Call) -> Call:
        to: Call = torch.Tensor.to  # through which both ways are the same

        def cuda(tensor: Tensor, *args: object, **kwargs: object) -> object:
            plain = not args and set(kwargs) <= {"non_blocking"}
            return to(tensor, "cuda", **kwargs) if plain else original(tensor, *args, **kwargs)

        return cuda

    training.seams.replace(torch.Tensor, "to", around)
    training.seams.replace(torch.Tensor, "cuda", around_cuda)


def target_of(torch: ModuleType, tensor: Tensor, args: Args, kwargs: Kwargs) -> Device | None:
    """The device that ``tensor.to(*args, **kwargs)`` copies to, if it only changes the device of a
    tensor in main memory; otherwise None.
    """
    if tensor.device.type != "cpu" or tensor.requires_grad or set(kwargs) - {"device", "non_blocking"}:
        return None
    if len(args) + ("device" in kwargs) != 1:
        return None
    device = args[0] if args else kwargs["device"]
    if isinstance(device, str):
        device = torch.device(device)
    found: Device | None = device if isinstance(device, torch.device) else None
    return found
