from __future__ import annotations

from pathlib import Path

import pytest

from hasten.machine.accelerators import accelerators

from .conftest import Programs, Record

pytestmark = pytest.mark.usefixtures("programs")  # no nvidia-smi, unless a test puts one there


def gpu(bus: str, model: str, minor: int) -> dict[str, str]:
    text = f"Model: \t\t {model}\nIRQ:   \t\t 61\nGPU UUID: \t GPU-0\nDevice Minor: \t {minor}\n"
    return {f"proc/driver/nvidia/gpus/{bus}/information": text}


TWO = gpu("0000:86:00.0", "NVIDIA L4", 0) | gpu("0000:07:00.0", "NVIDIA H200", 1)


def test_gpus_are_named_in_the_order_of_the_bus(record: Record) -> None:
    buses = ["9a", "07", "d2", "3b", "86", "18", "e1", "5e"]  # enough that no folder lists them so by chance
    for minor, bus in enumerate(buses):
        root = record(gpu(f"0000:{bus}:00.0", f"GPU {bus}", minor) | {f"dev/nvidia{minor}": ""})
    assert accelerators(root) == tuple(f"GPU {bus}" for bus in sorted(buses))


def test_a_gpu_of_the_host_without_its_device_is_out_of_reach(record: Record) -> None:
    assert accelerators(record(TWO | {"dev/nvidia0": ""})) == ("NVIDIA L4",)


def test_nvidia_smi_is_asked_where_the_driver_has_no_files(tmp_path: Path, programs: Programs) -> None:
    programs("nvidia-smi", '[ "$*" = "--query-gpu=name --format=csv,noheader" ] && printf "GPU A\\nGPU B\\n"')
    assert accelerators(tmp_path) == ("GPU A", "GPU B")


def test_nvidia_smi_is_asked_while_the_driver_knows_no_model(record: Record, programs: Programs) -> None:
    programs("nvidia-smi", 'echo "NVIDIA L4"')
    root = record(gpu("0000:86:00.0", "Unknown", 0) | {"dev/nvidia0": ""})
    assert accelerators(root) == ("NVIDIA L4",)


def test_there_are_none_where_nvidia_smi_fails(tmp_path: Path, programs: Programs) -> None:
    programs("nvidia-smi", 'echo "NVIDIA-SMI has failed"; exit 9')
    assert accelerators(tmp_path) == ()


def test_there_are_none_where_nothing_is_installed(tmp_path: Path) -> None:
    assert accelerators(tmp_path) == ()
