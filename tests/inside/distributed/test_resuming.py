"""A script that resumes with its random state, in another launch, trains on as if it had never stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasten.records.ranks import Findings

from ...thorough import cases
from .forked import train_forked
from .trainings import apart, told

SOURCE = """
import os, random
import numpy
torch.manual_seed(5); random.seed(5); numpy.random.seed(5)
train = data()
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
BEFORE
first = 0
if os.path.exists("last.pt"):
    kept = torch.load("last.pt", weights_only=False)
    model.load_state_dict(kept["model"]); optimizer.load_state_dict(kept["optimizer"])
    first = kept["epoch"] + 1
    RESUME
last = int(open("epochs").read())
seen = []
for epoch in range(first, last):
    for x, y in LOADER:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y) * WEIGHT
        loss.backward()
        optimizer.step()
        seen.append(loss.item())
    kept = {"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict(), "random": STATE}
    torch.save(kept, f"last-{os.getpid()}.pt")  # all ranks do, where nothing keeps them from it
    os.replace(f"last-{os.getpid()}.pt", "last.pt")
tell(model=flat(model), seen=seen[-3:])
"""
_SHUFFLED = "DataLoader(train, batch_size=8, shuffle=True)"
_PLAIN = {
    "LOADER": _SHUFFLED, "WEIGHT": "1.0", "BEFORE": "pass",
    "STATE": "torch.get_rng_state()", "RESUME": "torch.set_rng_state(kept['random'])",
}  # fmt: skip
KINDS: dict[str, dict[str, str]] = {
    "torch": {},
    "torch.random": {
        "STATE": "torch.random.get_rng_state()", "RESUME": "torch.random.set_rng_state(kept['random'])",
    },
    "a generator of the loader": {
        "BEFORE": "own = torch.Generator().manual_seed(4)",
        "LOADER": "DataLoader(train, batch_size=8, shuffle=True, generator=own)",
        "STATE": "own.get_state()", "RESUME": "own.set_state(kept['random'])",
    },
    "random": {
        "LOADER": "DataLoader(train, batch_size=8, sampler=random.sample(range(50), 50))",
        "STATE": "random.getstate()", "RESUME": "random.setstate(kept['random'])",
    },
    "numpy": {
        "LOADER": "DataLoader(train, batch_size=8, sampler=numpy.random.permutation(50).tolist())",
        "STATE": "numpy.random.get_state()", "RESUME": "numpy.random.set_state(kept['random'])",
    },
    "all of them": {
        "WEIGHT": "(1 + 0.1 * random.random() + 0.1 * numpy.random.rand() + 0.1 * torch.rand(()).item())",
        "STATE": "(torch.get_rng_state(), random.getstate(), numpy.random.get_state())",
        "RESUME": "torch.set_rng_state(kept['random'][0]); random.setstate(kept['random'][1]); "
        "numpy.random.set_state(kept['random'][2])",
    },
    "a seed by the epoch": {
        "LOADER": f"torch.manual_seed(100 + epoch) and {_SHUFFLED}", "STATE": "None", "RESUME": "pass",
    },
}  # fmt: skip
LAUNCHES = {
    "two after two": (2, 2),
    "two after one": (0, 2),
    "one after two": (2, 0),
    "three after two": (2, 3),
}


def script(kind: str) -> str:
    source = SOURCE
    for name, code in {**_PLAIN, **KINDS[kind]}.items():
        source = source.replace(name, code)
    return source


def trained(folder: Path, source: str, *launches: tuple[int, int]) -> dict[str, list[float]]:
    """By launches of this many ranks, each up to an epoch; what the last one told."""
    folder.mkdir()
    done: dict[str, list[float]] = {}
    for size, last in launches:
        (folder / "epochs").write_text(str(last))
        ended = train_forked(folder, source, size, Findings())
        assert [one.code for one in ended] == [0] * len(ended), ended[0].stderr[-2000:]
        done = told(ended[0])
    return done


@pytest.mark.attack("truth")
@pytest.mark.parametrize("launch", cases(LAUNCHES, {"two after two"}))
@pytest.mark.parametrize("kind", cases(KINDS, {"torch", "all of them"}))
def test_what_is_resumed_goes_on_as_in_one_process(tmp_path: Path, kind: str, launch: str) -> None:
    source, (before, after) = script(kind), LAUNCHES[launch]
    at_once = trained(tmp_path / "at once", source, (0, 6))
    resumed = trained(tmp_path / "resumed", source, (before, 3), (after, 6))
    assert apart(resumed["model"], at_once["model"]) < 1e-9
    assert apart(resumed["seen"], at_once["seen"]) < 1e-9
