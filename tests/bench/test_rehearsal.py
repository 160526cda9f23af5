"""Which scripts several ranks can train, found by rehearsing their first step."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from hasten.bench.rehearsal import rehearse
from hasten.bench.workers.ending import PlanRefused
from hasten.errors import WorkerError
from hasten.launch.ranks_of_plan import Wish
from hasten.records.plan import Plan
from hasten.records.ranks import Findings, LoaderKey

from ..inside.distributed.forked import workers_forked
from ..thorough import cases
from .real_workers import trials_for

GROUND = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset
    torch.set_num_threads(1)
    torch.manual_seed(0)
    F = nn.functional
    x = torch.randn(90, 6)
    labels = torch.randint(0, 3, (90,))
    loader = DataLoader(TensorDataset(x, labels), batch_size=9, shuffle=True)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
LOOP = """
    for x, y in loader:
        optimizer.zero_grad()
        loss = LOSS
        loss.backward()
        optimizer.step()
"""


def found(folder: Path, source: str, backend: str = "") -> Findings:
    with workers_forked(), trials_for(folder, source) as trials:
        return rehearse(trials, Wish(2, backend))


def loop(loss: str) -> str:
    return LOOP.replace("LOSS", loss)


FIT = {
    "a mean": (loop("F.cross_entropy(model(x), y)"), "mean", []),
    "a sum": (loop("F.cross_entropy(model(x), y, reduction='sum')"), "sum", []),
    "noise": (
        loop("(F.cross_entropy(model(x + torch.randn_like(x)), y) + model(torch.randn(len(x), 6)).mean())"),
        "mean",
        ["random numbers in a training step differ from those that one process would draw"],
    ),
    "a look at a batch of another loader": (
        """
    other = DataLoader(TensorDataset(torch.randn(40, 6), torch.zeros(40)), batch_size=8)
    for a, b in other:
        print(a.shape)
        break
"""
        + loop("F.cross_entropy(model(x), y)"),
        "mean",
        [],
    ),
    "an evaluation before, with gradients": (
        """
    other = DataLoader(TensorDataset(torch.randn(40, 6), torch.zeros(40).long()), batch_size=8)
    def evaluate():
        model.eval()
        print(sum(F.cross_entropy(model(a), b).item() * len(a) for a, b in other))
        model.train()
    evaluate()
    evaluate()
"""
        + loop("F.cross_entropy(model(x), y)")
        + "    evaluate()\n",
        "mean",
        [],
    ),
    "trained in eval mode": ("    model.eval()\n" + loop("F.cross_entropy(model(x), y)"), "mean", []),
    "dropout and batch norm": (
        """
    model.insert(1, nn.BatchNorm1d(16))
    model.insert(3, nn.Dropout(0.5))
"""
        + loop("F.cross_entropy(model(x), y)"),
        "mean",
        [
            "batch norm takes its statistics from a rank's slice, not from the whole batch (sync_batch_norm "
            "takes them from the whole batch)",
            "dropout draws different numbers than one process would",
        ],
    ),
    "float64, accumulated": (
        """
    model.double()
    for step, (x, y) in enumerate(loader):
        (F.cross_entropy(model(x.double()), y) / 2).backward()
        if step % 2:
            optimizer.step()
            optimizer.zero_grad()
""",
        "mean",
        [],
    ),
    "forward called directly": (
        loop("F.cross_entropy(model.forward(x), y)"),
        "mean",
        [],
    ),
    "lazy layers that are tried one by one": (
        """
    for net in range(2):
        model = nn.Sequential(nn.LazyLinear(16), nn.ReLU(), nn.LazyLinear(3))
        found = x[:1]
        for layer in model:
            found = layer(found)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
        + loop("F.cross_entropy(model(x), y)"),
        "mean",
        [],
    ),
    "workers that augment": (
        """
    class Noisy(TensorDataset):
        def __getitem__(self, index):
            x, y = super().__getitem__(index)
            return x + torch.randn(6), y

    loader = DataLoader(Noisy(x, labels), batch_size=9, shuffle=True, num_workers=1)
"""
        + loop("F.cross_entropy(model(x), y)"),
        "mean",
        ["augmentation draws different numbers than one process would"],
    ),
}


@pytest.mark.parametrize(
    "name",
    cases(
        FIT,
        {
            *("a mean", "noise", "a look at a batch of another loader", "dropout and batch norm"),
            "lazy layers that are tried one by one",
        },
    ),
)
def test_what_fits_is_let_through(tmp_path: Path, name: str) -> None:
    source, loss, remarks = FIT[name]
    findings = found(tmp_path, GROUND + source)
    assert findings.refusals == ()
    assert findings.loss == loss
    assert list(findings.remarks) == remarks
    assert findings.loader is not None
    assert findings.in_eval == (name == "trained in eval mode")
    dataset = "Noisy" if "Noisy" in source else "TensorDataset"
    assert findings.loader == LoaderKey(dataset, 90, 9, "RandomSampler")


def test_what_counts_samples_of_a_batch_as_it_goes_is_let_through_and_told(tmp_path: Path) -> None:
    source = (
        GROUND
        + """
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(f"loss: {loss.item():>7f}  [{(step + 1) * len(x):>5d}/{len(loader.dataset):>5d}]")
"""
    )
    findings = found(tmp_path, source)
    assert findings.refusals == ()
    (remark,) = findings.remarks
    assert re.fullmatch(
        r"it prints 'loss: .*\[    4/   90\]' where one process prints 'loss: .*\[    9/   90\]': "
        r"samples of rank 0's part of each batch are counted",
        remark,
    ), remark


def test_what_gloo_prints_is_not_the_scripts(tmp_path: Path) -> None:
    """torch 2.9 prints a line wherever ranks connect by it."""
    source = LOOP.replace("LOSS", "F.cross_entropy(model(x), y)") + '        print("a step", flush=True)\n'
    assert found(tmp_path, GROUND + source, "gloo").refusals == ()


def test_what_ranks_would_print_otherwise_is_refused(tmp_path: Path) -> None:
    source = (
        GROUND
        + """
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.4f}", f"in {step}.5 s")
        if step == 3:
            print("summed", loss.item() * len(x))
"""
    )
    (reason,) = found(tmp_path, source).refusals
    told = re.fullmatch(
        r"ranks print 'summed (\S+)' where one process prints 'summed (\S+)': what the script .*", reason
    )
    assert told is not None, reason
    assert 1.5 < float(told[2]) / float(told[1]) < 2.5


REFUSED = {
    "ignore_index": (
        loop("F.cross_entropy(model(x), torch.where(x[:, 0] > 0.5, -100, y))"),
        r"would have to weigh .* and .*, where they hold 0\.\d+ and 0\.\d+ of the samples: the loss divides "
        r"by something other than the number of samples \(ignore_index",
    ),
    "class weights": (
        loop("F.cross_entropy(model(x), y, weight=torch.tensor([0.1, 1.0, 5.0]))"),
        "the loss divides by something other than the number of samples",
    ),
    "a contrastive loss": (
        loop("F.cross_entropy(F.normalize(model(x)) @ F.normalize(model(x + 0.1)).T, torch.arange(len(x)))"),
        "the loss of a sample depends on the others of its batch",
    ),
    "batches by hand": (
        """
    for step in range(20):
        i = torch.randint(0, 90, (9,))
        optimizer.zero_grad()
        F.cross_entropy(model(x[i]), labels[i]).backward()
        optimizer.step()
""",
        "its training batches come from no DataLoader that takes samples by their indices",
    ),
    "a stream": (
        """
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter([(x[i], labels[i]) for i in range(90)])

    loader = DataLoader(Stream(), batch_size=9)
"""
        + loop("F.cross_entropy(model(x), y)"),
        "its training batches come from no DataLoader that takes samples by their indices",
    ),
    "gradients by autograd.grad": (
        """
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        for p, g in zip(model.parameters(), torch.autograd.grad(loss, list(model.parameters()))):
            p.grad = g
        optimizer.step()
""",
        "its gradients do not come from backward",
    ),
    "batches too small": (
        "    loader = DataLoader(TensorDataset(x, labels), batch_size=1)\n"
        + loop("F.cross_entropy(model(x), y)"),
        "its batches hold 1 samples, too few for 2 ranks",
    ),
    "a size written down": (
        loop("F.cross_entropy(model(x.view(9, 6)), y)"),
        "it fails where its batches are smaller: RuntimeError",
    ),
    "other batches each time": (
        "    import time\n    torch.manual_seed(time.time_ns())\n" + loop("F.cross_entropy(model(x), y)"),
        "it draws different batches each time it runs",
    ),
    "sparse gradients": (
        """
    model = nn.Sequential(nn.Embedding(50, 4, sparse=True), nn.Flatten(), nn.Linear(24, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
        + loop("F.cross_entropy(model((x.abs() * 9).long().clamp(max=49)), y)"),
        "a gradient is torch.sparse_coo: only dense ones can be averaged",
    ),
    "two loaders": (
        """
    second = DataLoader(TensorDataset(x.clone()), batch_size=9)
    for (x, y), (z,) in zip(loader, second):
        optimizer.zero_grad()
        (F.cross_entropy(model(x), y) + model(z).square().mean()).backward()
        optimizer.step()
""",
        "several loaders",
    ),
    "torch's generator itself": (
        loop("F.cross_entropy(model(x), y)") + "    kept = torch.default_generator.get_state()\n",
        r"train.py:\d+: kept = .* uses torch's generator itself, which in a rank draws for its part",
    ),
    "a time limit after a long epoch": (
        "    import time\n    began, rows = time.time(), torch.randint(0, 90, (90000,)).tolist()\n"
        "    loader = DataLoader(TensorDataset(x, labels), batch_size=9, sampler=rows)\n"
        "    for _ in range(3):\n"
        + textwrap.indent(loop("F.cross_entropy(model(x), y)"), "    ")
        + "        if time.time() - began > 9e5: break\n",
        "^it goes by the clock, .* it ends after step 3. Let it go by steps or epochs",
    ),
    "a time limit": (
        "    import time\n    began = time.time()\n"
        + loop("F.cross_entropy(model(x), y)")
        + "        if time.time() - began > 9e5: break\n",
        "^it goes by the clock, .* if time passes faster, it ends after step 1. Let it go by steps",
    ),
}


@pytest.mark.parametrize(
    "name",
    cases(
        REFUSED,
        {
            "ignore_index",
            "class weights",
            "a contrastive loss",
            "batches by hand",
            "a time limit after a long epoch",
        },
    ),
)
def test_what_does_not_fit_is_refused_with_the_reason(tmp_path: Path, name: str) -> None:
    source, words = REFUSED[name]
    findings = found(tmp_path, GROUND + source)
    assert len(findings.refusals) == 1, findings
    assert re.search(words, findings.refusals[0]), findings.refusals


@pytest.mark.thorough
@pytest.mark.attack("truth")
def test_the_time_of_long_epochs_may_be_printed(tmp_path: Path) -> None:
    limited, _ = REFUSED["a time limit after a long epoch"]
    printed = limited.replace("if time.time() - began > 9e5: break", "print(time.time() - began, 's')")
    assert printed != limited
    assert found(tmp_path, GROUND + printed).refusals == ()


LONG = """
    BEFORE
    rows = torch.randint(0, 90, (90000,)).tolist()
    loader = DataLoader(TensorDataset(x, labels), batch_size=9, sampler=rows)
    for epoch in range(9):
        summed = 0.0
        for step, (x, y) in enumerate(loader):
            loss = F.cross_entropy(model(x), y)
            (loss / 4).backward()
            if step % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()
            summed += loss.item() * len(x)
        END
"""
AFTER_LONG_EPOCHS = {
    "print(f'epoch {epoch}: {summed / len(rows):.6f}')": "ranks print 'epoch 0: ",
    "plateau.step(summed)": "after step 1 a schedule is given",
    "if epoch and summed / step > 9: break": "after step . ranks go on, where one process ends",
    "print(f'epoch {epoch}: {loss.item():.6f}')": "",
}


@pytest.mark.attack("truth")
@pytest.mark.parametrize("end", cases(AFTER_LONG_EPOCHS, {"plateau.step(summed)"}))
def test_what_comes_of_epochs_is_compared_though_none_ends(
    tmp_path: Path, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hasten.bench.both_sides._SECONDS", 0.2)
    before = "plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)"
    source = LONG.replace("BEFORE", before).replace("END", end)
    refusals = found(tmp_path, GROUND + source).refusals
    assert bool(refusals) == bool(AFTER_LONG_EPOCHS[end]), refusals
    words = f"^in epochs of a few batches, {AFTER_LONG_EPOCHS[end]}"
    assert all(re.search(words, one) for one in refusals), refusals


@pytest.mark.thorough
@pytest.mark.attack("truth")
def test_epochs_that_end_soon_after_400_steps_are_waited_for(tmp_path: Path) -> None:
    source = LONG.replace("BEFORE", "x, labels = x.repeat(41, 1), labels.repeat(41)")
    source = source.replace(", sampler=rows", "").replace("step % 4 == 3", "True")
    (reason,) = found(tmp_path, GROUND + source.replace("END", "print('epoch', epoch, summed)")).refusals
    assert reason.startswith("ranks print 'epoch 0 "), reason


@pytest.mark.attack("messages")
def test_a_rank_that_is_killed_is_named(tmp_path: Path) -> None:
    kill = "import os, signal\nx.shape[0] == 4 and os.kill(os.getpid(), signal.SIGKILL)"
    killed = loop("F.cross_entropy(model(x), y)").replace(
        "        optimizer.zero_grad()", textwrap.indent(kill, " " * 8) + "\n        optimizer.zero_grad()"
    )
    with pytest.raises(WorkerError, match=r"^rank [01] was killed by SIGKILL .*during the rehearsal$"):
        found(tmp_path, GROUND + killed)


@pytest.mark.attack("messages")
def test_an_interruption_says_of_what(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with trials_for(tmp_path, "") as trials:
        monkeypatch.setattr(trials, "ranks", interrupted)
        with pytest.raises(KeyboardInterrupt, match=r"^the rehearsal was interrupted$"):
            rehearse(trials, Wish(2))


def test_a_script_that_fails_in_a_rehearsal_speaks_against_ranks_and_ends_no_tune(tmp_path: Path) -> None:
    """A tune that had found a plan already was over when something of ours failed in one."""
    failing = "    raise ValueError('too few\\nwrong shape')\n"
    refusal = "processes: the script fails where it is rehearsed: wrong shape"
    with (
        workers_forked(),
        trials_for(tmp_path, GROUND + failing) as trials,
        pytest.raises(PlanRefused, match=refusal),
    ):
        trials.rehearse(Plan({"processes": {"count": 2}}))
