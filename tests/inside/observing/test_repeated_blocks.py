"""Which parts of a model repeat."""

from __future__ import annotations

import pytest
from torch import nn

from hasten.inside.observing.repeated_blocks import repeated_blocks


def block(width: int = 4) -> nn.Module:
    return nn.Sequential(nn.Linear(width, width), nn.ReLU())


def test_the_layers_of_an_encoder_are_its_blocks() -> None:
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, batch_first=True), num_layers=3)
    assert repeated_blocks(encoder) == list(encoder.layers)


def test_blocks_may_be_deep_inside_and_next_to_other_modules() -> None:
    rows = nn.ModuleList([block(), block(), block()])
    root = nn.ModuleDict({"embed": nn.Embedding(4, 4), "body": nn.ModuleDict({"rows": rows})})
    assert repeated_blocks(root) == list(rows)


def test_of_several_rows_the_largest_counts() -> None:
    small, large = nn.ModuleList([block(), block()]), nn.ModuleList([block(16), block(16)])
    assert repeated_blocks(nn.Sequential(small, nn.Sequential(*large))) == list(large)


@pytest.mark.parametrize(
    "root",
    [
        pytest.param(nn.Linear(2, 2), id="a layer"),
        pytest.param(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), id="single layers"),
        pytest.param(nn.Sequential(block(), nn.Linear(4, 4)), id="one block"),
        pytest.param(nn.Sequential(nn.Sequential(nn.ReLU()), nn.Sequential(nn.ReLU())), id="no parameters"),
    ],
)
def test_where_nothing_repeats_there_are_none(root: nn.Module) -> None:
    assert repeated_blocks(root) == []
