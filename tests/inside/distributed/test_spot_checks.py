"""Steps long after the rehearsal are held against one process's as well, and the training takes no harm."""

from __future__ import annotations

import errno
import os
import re
import sys
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch

from hasten.inside.distributed import spot_checks
from hasten.inside.distributed.forks import Fork, have_memory
from hasten.inside.distributed.harmless import make_harmless
from hasten.inside.distributed.parting import EXIT_CODE
from hasten.inside.distributed.slicing import Slice
from hasten.inside.distributed.spot_checks import SpotChecks
from hasten.inside.distributed.step_apart import StepApart
from hasten.records.ranks import Findings

from ...thorough import cases
from .forked import train_forked
from .trainings import LOADER, apart, told

LOOP = """
{before}
model = {model}
optimizer = {optimizer}
loader = DataLoader(data(), batch_size=8, shuffle=True, num_workers={workers})
steps = 0
for epoch in range({epochs}):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        {pass_}
        optimizer.step()
        steps += 1
        {after}
    model.eval()
    with torch.no_grad():
        evaluated = float(((model(data(24, 9).tensors[0]) - data(24, 9).tensors[1]) ** 2).mean())
    {after_epoch}
tell(parameters=flat(model), evaluated=[evaluated])
"""


EPOCHS = 18  # of seven steps


def loop(pass_: str, **more: Any) -> str:
    given = {
        "before": "", "model": "net()", "optimizer": "torch.optim.SGD(model.parameters(), lr=0.05)",
        "workers": 0, "epochs": EPOCHS, "after": "pass", "after_epoch": "pass",
        "pass_": pass_.strip().replace("\n", "\n        "),
    }  # fmt: skip
    return LOOP.format(**{**given, **{key: str(value) for key, value in more.items()}})


PLAIN = "((model(x) - y) ** 2).mean().backward()"
STAYS = {
    "plain": loop(PLAIN),
    "layers as wide as a slice": loop(
        PLAIN, model="nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))"
    ),
    "large layers": loop(
        PLAIN, model="nn.Sequential(nn.Linear(6, 300), nn.ReLU(), nn.Linear(300, 300), nn.Linear(300, 1))"
    ),
    "convolutions": loop(
        PLAIN,
        before="shape = nn.Unflatten(1, (1, 2, 3))",
        model="nn.Sequential(shape, nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), "
        "nn.Linear(4, 1))",
    ),
    "workers of a loader": loop(PLAIN, workers=2),
    "accumulation": loop(
        "loss = ((model(x) - y) ** 2).mean() / 2\nloss.backward()\nif steps % 2: optimizer.step()"
    ),
    "a sum": loop("((model(x) - y) ** 2).sum().mul(0.1).backward()"),
    "clipping, momentum": loop(
        PLAIN + "\nnn.utils.clip_grad_norm_(model.parameters(), 0.1)",
        optimizer="torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)",
    ),
    "two passes of a batch": loop(
        PLAIN + "\noptimizer.step()\noptimizer.zero_grad()\n(model(x) - y).abs().mean().backward()"
    ),
    "dropout": loop(PLAIN, model="nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.5), nn.Linear(16, 1))"),
    "noise for each sample": loop("((model(x + 0.1 * torch.randn_like(x)) - y) ** 2).mean().backward()"),
    "batch norm": loop(PLAIN, model="nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Linear(16, 1))"),
    "batch norm of float32": loop(
        PLAIN,
        before="torch.set_default_dtype(torch.float32)",
        model="nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Linear(16, 1))",
    ),
    "a loss in float32": loop("(model(x).float() - y.float()).square().mean().backward()"),
    "a step's number in the loss": loop("((model(x) - y) ** 2).mean().mul(1 + 1 / (steps + 1)).backward()"),
    "a file is written after each step": loop(
        PLAIN, before='log = open("log.txt", "w")', after='log.write(f"{steps}\\n"); log.flush()'
    ),
    "a checkpoint after each epoch": loop(
        PLAIN, after_epoch='torch.save(model.state_dict(), f"model-{epoch}.pt")'
    ),
    "a number of the script's own": loop(
        PLAIN, before="import random", after="x = random.random() + float(torch.rand(()))"
    ),
}
RANDOM = {
    "dropout",
    "noise for each sample",
    "batch norm",
    "batch norm of float32",
    "a number of the script's own",
}  # not one process's
CHANGES = {
    "a masked mean": "(((model(x) - y) ** 2) * (y > 0)).sum() / (1 + (y > 0).sum())",
    "a mean over what is hard": "((model(x) - y) ** 2).topk(1, 0).values.mean()",
    "a root": "((model(x) - y) ** 2).mean().sqrt()",
    "a loss of pairs": "((model(x) - model(x).flip(0)) ** 2).mean()",
    "a sum with a mean": "((model(x) - y) ** 2).sum() + sum(p.square().sum() for p in model.parameters())",
    "weights of the batch": "((model(x) - y) ** 2 * torch.softmax(y, 0)).sum()",
}
OFTEN = {"layers as wide as a slice in 2"}
SIZES = [2, pytest.param(3, marks=pytest.mark.thorough)]
LATE = 70  # step from which the loss is another


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks come thick and fast, and rank 0 prints at its end how many there were."""
    monkeypatch.setattr(spot_checks, "SHARE", 10.0)
    monkeypatch.setattr(spot_checks, "_FIRST", 12)
    look = Fork.look
    monkeypatch.setattr(Fork, "look", lambda child, wait=False: look(child, True))
    finish = SpotChecks.finish

    def finished(checks: SpotChecks) -> str:
        why = finish(checks)
        print(
            f"checked {checks.done} until {checks.last_proved}, given up {checks._given_up}", file=sys.stderr
        )
        return why

    monkeypatch.setattr(SpotChecks, "finish", finished)


def findings(source: str) -> Findings:
    loss, least = "sum" if ".sum().mul" in source else "mean", 2 if "BatchNorm" in source else 1
    return Findings(LOADER, device="cpu", loss=loss, least=least)


@pytest.mark.usefixtures("done")
@pytest.mark.parametrize("stays", cases(map(" in ".join, product(STAYS, ["2", "3"])), OFTEN))
def test_a_training_that_stays_the_same_is_checked_and_untouched(tmp_path: Path, stays: str) -> None:
    name, size = stays[: -len(" in 2")], int(stays[-1])
    source = STAYS[name]
    ranks = train_forked(tmp_path / "ranks", source, size, findings(source))
    assert [one.code for one in ranks] == [0] * size, ranks[0].stderr
    found = re.search(r"checked (\d+) until (\d+), given up (\w+)", ranks[0].stderr)
    assert found is not None, ranks[0].stderr
    assert (int(found[1]) >= 4, int(found[2]) > 40, found[3]) == (True, True, "False"), ranks[0].stderr
    assert len({one.stdout.splitlines()[-1] for one in ranks}) == 1
    if name not in RANDOM:
        alone = told(train_forked(tmp_path / "alone", source, 0)[0])
        mine = told(ranks[0])
        assert max(apart(mine[key], alone[key]) for key in alone) < (1e-6 if "float32" in name else 1e-9)
    if "file" in name:
        lines = (tmp_path / "ranks" / "log.txt").read_text().split()
        assert lines == [str(number + 1) for number in range(EPOCHS * 7)]


@pytest.mark.usefixtures("done")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", cases(CHANGES, {"a masked mean"}))
def test_a_loss_that_changes_late_is_found(tmp_path: Path, name: str, size: int) -> None:
    source = loop(
        f"loss = ((model(x) - y) ** 2).mean() if steps < {LATE} else {CHANGES[name]}\nloss.backward()"
    )
    ranks = train_forked(tmp_path, source, size, Findings(LOADER, device="cpu"))
    assert [one.code for one in ranks] == [EXIT_CODE] * size, ranks[0].stderr
    found = re.search(
        r"the gradient of step (\d+) is not that of one process \(at step (\d+) it still was\): ",
        ranks[0].stderr,
    )
    assert found is not None, ranks[0].stderr
    assert int(found[1]) > LATE >= int(found[2])


# A matrix of the script's own forbids float64: what the forks compute is as rounded as the training.
SINGLE = {
    "before": "torch.set_default_dtype(torch.float32); fixed = torch.eye(6); x = torch.zeros(1, 6)",
    "optimizer": "torch.optim.SGD(model.parameters(), lr=0.05)",
}


def single(loss: str) -> str:
    return loop(f"x = x @ fixed\nloss = {loss}\nloss.backward()", **SINGLE)


@pytest.mark.usefixtures("done")
def test_in_float32_a_training_that_stays_the_same_is_checked(tmp_path: Path) -> None:
    ranks = train_forked(tmp_path, single("((model(x) - y) ** 2).mean()"), 2, Findings(LOADER, device="cpu"))
    assert [one.code for one in ranks] == [0, 0], ranks[0].stderr
    found = re.search(r"checked (\d+) until (\d+), given up False", ranks[0].stderr)
    assert found is not None, ranks[0].stderr
    assert int(found[2]) > 40, ranks[0].stderr


@pytest.mark.usefixtures("done")
@pytest.mark.parametrize("name", cases(CHANGES, {"a sum with a mean"}))
def test_in_float32_a_loss_that_changes_late_is_found_by_two_checks(tmp_path: Path, name: str) -> None:
    source = single(f"((model(x) - y) ** 2).mean() if steps < {LATE} else {CHANGES[name]}")
    ranks = train_forked(tmp_path, source, 2, Findings(LOADER, device="cpu"))
    assert [one.code for one in ranks] == [EXIT_CODE] * 2, ranks[0].stderr
    found = re.search(
        r"the gradient of step (\d+) is not that of one process \(at step (\d+)", ranks[0].stderr
    )
    assert found is not None, ranks[0].stderr
    assert int(found[1]) > LATE  # some batches' masked means are means, so the last that was may be later


def test_where_no_gradient_is_left_nothing_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    part = Slice(0, 4, 8)
    this_rank = MagicMock(
        parameters=lambda: [torch.ones(2, requires_grad=True)], slicer=MagicMock(current=part)
    )

    def ended(apart: StepApart, why: str) -> None:
        raise RuntimeError(why)

    monkeypatch.setattr(StepApart, "end", ended)
    with pytest.raises(RuntimeError, match="a backward pass leaves no gradient"):
        StepApart(this_rank, part, 1, True, -1).backward(lambda: None)


WRITES = {
    "a log between batch and backward": 'open("seen.txt", "a").write(f"{steps}\\n")',
    "a checkpoint between batch and backward": 'torch.save(model.state_dict(), "seen.txt")',
    "a program for each batch": 'import subprocess; subprocess.run("echo >> seen.txt", shell=True)',
}


@pytest.mark.usefixtures("done")
@pytest.mark.parametrize("name", cases(WRITES, {"a log between batch and backward"}))
def test_what_a_step_does_to_the_world_is_done_once_and_said(tmp_path: Path, name: str) -> None:
    source = loop(f"{WRITES[name]}\n{PLAIN}")
    ranks = train_forked(tmp_path, source, 2, Findings(LOADER, device="cpu"))
    assert [one.code for one in ranks] == [0, 0], ranks[0].stderr
    assert re.search(
        r"hasten: from step \d+ on no step can be compared with one process's \(none was\): the script "
        r"(writes|saves|calls)",
        ranks[0].stderr,
    )
    assert ranks[1].stderr.count("hasten: from step") == 0
    if "log" in name:
        seen = sorted(int(line) for line in (tmp_path / "seen.txt").read_text().split())
        assert seen == sorted(
            2 * list(range(EPOCHS * 7))
        )  # by each rank, here, where nothing is led elsewhere


@pytest.mark.usefixtures("done")
def test_where_no_process_can_be_had_training_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> int:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(spot_checks, "fork", refused)
    ranks = train_forked(tmp_path, loop(PLAIN), 2, Findings(LOADER, device="cpu"))
    assert [one.code for one in ranks] == [0, 0], ranks[0].stderr
    assert "the process that should do it could not start" in ranks[0].stderr


@pytest.mark.usefixtures("done")
def test_where_memory_is_short_it_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spot_checks, "have_memory", lambda *_: False)
    ranks = train_forked(tmp_path, loop(PLAIN), 2, Findings(LOADER, device="cpu"))
    assert [one.code for one in ranks] == [0, 0], ranks[0].stderr
    assert ranks[0].stderr.count("too little memory") == 1
    assert "checked 0 until 0" in ranks[0].stderr


def test_memory_for_forks() -> None:
    assert have_memory(2, 2**60)
    assert not have_memory(2, 2**20)


def test_a_fork_that_was_made_harmless_has_no_effect_outside(tmp_path: Path) -> None:
    shared = (tmp_path / "shared.txt").open("w+", buffering=1)
    read = (tmp_path / "read.txt").open("w+")
    read.write("one\ntwo\nthree\n")
    read.close()
    reading = os.open(tmp_path / "read.txt", os.O_RDONLY)
    assert os.read(reading, 4) == b"one\n"
    incoming, outgoing = os.pipe()
    os.write(outgoing, b"for the parent")
    told = os.memfd_create("told")

    def live() -> None:
        def stop(why: str) -> None:
            os.write(told, b" stopped")
            os._exit(0)

        make_harmless(told, 60, stop)
        os.write(shared.fileno(), b"not here")
        os.write(1, b"nor here")
        os.write(told, os.read(reading, 4) + os.read(incoming, 3))
        open(tmp_path / "new.txt", "w")  # noqa: SIM115
        os.write(told, b" went on")

    child = os.fork()
    if not child:
        try:
            live()
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert os.pread(told, 100, 0) == b"two\n stopped"
    assert os.read(reading, 4) == b"two\n"  # where the parent stood
    assert os.read(incoming, 100) == b"for the parent"
    assert (tmp_path / "shared.txt").read_text() == ""
    assert not (tmp_path / "new.txt").exists()
    for descriptor in (reading, incoming, outgoing, told):
        os.close(descriptor)
    shared.close()
