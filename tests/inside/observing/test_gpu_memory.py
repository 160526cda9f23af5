"""What is asked of CUDA, with a stand-in; on a machine with a GPU, of the real one."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from hasten.inside.observing.gpu_memory import free_cache, gpu_memory
from hasten.records.observation import GpuMemory

COUNTS = {
    "allocated_bytes.all.peak": 3,
    "reserved_bytes.all.peak": 5,
    "reserved_bytes.all.current": 4,
    "num_alloc_retries": 1,
}


def test_each_gpu_once() -> None:
    cuda = SimpleNamespace(
        memory_stats=lambda device: COUNTS,
        mem_get_info=lambda device: (50 + device.index, 100),
        get_device_properties=lambda device: SimpleNamespace(total_memory=100 + device.index),
    )
    made_up: Any = SimpleNamespace(cuda=cuda)
    devices = [torch.device(name) for name in ("cuda:1", "cpu", "cuda:0", "cuda:1")]
    assert gpu_memory(made_up, devices) == (
        GpuMemory("cuda:0", 100, allocated_bytes=3, reserved_bytes=5, retries=1, available_bytes=54),
        GpuMemory("cuda:1", 101, allocated_bytes=3, reserved_bytes=5, retries=1, available_bytes=55),
    )


def test_a_training_on_the_cpu_takes_none() -> None:
    assert gpu_memory(torch, [torch.device("cpu")]) == ()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here")
def test_a_real_gpu() -> None:
    held = torch.zeros(2**22, device="cuda")
    (memory,) = gpu_memory(torch, [held.device])
    assert 2**24 <= memory.allocated_bytes <= memory.reserved_bytes <= memory.total_bytes
    assert memory.available_bytes is not None
    assert memory.reserved_bytes <= memory.available_bytes <= memory.total_bytes


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here")
def test_what_no_tensor_uses_is_given_back() -> None:
    held = torch.zeros(2**20, device="cuda")
    torch.zeros(2**26, device="cuda")
    before, _ = torch.cuda.mem_get_info()
    free_cache(torch)
    after, _ = torch.cuda.mem_get_info()
    assert after - before >= 2**28
    assert held.sum() == 0


def test_nothing_is_given_back_where_no_gpu_is_used() -> None:
    cuda = SimpleNamespace(is_initialized=lambda: False)
    made_up: Any = SimpleNamespace(cuda=cuda)
    free_cache(made_up)  # and CUDA is not set up for it
