"""How much GPU memory a training uses, and giving back what it does not need between two steps."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING

from ...records.observation import GpuMemory

if TYPE_CHECKING:
    from torch import device as Device


def gpu_memory(torch: ModuleType, devices: Iterable[Device]) -> tuple[GpuMemory, ...]:
    """For each CUDA device, since the process began. Does not wait for the GPU.

    Source: https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-memory-management
    """
    return tuple(_of(torch.cuda, device) for device in sorted(set(devices), key=str) if device.type == "cuda")


def _of(cuda: ModuleType, device: Device) -> GpuMemory:
    counts = cuda.memory_stats(device)
    free, _ = cuda.mem_get_info(device)
    return GpuMemory(
        device=str(device),
        total_bytes=cuda.get_device_properties(device).total_memory,
        allocated_bytes=counts["allocated_bytes.all.peak"],
        reserved_bytes=counts["reserved_bytes.all.peak"],
        retries=counts["num_alloc_retries"],
        available_bytes=free + counts["reserved_bytes.all.current"],
    )


def free_cache(torch: ModuleType) -> None:
    """Give GPU memory that no tensor uses back to the driver, for other processes. The next step reserves it
    again, and takes longer.
    """
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
