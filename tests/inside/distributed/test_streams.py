"""Orders agree for ever, whatever else is drawn, and nothing else is drawn alike."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from hasten.inside.distributed.streams import Streams
from hasten.inside.seams import Seams
from hasten.records.ranks import Findings, LoaderKey

from .trainings import told, train

EPOCHS, SAMPLES = 4, 23
SOURCE = f"""
import random
import numpy

class Augmented(Dataset):
    def __len__(self):
        return {SAMPLES}

    def __getitem__(self, index):
        noise = [torch.rand(()).item(), random.random(), numpy.random.rand()]
        if index % 3 == 0:
            torch.rand(())
        return torch.ones(6) + noise[0], torch.tensor([index, *noise])


model = nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.5), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
seen, masks = [], []
loader = DataLoader(Augmented(), batch_size=7, shuffle=True, **OPTIONS)
evaluation = DataLoader(data(5), batch_size=2)
next(iter(loader))
for epoch in range({EPOCHS}):
    SEEDING
    for x, y in loader:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        seen += y.tolist()
        masks.append(torch.rand(()).item())
    with torch.no_grad():
        for x, y in evaluation:
            assert len(x) == min(2, 5), len(x)
            break
tell(seen=seen, masks=masks)
"""
WAYS = {
    "in the main process": ("{}", ""),
    "with workers": ("dict(num_workers=2)", ""),
    "with workers that stay": ("dict(num_workers=1, persistent_workers=True)", ""),
    "seeded anew": (
        "{}",
        "torch.manual_seed(100 + epoch); random.seed(100 + epoch); numpy.random.seed(100 + epoch)",
    ),
}
FINDINGS = Findings(LoaderKey("Augmented", SAMPLES, 7, "RandomSampler"))


def epochs(seen: list[list[float]], size: int, rank: int) -> list[list[int]]:
    """The indices that a rank got, by epoch."""
    parts = [7, 7, 7, 2]
    lengths = [part * (rank + 1) // size - part * rank // size for part in parts]
    indices = [int(row[0]) for row in seen]
    each = sum(lengths)
    return [indices[start : start + each] for start in range(0, len(indices), each)]


@pytest.mark.parametrize("way", WAYS)
def test_orders_agree_and_draws_differ(tmp_path: Path, way: str) -> None:
    options, seeding = WAYS[way]
    source = SOURCE.replace("OPTIONS", options).replace("SEEDING", seeding or "pass")
    first, second = (told(one) for one in train(tmp_path, source, 2, FINDINGS))
    rows = [first["seen"], second["seen"]]
    parts = [epochs(rank_rows, 2, rank) for rank, rank_rows in enumerate(rows)]  # type: ignore[arg-type]
    assert len(parts[0]) == len(parts[1]) == EPOCHS
    for mine, theirs in zip(*parts, strict=True):
        assert sorted(mine + theirs) == list(range(SAMPLES))
    assert parts[0][0] != parts[0][1]
    drawn = [value for one in rows for row in one for value in row[1:]]  # type: ignore[index]
    assert len(set(drawn)) == len(drawn), "two samples were augmented alike"
    assert not set(first["masks"]) & set(second["masks"])


def test_what_is_shared_goes_on_as_if_nothing_else_were_drawn() -> None:
    torch.manual_seed(5)
    random.seed(5)
    expected = [(torch.rand(()).item(), random.random()) for _ in range(4)]
    for rank in (0, 1):
        torch.manual_seed(5)
        random.seed(5)
        streams = Streams(torch, rank)
        found = [(torch.rand(()).item(), random.random())]
        with streams.own():
            torch.rand(3 + rank)
        found.append((torch.rand(()).item(), random.random()))
        streams.begin()
        for _ in range(2):
            torch.rand(2 + rank)
            random.random()
            with streams.shared():
                found.append((torch.rand(()).item(), random.random()))
        assert found == expected


def test_rank_0_draws_what_one_process_draws() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3).tolist()
    torch.manual_seed(5)
    streams = Streams(torch, 0)
    streams.begin()
    assert torch.rand(3).tolist() == expected


def test_a_script_that_seeds_anew_seeds_both(monkeypatch: pytest.MonkeyPatch) -> None:
    seams = Seams()
    found = []
    try:
        for rank in (0, 1):
            streams = Streams(torch, rank)
            streams.begin()
            streams.watch_seeding(seams)
            torch.manual_seed(11)
            own = torch.rand(()).item()
            with streams.shared():
                found.append((torch.rand(()).item(), own))
            seams.undo_all()
    finally:
        seams.undo_all()
    torch.manual_seed(11)
    plain = torch.rand(()).item()
    assert [shared for shared, _ in found] == [plain, plain]
    assert found[0][1] == plain
    assert found[1][1] != plain
