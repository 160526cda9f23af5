"""What is asked of CUDA, with a stand-in; on a machine with a GPU, of the real one."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from hasten.inside.observing.gpu_memory import gpu_memory
from hasten.records.observation import GpuMemory

COUNTS = {"allocated_bytes.all.peak": 3, "reserved_bytes.all.peak": 5, "num_alloc_retries": 1}


def test_each_gpu_once() -> None:
    cuda = SimpleNamespace(
        memory_stats=lambda device: COUNTS,
        get_device_properties=lambda device: SimpleNamespace(total_memory=100 + device.index),
    )
    made_up: Any = SimpleNamespace(cuda=cuda)
    devices = [torch.device(name) for name in ("cuda:1", "cpu", "cuda:0", "cuda:1")]
    assert gpu_memory(made_up, devices) == (
        GpuMemory("cuda:0", 100, allocated_bytes=3, reserved_bytes=5, retries=1),
        GpuMemory("cuda:1", 101, allocated_bytes=3, reserved_bytes=5, retries=1),
    )


def test_a_training_on_the_cpu_takes_none() -> None:
    assert gpu_memory(torch, [torch.device("cpu")]) == ()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here")
def test_a_real_gpu() -> None:
    held = torch.zeros(2**22, device="cuda")
    (memory,) = gpu_memory(torch, [held.device])
    assert 2**24 <= memory.allocated_bytes <= memory.reserved_bytes <= memory.total_bytes
