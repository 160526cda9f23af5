"""Several ranks train what one process trains: in float64, from scripts that know nothing of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch

from hasten.inside.distributed.this_rank import ThisRank
from hasten.inside.observing.backward_call import OF_AUTOGRAD, OF_TENSOR
from hasten.records.ranks import Findings

from .forked import train_well
from .trainings import LOADER, apart, told, train

BATCHES = """
def batches(steps=50, **more):
    taken = 0
    while True:
        for batch in DataLoader(data(), **{"batch_size": 8, "shuffle": True, **more}):
            if taken == steps:
                return
            taken += 1
            yield taken, *batch
"""

CLIPPED = """
model = net()
optimizer = torch.optim.OPTIMIZER
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50)
losses = []
for step, x, y in batches():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    scheduler.step()
    losses.append(loss.item())
tell(model=flat(model), losses=losses)
"""

ACCUMULATED = """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
losses, kept = [], None
for step, x, y in batches(60):
    loss = nn.functional.mse_loss(model(x), y)
    (loss / 3).backward()
    same = kept is None or all(p.grad is k for p, k in zip(model.parameters(), kept))
    kept = [p.grad for p in model.parameters()]
    if step % 3 == 0:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    losses.append(loss.item())
tell(model=flat(model), losses=losses, same=[float(same)])
"""

SUMMED = """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.005)
losses = []
for step, x, y in batches():
    loss = nn.functional.mse_loss(model(x), y, reduction="sum")
    loss.backward()
    losses.append(loss.item())
    if step % 2 == 0:
        optimizer.step()
        optimizer.zero_grad()
tell(model=flat(model), losses=losses)
"""

GAN = """
maker, judge = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)), net()
judge[0] = nn.Linear(1, 16)
of_maker = torch.optim.Adam(maker.parameters(), lr=0.01)
of_judge = torch.optim.Adam(judge.parameters(), lr=0.01)
bce = nn.functional.binary_cross_entropy_with_logits
losses = []
for step, x, y in batches():
    of_judge.zero_grad()
    real = bce(judge(y), torch.ones_like(y))
    real.backward()
    made = maker(x)
    fake = bce(judge(made.detach()), torch.zeros_like(y))
    fake.backward()
    of_judge.step()
    of_maker.zero_grad()
    won = bce(judge(made), torch.ones_like(y))
    won.backward()
    of_maker.step()
    losses += [real.item(), fake.item(), won.item()]
tell(model=torch.cat([flat(maker), flat(judge)]), losses=losses)
"""

PARTS = """
class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.never, self.frozen = net(), nn.Linear(3, 3), nn.Linear(6, 6)
        self.now_and_then = nn.Linear(6, 1)
        self.frozen.requires_grad_(False)

    def forward(self, x):
        out = self.used(self.frozen(x))
        rare = (x[:, :1] > 1.3).double()
        return out + rare * self.now_and_then(x) if rare.any() else out


model = Parts()
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01, weight_decay=0.1)
nones = []
for step, x, y in batches(30):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    nones.append(float(model.now_and_then.weight.grad is None) + 2 * (model.never.weight.grad is None))
    optimizer.step()
    if step == 10:
        model.frozen.requires_grad_(True)
        optimizer.add_param_group({"params": list(model.frozen.parameters())})
tell(model=flat(model), nones=nones)
"""

CLOSURE = """
model = net()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4, line_search_fn="strong_wolfe")
losses = []
for step, x, y in batches(12):
    def closure():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss
    losses.append(optimizer.step(closure).item())
tell(model=flat(model), losses=losses)
"""

PENALTY = """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
losses = []
for step, x, y in batches(20):
    x = x.requires_grad_()
    out = model(x)
    slope, = torch.autograd.grad(out.sum(), x, create_graph=True)
    loss = nn.functional.mse_loss(out, y) + 0.1 * slope.square().sum(1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
tell(model=flat(model), losses=losses)
"""

SCALED = """
model = net().float()
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40, growth_interval=4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
losses, scales = [], []
for step, x, y in batches(30):
    x, y = x.float(), y.float()
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    scaler.step(optimizer)
    scaler.update()
    scales.append(scaler.get_scale())
    losses.append(loss.item())
tell(model=flat(model), losses=losses, scales=scales)
"""

CHECKPOINTED = """
from torch.utils.checkpoint import checkpoint
class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.shared, self.last = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 1)

    def forward(self, x):
        x = self.first(x)
        for _ in range(3):
            x = checkpoint(lambda x: torch.tanh(self.shared(x)), x, use_reentrant=True)
        return self.last(x)


model = Deep()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
losses = []
for step, x, y in batches(20):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
tell(model=flat(model), losses=losses)
"""

NORMED = """
class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(6, 8), nn.BatchNorm1d(8)
        self.conv, self.norms = nn.Conv1d(2, 3, 2), nn.BatchNorm1d(3, affine=False)
        self.last = nn.Linear(9, 1)

    def forward(self, x):
        x = torch.tanh(self.norm(self.first(x)))
        return self.last(self.norms(self.conv(x.view(-1, 2, 4))).flatten(1))


model = Normed()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for step, x, y in batches(40):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y, reduction="REDUCTION") / DIVISOR
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
buffers = torch.cat([b.double().reshape(-1) for b in model.buffers()])
tell(model=flat(model), losses=losses, buffers=buffers)
"""


@dataclass(frozen=True)
class Case:
    """``tolerance``: of the largest difference in parameters, or in losses, to one process."""

    source: str
    tolerance: float = 1e-12
    loss: str = "mean"
    sizes: tuple[int, ...] = (2, 3)
    backend: str = "shm"
    sync_batch_norm: bool = False


CASES = {
    "SGD, clipped, uneven": Case(
        CLIPPED.replace("OPTIMIZER", "SGD(model.parameters(), lr=0.1, momentum=0.9)")
    ),
    "Adam": Case(CLIPPED.replace("OPTIMIZER", "Adam(model.parameters(), lr=0.01)"), 1e-9),
    "accumulation": Case(ACCUMULATED, sizes=(3,)),
    "sum losses": Case(SUMMED, loss="sum", sizes=(2,)),
    "GAN": Case(GAN, 1e-9, sizes=(2,)),
    "parts without gradients": Case(PARTS, 1e-9, sizes=(2,)),
    "closures": Case(CLOSURE, 1e-9, sizes=(2,)),
    "a gradient in the loss": Case(PENALTY, sizes=(2,)),
    "a scaled loss": Case(SCALED, 1e-5, sizes=(2,)),
    "computed again, by a pass within the pass": Case(CHECKPOINTED, sizes=(2,)),
    "batch norm": Case(
        NORMED.replace("REDUCTION", "mean").replace("DIVISOR", "1"), 1e-10, sync_batch_norm=True
    ),
    "batch norm under a sum": Case(
        NORMED.replace("REDUCTION", "sum").replace("DIVISOR", "40"), 1e-10, "sum", (3,), sync_batch_norm=True
    ),
    "gloo": Case(ACCUMULATED, sizes=(2,), backend="gloo"),
}


@pytest.mark.parametrize("name", CASES)
def test_ranks_train_what_one_process_trains(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    source = BATCHES + case.source
    alone = told(train_well(tmp_path / "alone", source, 0)[0])
    for size in case.sizes:
        findings = Findings(LOADER, loss=case.loss)
        how = {"backend": case.backend, "sync_batch_norm": case.sync_batch_norm}
        done = train_well(tmp_path / str(size), source, size, findings, **how)
        ranks = [told(one) for one in done]
        assert [rank["model"] for rank in ranks[1:]] == [ranks[0]["model"]] * (size - 1)
        for key, expected in alone.items():
            assert apart(ranks[0][key], expected) < case.tolerance, key


def test_slices_are_no_smaller_than_asked(tmp_path: Path) -> None:
    """The last batch holds 2 samples: one rank takes both, the others' weigh nothing."""
    source = BATCHES + CLIPPED.replace("OPTIMIZER", "SGD(model.parameters(), lr=0.1)").replace(
        "losses.append", "assert len(x) > 1; losses.append"
    )
    alone = told(train_well(tmp_path / "alone", source, 0)[0])
    for one in train_well(tmp_path / "ranks", source, 3, replace(Findings(LOADER), least=2)):
        assert apart(told(one)["model"], alone["model"]) < 1e-12


def test_large_gradients_go_through_several_buckets_on_the_way(tmp_path: Path) -> None:
    source = (
        BATCHES
        + """
    model = nn.Sequential(*[nn.Linear(6, 6) for _ in range(3)], nn.Linear(6, 9000), nn.Linear(9000, 30),
        nn.Linear(30, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for step, x, y in batches(6):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    tell(model=flat(model)[::97])
    """.replace("\n    ", "\n")
    )
    alone = told(train_well(tmp_path / "alone", source, 0)[0])
    for one in train_well(tmp_path / "ranks", source, 2):
        assert apart(told(one)["model"], alone["model"]) < 1e-12


def test_torch_distributed_stays_unused_and_no_variable_tells(tmp_path: Path) -> None:
    source = (
        BATCHES
        + CLIPPED.replace("OPTIMIZER", "SGD(model.parameters(), lr=0.1)")
        + """
import os
names = [n for n in os.environ if n in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR") or "HASTEN" in n]
tell(used=[float(torch.distributed.is_initialized()), float(len(names))])
"""
    )
    for one in train_well(tmp_path, source, 2):
        assert told(one)["used"] == [0.0, 0.0]


@pytest.mark.thorough
def test_memory_is_taken_from_who_started_the_ranks(tmp_path: Path) -> None:
    source = (
        BATCHES
        + CLIPPED.replace("OPTIMIZER", "SGD(model.parameters(), lr=0.1)")
        + """
import os
tell(maps=[float(sum("memfd:hasten" in line for line in open("/proc/self/maps")))])
"""
    )
    for one in train(tmp_path, source, 2, memory=True):
        assert told(one)["maps"] == [0.0]


def test_a_gradient_that_comes_for_the_first_time_later_on_counts(tmp_path: Path) -> None:
    """In a bucket that was already sent in earlier passes without it, and in one rank only."""
    source = (
        BATCHES
        + """
class Rare(nn.Module):
    def __init__(self):
        super().__init__()
        self.rare, self.often, self.wide = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 30000)

    def forward(self, x, use):
        used = use and (x[:, 0] > 1.0).any()
        extra = (x[:, :1] > 1.0).double() * self.rare(x) if used else 0.0  # made first, its gradient is last
        return self.wide(self.often(x) + extra).mean(1, keepdim=True)


model = Rare()
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
for step, x, y in batches(14):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x, step > 5), y).backward()
    optimizer.step()
tell(model=flat(model)[:84], rare=model.rare.weight)
"""
    )
    alone = told(train_well(tmp_path / "alone", source, 0)[0])
    for one in train_well(tmp_path / "ranks", source, 2):
        assert apart(told(one)["model"], alone["model"]) < 1e-12


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("names", "args", "kwargs", "kept"),
    [
        (OF_TENSOR, (), {}, False),
        (OF_TENSOR, (None, True), {}, True),
        (OF_TENSOR, (None, None, True), {}, True),
        (OF_TENSOR, (None, False), {}, False),
        (OF_TENSOR, (), {"retain_graph": True}, True),
        (OF_AUTOGRAD, (None, True), {}, True),
        (OF_AUTOGRAD, (None,), {"create_graph": True}, True),
        (OF_AUTOGRAD, (None, None, False), {}, False),
    ],
)
def test_a_graph_that_is_kept_is_known_wherever_that_is_said(
    names: Sequence[str], args: tuple[Any, ...], kwargs: dict[str, Any], kept: bool
) -> None:
    """Its losses are not to be overwritten."""
    this_rank, loss = (
        MagicMock(_inside=False, checks=None, _apart=None),
        torch.ones((), requires_grad=True) * 2,
    )
    this_rank.training.plays_back.return_value = False
    ThisRank._around_backward(this_rank, names, lambda *args, **kwargs: None)(loss, *args, **kwargs)
    ((losses, told), _) = this_rank._end_pass.call_args
    assert (told, losses[0] is loss) == (kept, True)


def test_processes_of_their_own_train_what_one_trains(tmp_path: Path) -> None:
    """Which are no forks of one that has everything imported already."""
    case = CASES["SGD, clipped, uneven"]
    alone = told(train_well(tmp_path / "alone", BATCHES + case.source, 0)[0])
    for one in train(tmp_path / "ranks", BATCHES + case.source, 2):
        assert apart(told(one)["model"], alone["model"]) < case.tolerance


def test_a_model_is_known_again_whatever_the_threads() -> None:
    """A sum that several threads make is rounded otherwise than that of one."""
    root, found = torch.nn.Linear(600, 600, dtype=torch.float64), set()
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 3, 4):
            torch.set_num_threads(threads)
            this_rank = MagicMock(_met=set(), _models=0)
            ThisRank._meet(this_rank, root)
            found.add(this_rank._models)
    finally:
        torch.set_num_threads(before)
    assert len(found) == 1


def test_a_helper_is_asked_by_each_rank_alone() -> None:
    """A teacher in eval mode is no evaluation, of which ranks would tell each other."""
    helper, model = torch.nn.Linear(1, 1).eval(), torch.nn.Linear(1, 1).eval()
    training = SimpleNamespace(torch=torch, plays_back=bool, is_helper=lambda root: root is helper)
    rank: Any = SimpleNamespace(training=training, _evaluate=lambda *_: "shared")
    with torch.no_grad():
        found = [ThisRank._forward(rank, one, lambda: "alone", (), {}) for one in (helper, model)]
    assert found == ["alone", "shared"]
