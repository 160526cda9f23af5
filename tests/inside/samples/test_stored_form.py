"""A sample comes back from plain bytes as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hasten.inside.samples.sampling_proof import same_sample
from hasten.inside.samples.stored_form import Unstorable, decode, encode


def picture() -> Any:
    from PIL import Image

    made = Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3))
    made.info["dpi"] = (72, 72)
    return made


@pytest.mark.parametrize(
    "sample",
    [
        (1, -(2**70), True, None, 0.1, float("nan"), "ä\ud800", b"\x00\xff"),
        {
            "a": [torch.arange(6).reshape(2, 3), torch.zeros(0, 3)],
            5: {"b": torch.tensor(2.5, dtype=torch.float16)},
        },
        torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1),
        torch.arange(24.0).reshape(4, 6)[:, ::2],
        torch.ones(3, 1).expand(3, 4).bfloat16(),
        np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1),
        np.arange(24, dtype=">i4").reshape(4, 6)[::-1],
        [np.float32(1.5), np.array("2020-01-01", dtype="M8[D]"), np.array(["a", "bc"])],
    ],
)
@pytest.mark.parametrize("copied", [False, True])
def test_samples_come_back_from_their_bytes(sample: Any, copied: bool) -> None:
    layout, body = encode(sample)
    found = decode(torch, layout, memoryview(bytearray(body)), copied)
    assert same_sample(sample, found)


def test_a_picture_comes_back_from_its_bytes() -> None:
    pytest.importorskip("PIL")
    layout, body = encode(picture())
    found: Any = decode(torch, layout, memoryview(bytearray(body)), copied=True)
    assert same_sample(picture(), found)
    assert found.info == {"dpi": (72, 72)}


def test_the_order_of_dimensions_in_memory_is_kept() -> None:
    """By it a batch is laid out as without us."""
    samples: tuple[Any, ...] = (torch.rand(4, 5, 3).permute(2, 0, 1), np.ones((4, 5, 3)).transpose(2, 0, 1))
    for sample in samples:
        layout, body = encode(sample)
        found: Any = decode(torch, layout, memoryview(bytearray(body)), copied=True)
        in_bytes = found.numpy().strides if torch.is_tensor(found) else found.strides
        assert in_bytes == (sample.numpy().strides if torch.is_tensor(sample) else sample.strides)


@pytest.mark.parametrize("kind", [np.matrix, np.memmap, np.recarray])
def test_other_arrays_are_not_taken_for_one_number(kind: type, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.ones((3, 2)))
    array = np.load(tmp_path / "rows.npy", mmap_mode="r") if kind is np.memmap else np.ones((3, 2)).view(kind)
    with pytest.raises(Unstorable):
        encode((1, array))


@pytest.mark.parametrize("sample", ["text", b"bytes", torch.ones(3), 7])
def test_a_sample_that_is_cut_short_is_none(sample: Any) -> None:
    layout, body = encode(sample)
    with pytest.raises(ValueError, match="the sample is cut short"):
        decode(torch, layout, memoryview(bytearray(body[:-1])), copied=True)
