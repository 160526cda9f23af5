"""What a rehearsal found out: how one script is trained by several ranks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LoaderKey:
    """A DataLoader of the script's by its content: class names, and numbers where it has them."""

    dataset: str
    samples: int | None
    batch_size: int | None
    sampler: str


@dataclass(frozen=True)
class Findings:
    """``loader``: whose batches are sliced. ``loss``: "mean" or "sum" over the samples of a batch. ``least``:
    samples that a slice must hold (batch norm takes no statistics of one). ``device``: the kind that the
    model is on.

    ``refusals``: why the script cannot be trained by ranks; empty where it can. ``remarks``: what is not
    exact, in words.
    """

    loader: LoaderKey | None = None
    loss: str = "mean"
    least: int = 1
    device: str = ""
    refusals: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
