"""What a rehearsal found: how several ranks train one script."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LoaderKey:
    """One of the script's DataLoaders, identified by content: class names, and numbers if it has them."""

    dataset: str
    samples: int | None
    batch_size: int | None
    sampler: str


@dataclass(frozen=True)
class Findings:
    """``loader``: the one whose batches are sliced. ``loss``: "mean" or "sum" over the samples of a batch.
    ``least``: samples that a slice must hold (batch norm cannot use just one). ``device``: the kind of device
    the model is on. ``in_eval``: its modules are in eval mode while they are trained.

    ``refusals``: why the script cannot be trained by ranks; empty if it can. ``remarks``: what is not
    exact, in words.
    """

    loader: LoaderKey | None = None
    loss: str = "mean"
    least: int = 1
    device: str = ""
    in_eval: bool = False
    refusals: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
