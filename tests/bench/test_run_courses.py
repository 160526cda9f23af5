"""Where in real scripts something comes between steps, and what comes after their last one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hasten.bench.comparing.epoch_ends import EpochEnds, Kind
from hasten.bench.comparing.steps import rhythm_of
from hasten.bench.workers.ending import ScriptOver
from hasten.records.plan import BASELINE
from tests.bench.real_workers import trials_for
from tests.inside.distributed.forked import workers_forked

BEGINNING = """
    from ground import *

    torch.manual_seed(0)
    model = Cnn()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def loader(count):
        return DataLoader(Pictures(count), batch_size=8)

    def evaluate(batches):
        model.eval()
        with torch.no_grad():
            for pictures, labels in batches:
                model(pictures)
        model.train()
"""
EVALUATED, TURN = Kind(evaluated=True, restarts=1), Kind(restarts=1)


@dataclass(frozen=True)
class Script:
    """``between``: (how often, every so many steps) by kind. ``tail``: what comes after the last step, which
    takes ``seconds`` at least.
    """

    source: str
    steps: int
    between: Mapping[Kind, tuple[int, float]]
    tail: Kind = field(default_factory=Kind)
    seconds: float = 0.0


SCRIPTS = {
    "by steps": Script(
        """
    pictures, labels = next(iter(DataLoader(Pictures(64), batch_size=64)))
    step = 0
    while step < 60:
        rows = torch.randint(0, 64, (8,))
        train_step(model, optimizer, pictures[rows], labels[rows])
        step += 1
        if step % 20 == 0:
            evaluate([(pictures, labels)] * 3)
    """,
        60,
        {Kind(evaluated=True): (2, 20)},
        tail=Kind(evaluated=True),
    ),
    "one epoch": Script(
        """
    evaluate(loader(16))
    for pictures, labels in loader(96):
        train_step(model, optimizer, pictures, labels)
    evaluate(loader(16))
    torch.save(model.state_dict(), __file__ + ".pt")
    time.sleep(0.3)
    """,
        12,
        {},
        tail=EVALUATED,
        seconds=0.3,
    ),
    "evaluated in mid-epoch": Script(
        """
    step = 0
    for _ in range(3):
        for pictures, labels in loader(96):
            train_step(model, optimizer, pictures, labels)
            step += 1
            if step % 5 == 0:
                evaluate(loader(16))
    """,
        36,
        {EVALUATED: (7, 5), TURN: (2, 12)},
    ),
    "two loaders": Script(
        """
    short = iter(loader(32))
    for _ in range(3):
        for pictures, labels in loader(96):
            try:
                more, _labels = next(short)
            except StopIteration:
                short = iter(loader(32))
                more, _labels = next(short)
            train_step(model, optimizer, torch.cat([pictures, more])[:8], labels)
    """,
        36,
        {TURN: (6, 28 / 5), Kind(restarts=2): (2, 12)},
    ),
}


@pytest.fixture(autouse=True, scope="module")
def _workers_are_forks() -> Iterator[None]:
    with workers_forked():
        yield


def followed(folder: Path, script: Script) -> EpochEnds:
    """A plain process, from the script's first step to the end."""
    with trials_for(folder, BEGINNING + script.source) as trials, trials.worker() as worker:
        worker.wait_started()
        with pytest.raises(ScriptOver) as over:
            worker.steps(1000)
        steps = [*worker.history, *over.value.ended.steps]
    ends = EpochEnds(rhythm_of(steps, len(steps)))
    ends.note(BASELINE, steps, 0)
    ends.note_tail(BASELINE, over.value.ended.rest)
    return ends


@pytest.mark.parametrize("name", SCRIPTS)
def test_what_comes_between_and_after(name: str, tmp_path: Path) -> None:
    script = SCRIPTS[name]
    ends = followed(tmp_path, script)
    assert ends.script_steps == ends.reach == script.steps
    found = {kind: (ends.times(kind, script.steps), ends.every(kind)) for kind in ends.kinds}
    assert found == script.between
    (tail,) = ends.tails
    assert tail.kind == script.tail
    assert tail.seconds >= script.seconds
