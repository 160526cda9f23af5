"""Texts as in tutorials: token ids padded to a fixed length, and a classifier that masks the padding."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import Dataset

WIDTH = 32
_WORDS = 50


class PaddedTexts(Dataset[tuple[torch.Tensor, int]]):
    """Texts of 3 to ``longest`` words, padded with ``pad`` to ``width``.

    A sample is a pair: ids (width,) in int64, and a label from 0 to 3.
    """

    def __init__(self, longest: int = 13, width: int = WIDTH, pad: int = 0, count: int = 40) -> None:
        generator = torch.Generator().manual_seed(7)
        lengths = torch.randint(3, longest + 1, (count, 1), generator=generator)
        words = torch.randint(1, _WORDS, (count, width), generator=generator)
        self.ids = words.masked_fill(torch.arange(width) >= lengths, pad)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.ids[index], index % 4


class TextClassifier(torch.nn.Module):
    """One transformer layer over embeddings, then the mean over all words that are not padding.

    Takes ids (batch, words) and returns logits (batch, 4).
    """

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(_WORDS, 16, padding_idx=0)
        self.positions = torch.nn.Parameter(torch.randn(WIDTH, 16) * 0.1)
        self.layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout, batch_first=True)
        self.out = torch.nn.Linear(16, 4)

    def forward(self, ids: Any) -> Any:
        """Logits (batch, 4) of ids (batch, words)."""
        padding = ids == 0
        hidden = self.embedding(ids) + self.positions[: ids.shape[1]]
        hidden = self.layer(hidden, src_key_padding_mask=padding)
        kept = (~padding).unsqueeze(-1)
        return self.out((hidden * kept).sum(1) / kept.sum(1))
