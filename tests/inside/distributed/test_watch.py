"""Ranks that come apart are stopped at once, with what differs, between which ranks, since which step."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hasten.inside.distributed.parting import EXIT_CODE

from ...thorough import cases
from .forked import train_forked
from .ranks import Ended
from .trainings import apart, told

LOOP = """
mse = nn.functional.mse_loss
def accuracy(out, y): return ((out > 0) == (y > 0)).double().mean().item()
model = net()
BEFORE
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
loader = DataLoader(data(), batch_size=8, shuffle=True)
saved, step = 0, 0
for epoch in range(30):
    seen = 0.0
    for x, y in loader:
        step += 1
        optimizer.zero_grad()
        out = model(x)
        loss = mse(out, y)
        DURING
        loss.backward()
        optimizer.step()
        seen += accuracy(out, y)
        AFTER
    EPOCH
    with open("checkpoint-%d" % MINE, "w") as file:
        file.write(str(step))
tell(model=flat(model), steps=[step])
"""
MINE = "__import__('os').getpid()"


def script(before: str = "", during: str = "", after: str = "", epoch: str = "") -> str:
    source = LOOP.replace("MINE", MINE)
    parts = {"BEFORE": (before, 0), "DURING": (during, 8), "AFTER": (after, 8), "EPOCH": (epoch, 4)}
    for word, (code, depth) in parts.items():
        source = source.replace(word, code.strip().replace("\n", "\n" + " " * depth) or "pass")
    return source


PLATEAU = "schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, 'max', 0.5, patience=0)"
STEP = "        for p in model.parameters(): p.grad.mul_(FACTOR)\n        optimizer.step()"
SOFT = "if x.mean() > 0.3:\n    "  # of one rank's slice, in some step or other
APART = {
    "a plateau schedule on training accuracy": (
        script(epoch="if not epoch:\n    " + PLATEAU + "\nschedule.step(seen)"),
        r"rate of Adam is [\d.]+ in rank 0 and [\d.]+ in rank 1 at step (\d+), equal until step (\d+)",
    ),
    "a learning rate by the gradient noise of a slice": (
        script(after="optimizer.param_groups[0]['lr'] = 0.02 / (1 + float(x.var()))"),
        r"the learning rate of Adam is .* at step (2), equal until step (1)",
    ),
    "momentum by a slice's loss": (
        script(after="optimizer.param_groups[0]['betas'] = (min(0.95, 0.9 + abs(float(x.mean()))), 0.99)"),
        "betas of Adam is",
    ),
    "a layer frozen by a slice's accuracy": (
        script(after=SOFT + "model[0].weight.requires_grad_(False)"),
        "have come apart at step \\d+: rank",
    ),
    "an eval flag by a slice": (
        script(after=SOFT + "model[1].eval()"),
        "the train/eval flag of 1 is",
    ),
    "weights clipped by a slice's size of inputs": (
        script(
            after="most = float(x.abs().mean())\nwith torch.no_grad(): model[0].weight.clamp_(-most, most)"
        ),
        "the parameter 0.weight differs between ranks 0 and 1|parameters",
    ),
    "a running buffer of a batch's mean": (
        script(
            before="model.register_buffer('mean', torch.zeros(6))",
            during="model.mean.mul_(0.9).add_(0.1 * x.mean(0))",
        ),
        "the buffer mean differs between ranks 0 and 1 at step 1",
    ),
    "a buffer that counts samples": (
        script(
            before="model.register_buffer('seen', torch.zeros((), dtype=torch.long))",
            during="model.seen += len(x[x[:, 0] > 0])",
        ),
        "the buffer seen differs",
    ),
    "the optimizer's state reset by a slice": (
        script(after=SOFT + "optimizer.state.clear()"),
        "optimizers' state|exp_avg|the parameter|have different",
    ),
    "momenta scaled by a slice": (
        script(after=SOFT + "[s['exp_avg'].mul_(0.5) for s in optimizer.state.values()]"),
        "exp_avg of 0.weight differs|the parameter",
    ),
    "gradients divided by the samples seen, unevenly": (
        script().replace(
            "        optimizer.step()",
            STEP.replace("FACTOR", "1 / (1 + len(x[x[:, 0] > -0.5]))"),
        ),
        "the parameter|exp_avg|state",
    ),
    "gradients clipped by a slice's norm": (
        script().replace(
            "        optimizer.step()",
            STEP.replace("FACTOR", "float(x.norm())"),
        ),
        "the parameter|exp_avg|state",
    ),
    "another optimizer for one rank": (
        script(after="if x.mean() > 0.3:\n    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)"),
        "have different settings of the optimizers",
    ),
    "a loss scale by a slice": (
        script(
            before="scaler = torch.amp.GradScaler('cpu', init_scale=8.0)",
            during="loss = scaler.scale(loss) / scaler.get_scale()",
            after="scaler.update(8.0 if x.mean() < 0.3 else 4.0)",
        ),
        "the scale of the loss is",
    ),
    "early stopping on training accuracy": (
        script(epoch="if epoch and seen <= best: break\nbest = seen"),
        r"ended after step \d+, where",
    ),
    "an epoch cut short by a slice's loss": (
        script(after="if accuracy(out, y) == 1.0 and step > 20: break"),
        "come apart|drew other batches",
    ),
}
ALWAYS = {"a plateau schedule on training accuracy", "early stopping on training accuracy"}


def checkpoints(folder: Path) -> int:
    """The step at which the last one of any rank was written."""
    return max((int(path.read_text()) for path in folder.glob("checkpoint-*")), default=0)


@pytest.mark.attack("truth")
@pytest.mark.parametrize("name", APART)
def test_what_a_slice_steers_stops_all_ranks_with_the_reason(tmp_path: Path, name: str) -> None:
    source, words = APART[name]
    done = train_forked(tmp_path, source, 2)
    assert [one.code for one in done] == [EXIT_CODE, EXIT_CODE], done
    said = done[0].stderr + done[1].stderr
    found = re.search(words, said)
    assert found, said
    assert "Traceback" not in said
    if found.groups():
        assert int(found[1]) == int(found[2]) + 1  # compared at every step
        assert checkpoints(tmp_path) < int(found[1])


EQUAL = {
    "ordinary": script(),
    "a plateau schedule on the loss": script(
        epoch="if not epoch:\n    " + PLATEAU + "\nschedule.step(loss.item())"
    ),
    "clipped": script().replace(
        "        optimizer.step()",
        "        nn.utils.clip_grad_norm_(model.parameters(), 0.1)\n        optimizer.step()",
    ),
    "early stopping on the loss": script(epoch="if epoch and loss.item() > best: break\nbest = loss.item()"),
    "a moving average of weights": script(
        before="mean = torch.optim.swa_utils.AveragedModel(model)", after="mean.update_parameters(model)"
    ),
    "a scale of its own": script(
        before="scaler = torch.amp.GradScaler('cpu', init_scale=8.0)",
        during="loss = scaler.scale(loss) / scaler.get_scale()",
        after="scaler.update(8.0 + step)",
    ),
}


@pytest.mark.attack("truth")
@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("name", cases(EQUAL, {"ordinary", "a moving average of weights"}))
def test_what_all_ranks_do_alike_goes_on_to_the_end(tmp_path: Path, name: str, size: int) -> None:
    alone = told(train_forked(tmp_path / "alone", EQUAL[name], 0)[0])
    done: list[Ended] = train_forked(tmp_path / "ranks", EQUAL[name], size)
    assert [one.code for one in done] == [0] * size, done
    for one in done:
        assert told(one)["steps"] == alone["steps"]
        assert apart(told(one)["model"], alone["model"]) < 1e-9


def test_what_is_compared_can_be_told_apart() -> None:
    """Of a fingerprint of numbers each one counts, also one in the last bit."""
    import torch

    from hasten.inside.distributed.watched import bits_of, fingerprint, number_of

    assert fingerprint([0.1, 2.0]) == fingerprint([0.1, 2.0])
    assert fingerprint([0.1, 2.0]) != fingerprint([0.1, 2.0000000000000004])
    plain = torch.randn(7, dtype=torch.float32)
    for place in range(7):
        for change in (lambda x: torch.nextafter(x, torch.tensor(9.0)), torch.neg):
            other = plain.clone()
            other[place] = change(other[place])
            assert number_of(int(bits_of(plain))) != number_of(int(bits_of(other)))
    held = torch.arange(9.0)  # what lies elsewhere in memory, and in another order there, is the same
    assert int(bits_of(held[1:8])) == int(bits_of(held[1:8].clone()))
    grid = torch.randn(2, 4, 3, 3)
    assert int(bits_of(grid)) == int(bits_of(grid.to(memory_format=torch.channels_last)))
    for dtype in (torch.bfloat16, torch.bool, torch.int64, torch.complex64, torch.float64):
        assert int(bits_of(torch.ones(3, dtype=dtype))) == int(bits_of(torch.ones(3, dtype=dtype)))
