"""Whatever kind of data set a script has: its batches are those of plain training, kept or not."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from hasten.inside.samples import sample_stores, stored_fetch
from hasten.inside.samples.columns import same_batch
from hasten.inside.seams import Seams
from hasten.inside.training import NotApplicable
from hasten.records.plan import Plan

from ..thorough import cases, in_turn
from .kinds_of_data_set import KINDS, Kind
from .reading import Reading

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sample_store is refused on other systems")
EPOCHS = 3
HOW = [("dataset_in_ram", 0), ("sample_store", 0), ("sample_store", 2)]  # technique, worker processes


@pytest.fixture(autouse=True)
def _no_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """No sample of a pass is made again, which would find by chance what is to be seen before; and whatever
    the test runner itself has open is not read.
    """
    monkeypatch.setattr(stored_fetch.Reader, "_between_checks", 10**9)
    monkeypatch.setattr("hasten.inside.samples.sample_cache._SPOT_CHECKS", 0)
    monkeypatch.setattr(sample_stores, "shares_what_it_reads", lambda: False)


def trained(kind: Kind, dataset: Any, read: Callable[..., list[Any]], workers: int) -> list[Any]:
    """All batches of some epochs, each from the same seed as plain training's."""
    found = []
    for epoch in range(EPOCHS):
        torch.manual_seed(epoch)
        random.seed(epoch)
        np.random.seed(epoch)
        found += read(dataset, batch_size=5, shuffle=True, num_workers=workers, collate_fn=kind.collate)
        kind.change(dataset)
    return found


def plainly(dataset: Any, **options: Any) -> list[Any]:
    return list(DataLoader(dataset, **options))


@pytest.mark.parametrize(("name", "how"), in_turn(KINDS, HOW))
def test_batches_are_those_of_plain_training(
    seams: Seams, tmp_path: Path, name: str, how: tuple[str, int]
) -> None:
    technique, workers = how
    if name == "pictures in folders":
        pytest.importorskip("PIL")
    kind = KINDS[name]
    theirs = trained(kind, kind.make(tmp_path), plainly, workers)
    reading, plan, dataset = Reading(seams), Plan({technique: {}}), kind.make(tmp_path)
    reading.training.sample_folder = str(tmp_path / "samples")
    reading.board.start(plan)
    reading.epoch(dataset, num_workers=workers, collate_fn=kind.collate)
    why_not = ""
    try:
        reading.board.switch(plan, prepare=True)
    except NotApplicable as refused:
        why_not = str(refused)
    assert same_batch(trained(kind, dataset, reading.epoch, workers), theirs)
    expected = kind.why_not.get(technique, "")
    assert expected in why_not
    assert bool(expected) is bool(why_not)
    if not why_not and "changed while training" not in reading.proof().evidence:
        assert int(reading.proof().evidence.split()[0]) > 0


@pytest.mark.parametrize(("technique", "workers"), cases(HOW, HOW[:2]))
def test_a_data_set_that_is_made_anew_for_every_epoch(
    seams: Seams, tmp_path: Path, technique: str, workers: int
) -> None:
    """Those that were dropped neither stay nor keep their store to themselves."""
    kind = KINDS["transforms"]
    theirs = []
    for epoch in range(EPOCHS):
        torch.manual_seed(epoch)
        theirs.append(plainly(kind.make(tmp_path), batch_size=5, num_workers=workers, shuffle=True))
    reading, plan, dataset = Reading(seams), Plan({technique: {}}), kind.make(tmp_path)
    reading.training.sample_folder = str(tmp_path / "samples")
    reading.board.start(plan)
    reading.epoch(dataset, num_workers=workers)
    reading.board.switch(plan, prepare=True)
    for epoch in range(EPOCHS):
        del dataset
        dataset = kind.make(tmp_path)
        torch.manual_seed(epoch)
        assert same_batch(reading.epoch(dataset, num_workers=workers, shuffle=True), theirs[epoch])
    assert len(reading.training.training_datasets) == 1
    if technique == "sample_store":
        assert reading.proof().evidence.startswith(f"{EPOCHS * len(dataset)} samples came from a store")
