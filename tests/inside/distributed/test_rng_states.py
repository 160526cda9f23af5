"""Orders agree for ever, whatever else is drawn, and nothing else is drawn alike."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from hasten.inside.distributed.rng_states import RngStates
from hasten.inside.distributed.script_draws import Drawing
from hasten.inside.distributed.slicing import Slice, slice_of
from hasten.inside.seams import Seams
from hasten.records.ranks import Findings, LoaderKey

from .forked import train_forked
from .trainings import told

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
    "seeded again": (
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
    first, second = (told(one) for one in train_forked(tmp_path, source, 2, FINDINGS))
    rows = [first["seen"], second["seen"]]
    parts = [epochs(rank_rows, 2, rank) for rank, rank_rows in enumerate(rows)]  # type: ignore[arg-type]
    assert len(parts[0]) == len(parts[1]) == EPOCHS
    for mine, theirs in zip(*parts, strict=True):
        assert sorted(mine + theirs) == list(range(SAMPLES))
    assert parts[0][0] != parts[0][1]
    drawn = [value for one in rows for row in one for value in row[1:]]  # type: ignore[index]
    assert len(set(drawn)) == len(drawn), "two samples were augmented alike"
    assert first["masks"] == second["masks"]  # not one for each sample: a choice for the whole batch


def test_what_is_shared_goes_on_as_if_nothing_else_were_drawn() -> None:
    torch.manual_seed(5)
    random.seed(5)
    expected = [(torch.rand(()).item(), random.random()) for _ in range(4)]
    for rank in (0, 1):
        torch.manual_seed(5)
        random.seed(5)
        streams = RngStates(torch, rank)
        found = [(torch.rand(()).item(), random.random())]
        with streams.own():
            torch.rand(3 + rank)
        found.append((torch.rand(()).item(), random.random()))
        streams.begin()
        for _ in range(2):
            torch.rand(2 + rank)
            with streams.shared():
                found.append((torch.rand(()).item(), random.random()))
        assert found == expected


def test_rank_0_draws_what_one_process_draws() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3).tolist()
    torch.manual_seed(5)
    streams = RngStates(torch, 0)
    streams.begin()
    assert torch.rand(3).tolist() == expected


def test_a_script_that_seeds_anew_seeds_both(monkeypatch: pytest.MonkeyPatch) -> None:
    seams = Seams()
    found = []
    try:
        for rank in (0, 1):
            streams = RngStates(torch, rank)
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


@pytest.mark.attack("truth")
@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize(
    ("draw", "rows"),
    [
        ("torch.rand(())", 0),
        ("torch.rand(1)", 1),
        ("torch.randn(3, 3)", 3),
        ("torch.randn((4, 2))", 4),
        ("torch.randint(9, (5,))", 5),
        ("torch.randint(0, 9, (6, 1))", 6),
        ("torch.randperm(7)", 7),
        ("torch.rand_like(torch.ones(8, 2))", 8),
        ("torch.bernoulli(torch.full((9,), 0.5))", 9),
        ("torch.empty(10, 2).normal_()", 10),
        ("torch.empty(11).uniform_(0, 1)", 11),
        ("torch.normal(0.0, 1.0, (12,))", 12),
        ("torch.normal(torch.zeros(13), 1.0)", 13),
    ],
)
def test_what_a_script_draws_is_all_ranks_unless_for_each_sample(draw: str, rows: int, rank: int) -> None:
    """As in one process for rank 0, and for what all ranks share."""
    torch.manual_seed(5)
    expected = eval(draw)
    for samples in (rows, 99):
        torch.manual_seed(5)
        seams, streams = Seams(), RngStates(torch, rank)
        streams.begin()
        Drawing(streams, lambda: Slice(0, samples, 200)).install(seams)  # noqa: B023
        try:
            found = eval(draw)
        finally:
            seams.undo_all()
        shared = rank == 0 or samples == 99
        assert torch.equal(found, expected) == shared or found.numel() <= 1


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    "draw",
    [
        "torch.rand(N, 3, generator=g)",
        "torch.randn(size=(N, 20), generator=g)",
        "torch.randint(0, 9, (N,), generator=g)",
        "torch.normal(0.0, 1.0, (N, 2), generator=g)",
        "torch.normal(torch.arange(22.0)[here], 1.0, generator=g)",
        "torch.bernoulli(torch.linspace(0, 1, 22)[here], generator=g)",
        "torch.multinomial(torch.eye(22)[here] + 0.1, 2, generator=g)",
        "torch.empty(N, 2).normal_(generator=g)",
        "torch.zeros(22, 2)[here].uniform_(0, 1, generator=g)",
        "torch.rand(5, generator=g)",
    ],
)
def test_a_generator_of_the_scripts_draws_for_the_whole_batch(draw: str) -> None:
    def drawn(part: Slice | None, rank: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
        here = slice(part.start, part.stop) if part else slice(0, 22)
        names = {"torch": torch, "N": here.stop - here.start, "here": here}
        names["g"] = generator = torch.Generator().manual_seed(5)
        seams, streams = Seams(), RngStates(torch, rank)
        streams.begin()
        Drawing(streams, lambda: part).install(seams)
        try:
            return eval(draw, names), generator.get_state()
        finally:
            seams.undo_all()

    whole, state = drawn(None)
    ranks = [drawn(slice_of(22, rank, 3), rank) for rank in range(3)]
    found = [part for part, _ in ranks] if len(whole) == 22 else [ranks[2][0]]
    assert torch.equal(torch.cat(found), whole)
    assert all(torch.equal(one, state) for _, one in ranks)


@pytest.mark.attack("truth")
def test_a_state_that_is_kept_is_the_one_that_orders_go_on_from() -> None:
    torch.manual_seed(5)
    state = torch.get_rng_state()
    expected = torch.rand(3)
    for rank in (0, 1):
        torch.manual_seed(5)
        seams, streams = Seams(), RngStates(torch, rank)
        streams.begin()
        Drawing(streams, lambda: Slice(0, 7, 14)).install(seams)
        try:
            torch.rand(7)  # own
            assert torch.equal(torch.get_rng_state(), state)
            torch.rand(3)
            torch.set_rng_state(state)
            with streams.shared():
                assert torch.equal(torch.rand(3), expected)
        finally:
            seams.undo_all()


def test_another_role_draws_its_own_and_orders_as_before() -> None:
    def drawn(role: int | None) -> tuple[list[float], list[float]]:
        torch.manual_seed(3)
        rng = RngStates(torch, 0)
        rng.begin()
        torch.rand(5)
        if role is not None:
            rng.take_role(role)
        own = torch.rand(3).tolist()
        with rng.shared():
            return own, torch.rand(3).tolist()

    (plain, order), first, second = drawn(None), drawn(1), drawn(2)
    assert drawn(0) == (plain, order)
    assert drawn(1) == first
    assert first[1] == second[1] == order
    assert len({*plain, *first[0], *second[0]}) == 9
