"""Each rank of ours sees one GPU of those that the user leaves visible."""

from __future__ import annotations

import pytest

from hasten.errors import UsageError
from hasten.launch.gpus import gpu_of, visible_gpus

from ..bench.made_up import machine

FOUR = machine(accelerators=("NVIDIA H200",) * 4)


@pytest.mark.parametrize(
    ("set_by_user", "left"),
    [
        (None, ("0", "1", "2", "3")),
        ("3,1", ("3", "1")),
        (" 2 , 0 ", ("2", "0")),
        ("", ()),
        ("-1", ()),
        ("0,-1,2", ("0",)),
        ("0,9,2", ("0",)),
        ("GPU-8932f937,MIG-ea2f", ("GPU-8932f937", "MIG-ea2f")),
        ("none", ()),
    ],
)
def test_the_users_own_list_is_read_as_cuda_reads_it(set_by_user: str | None, left: tuple[str, ...]) -> None:
    environment = {} if set_by_user is None else {"CUDA_VISIBLE_DEVICES": set_by_user}
    assert visible_gpus(FOUR, environment) == left


def test_without_a_gpu_nothing_is_set() -> None:
    assert visible_gpus(machine(), {}) == ()
    assert gpu_of(1, 2, ()) == {}


def test_each_rank_sees_the_one_of_its_place_in_the_list() -> None:
    assert [gpu_of(n, 2, ("3", "1")) for n in range(2)] == [
        {"CUDA_VISIBLE_DEVICES": "3"},
        {"CUDA_VISIBLE_DEVICES": "1"},
    ]


def test_more_ranks_than_gpus_are_told_with_what_fits() -> None:
    with pytest.raises(UsageError, match=r"there are 2 GPUs \(CUDA_VISIBLE_DEVICES=3,1\).*at most 2, or"):
        gpu_of(0, 3, ("3", "1"))
