"""The GPUs this process can reach, found without torch."""

from __future__ import annotations

from pathlib import Path

from hasten.machine import nvml
from hasten.machine.probe import fields_in, output_of, text_of


def accelerators(root: Path = Path("/")) -> tuple[str, ...]:
    """One name for each NVIDIA GPU, in the order of the PCI bus: ("NVIDIA H200", "NVIDIA H200").

    The driver's own files are read first, which takes no time; then NVML and ``nvidia-smi`` if they are
    missing, as on WSL2. CUDA_VISIBLE_DEVICES is ignored: it may differ from one process to the
    next.
    """
    return _in_driver(root) or nvml.names() or _by_nvidia_smi()


def _in_driver(root: Path) -> tuple[str, ...]:
    files = sorted((root / "proc/driver/nvidia/gpus").glob("*/information"))
    gpus = [fields_in(text_of(file)) for file in files]
    if any(gpu.get("Model", "Unknown") == "Unknown" for gpu in gpus):  # not initialised yet
        return ()
    # A container sees the host's files, but only the devices that were given to it.
    return tuple(gpu["Model"] for gpu in gpus if (root / f"dev/nvidia{gpu.get('Device Minor')}").exists())


def _by_nvidia_smi() -> tuple[str, ...]:
    return tuple(output_of("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").splitlines())
