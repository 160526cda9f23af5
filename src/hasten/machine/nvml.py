"""What NVIDIA's management library reports about all GPUs, in the order of the PCI bus.

It is called through the package nvidia-ml-py (the extra ``gpu``). Every answer is None if the package, the
library or the driver is missing, or reports something unknown here.

Source: NVML API reference, https://docs.nvidia.com/deploy/nvml-api/.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from hasten.records.machine import GpuLinks

Answer = TypeVar("Answer")

_LEVELS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}  # nvmlGpuTopologyLevel_t


def names() -> tuple[str, ...] | None:
    """Product names: "NVIDIA H200"; equal for equal GPUs."""
    return _asked(lambda nvml, gpus: tuple(_text(nvml.nvmlDeviceGetName(gpu)) for gpu in gpus))


def clocks() -> tuple[int, ...] | None:
    """Clocks of the multiprocessors, in MHz; 0 if a GPU does not report it."""
    return _asked(lambda nvml, gpus: tuple(_clock(nvml, gpu) for gpu in gpus))


def links() -> GpuLinks | None:
    """How the GPUs are connected; None also for fewer than two."""
    return _asked(_links)


def _asked(question: Callable[[Any, Sequence[Any]], Answer]) -> Answer | None:
    try:
        import pynvml as nvml
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
        try:
            count = nvml.nvmlDeviceGetCount()
            return question(nvml, [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)])
        finally:
            nvml.nvmlShutdown()
    except (nvml.NVMLError, AttributeError, LookupError):  # or an old package, or a new kind of link
        return None


def _text(name: str | bytes) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else name  # from an old package


def _clock(nvml: Any, gpu: Any) -> int:
    try:
        return int(nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM))
    except nvml.NVMLError:
        return 0


def _links(nvml: Any, gpus: Sequence[Any]) -> GpuLinks | None:
    if len(gpus) < 2:
        return None
    places = [_place(nvml.nvmlDeviceGetPciInfo(gpu)) for gpu in gpus]
    ends = [Counter(_ends_of_nvlinks(nvml, gpu)) for gpu in gpus]

    def kind(a: int, b: int) -> str:
        if a == b:
            return "X"
        by_nvlink = ends[a][places[b]] or min(ends[a][None], ends[b][None])
        if by_nvlink:
            return f"NV{by_nvlink}"
        return _LEVELS[nvml.nvmlDeviceGetTopologyCommonAncestor(gpus[a], gpus[b])]

    every = range(len(gpus))
    return GpuLinks(tuple(tuple(kind(a, b) for b in every) for a in every))


def _ends_of_nvlinks(nvml: Any, gpu: Any) -> Iterator[tuple[int, int, int] | None]:
    """For each active NVLink the index of the GPU at its other end; None for a switch, which connects all."""
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        with suppress(nvml.NVMLError):  # there is no such link
            if nvml.nvmlDeviceGetNvLinkState(gpu, link):
                at_switch = (
                    nvml.nvmlDeviceGetNvLinkRemoteDeviceType(gpu, link) == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH
                )
                yield None if at_switch else _place(nvml.nvmlDeviceGetNvLinkRemotePciInfo(gpu, link))


def _place(pci: Any) -> tuple[int, int, int]:
    return pci.domain, pci.bus, pci.device
