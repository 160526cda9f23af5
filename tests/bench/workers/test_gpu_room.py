"""Which trainings fit into a GPU's memory side by side."""

from __future__ import annotations

import pytest

from hasten.bench.workers.gpu_room import GpuRoom
from hasten.records.observation import GpuMemory

GIB = 2**30


def memory(reserved: float, total: float = 140.0, available: float | None = None) -> GpuMemory:
    taken = round(reserved * GIB)
    left = None if available is None else round(available * GIB)
    return GpuMemory("cuda:0", round(total * GIB), taken, taken, retries=0, available_bytes=left)


def test_there_is_room_for_any_number_until_a_training_on_a_gpu_was_seen() -> None:
    room = GpuRoom()
    assert not room.is_short_for(100)
    room.know([])
    assert not room.is_short_for(100)


@pytest.mark.parametrize(
    ("one", "fitting"),
    [
        (memory(41.0), 3),  # 45.6 with what CUDA takes and a margin
        (memory(100.0), 1),
        (memory(139.0), 1),  # the margin alone would not fit
        (memory(41.0, available=60.0), 1),  # another program holds the rest
        (memory(1.0, total=8.0), 5),
    ],
)
def test_as_many_fit_as_reserve_no_more_than_there_is(one: GpuMemory, fitting: int) -> None:
    room = GpuRoom()
    room.know([one])
    assert not room.is_short_for(fitting)
    assert room.is_short_for(fitting + 1)


def test_the_fullest_gpu_counts() -> None:
    room = GpuRoom()
    room.know([memory(1.0), memory(100.0)])
    assert room.is_short_for(2)


@pytest.mark.parametrize(
    "why",
    [
        "the script raised torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.07 GiB",
        "the script raised torch.AcceleratorError: CUDA error: out of memory",
        "the script raised RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`",
    ],
)
def test_after_one_ran_out_of_memory_only_one_is_trusted_to_fit(why: str) -> None:
    room = GpuRoom()
    room.know([memory(1.0)])
    assert not room.failed("the script raised ValueError: 3")
    assert not room.is_short_for(8)
    assert room.failed(why)
    assert room.is_short_for(2)
    assert not room.is_short_for(1)
    assert not room.failed(why), "nothing is left to try"
