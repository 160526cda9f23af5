"""Digests of batches: the same exactly where everything in them is."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hasten.inside.guarding.digests import Digests, feed, row_sums

from ...thorough import cases

DTYPES = [
    *(torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.complex64),
    *(torch.int64, torch.int32, torch.int16, torch.uint8, torch.bool),
]


def batch(dtype: torch.dtype = torch.float32, shape: tuple[int, ...] = (6, 3, 5)) -> torch.Tensor:
    own = torch.Generator().manual_seed(1)
    return (torch.randn(shape, generator=own) * 3).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("length", [1, 3, 8, 13])
def test_any_byte_of_a_row_changes_its_sum_alone(dtype: torch.dtype, length: int) -> None:
    plain = batch(dtype, (3, length))
    before = row_sums(plain)
    octets = plain.view(torch.uint8)
    for place in range(octets.shape[1]):
        other = octets.clone()
        other[1, place] ^= 1
        after = row_sums(other.view(dtype))
        assert (after[0], after[2]) == (before[0], before[2])
        assert after[1] != before[1]


@given(
    st.integers(2, 40), st.sets(st.integers(0, 39), min_size=1, max_size=6), st.sampled_from(["sign", "zero"])
)
@settings(max_examples=300, deadline=None)
def test_changes_of_several_numbers_do_not_cancel(length: int, places: set[int], what: str) -> None:
    """Signs are the highest bits of words: in a plain sum of products two of them would."""
    plain = batch(shape=(1, length))
    other = plain.clone()
    for place in {place % length for place in places}:
        other[0, place] = -other[0, place] if what == "sign" else 0.0
    assert row_sums(other) != row_sums(plain)


def test_the_order_within_a_row_counts() -> None:
    plain = batch(shape=(1, 100_000))
    assert row_sums(plain.flip(1)) != row_sums(plain)
    assert row_sums(plain.roll(65_536 * 2, 1)) != row_sums(plain)  # where other numbers begin


def test_a_sample_has_one_digest_in_any_batch_and_wherever_it_lies_in_memory() -> None:
    rows, labels = batch(), torch.arange(6)
    whole = Digests([rows, labels]).of_samples()
    assert len(set(whole)) == 6
    assert Digests([rows[2:5], labels[2:5]]).of_samples() == whole[2:5]
    elsewhere = rows.permute(2, 1, 0).contiguous().permute(2, 1, 0)
    assert not elsewhere.is_contiguous()
    assert Digests([elsewhere, labels]).of_samples() == whole
    assert Digests([rows, labels + 1]).of_samples() != whole


@pytest.mark.parametrize(
    "other",
    [
        pytest.param([batch(), torch.arange(6), 4], id="a number"),
        pytest.param([batch().double(), torch.arange(6), 3], id="a type"),
        pytest.param([batch().reshape(6, 5, 3), torch.arange(6), 3], id="a shape"),
        pytest.param((batch(), torch.arange(6), 3), id="a tuple"),
        pytest.param({"x": batch(), "y": torch.arange(6), "z": 3}, id="a mapping"),
        pytest.param([batch().flip(0), torch.arange(6), 3], id="the order of samples"),
        pytest.param([batch(), torch.arange(6).flip(0), 3], id="the order of labels"),
    ],
)
def test_a_batch_differs_by(other: object) -> None:
    same = [batch(), torch.arange(6), 3]
    assert Digests(same).of_all() == Digests([batch(), torch.arange(6), 3]).of_all()
    assert Digests(other).of_all() != Digests(same).of_all()


def sparse() -> Any:
    return torch.sparse_coo_tensor(torch.tensor([[0, 1, 2], [2, 0, 1]]), torch.ones(3), (3, 3))


def nested() -> Any:
    return torch.nested.nested_tensor([torch.ones(2, 3), torch.zeros(4, 3)], layout=torch.jagged)


@pytest.mark.filterwarnings("ignore:.*[Ss]parse")
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(sparse, id="sparse"),
        pytest.param(lambda: sparse().to_sparse_csr(), id="compressed"),
        pytest.param(lambda: torch.tensor(3.0), id="without dimensions"),
        pytest.param(lambda: torch.empty(0, 3), id="empty"),
        pytest.param(lambda: torch.empty(3, 0), id="empty rows"),
        pytest.param(lambda: torch.ones(3, 2, dtype=torch.complex64).conj(), id="conjugated"),
        pytest.param(lambda: torch.ones(4, 3).expand(2, 4, 3), id="expanded"),
        pytest.param(lambda: torch.arange(20.0)[3:].reshape(1, 17), id="at an odd address"),
        pytest.param(lambda: torch.nn.Parameter(torch.ones(3, 2)), id="with gradients"),
    ],
)
def test_any_tensor_has_one(kind: Any) -> None:
    one, other = Digests([kind()]), Digests([kind()])
    assert one.of_all() == other.of_all()
    assert one.of_samples() == other.of_samples()


def test_a_nested_tensor_has_one_for_all() -> None:
    def digest_of(value: object) -> str:
        digest = hashlib.blake2b()
        feed(digest, value)
        return digest.hexdigest()

    assert digest_of(nested()) == digest_of(nested())
    assert digest_of(nested()) != digest_of(nested() * 2)


def test_no_random_number_of_the_script_is_drawn() -> None:
    before = torch.get_rng_state()
    row_sums(torch.ones(1, 300_000))
    assert torch.equal(before, torch.get_rng_state())


_ELSEWHERE = """
import torch
from hasten.inside.guarding.digests import row_sums
torch.set_default_device({device!r})
if {longer}:
    row_sums(torch.ones(1, 1_000_000, device="cpu"))
print(row_sums(torch.arange(300_000, device="cpu").reshape(2, -1)))
"""


@pytest.mark.parametrize("longer", cases([False, True], [True]))
def test_another_process_finds_the_same(longer: bool) -> None:
    """Whatever it has seen before, and wherever its tensors are made."""
    script = _ELSEWHERE.format(device="meta", longer=longer)
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == str(row_sums(torch.arange(300_000).reshape(2, -1)))
