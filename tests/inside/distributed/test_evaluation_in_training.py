"""Models that are asked under no_grad while they train: each rank asks of its own rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasten.records.ranks import Findings, LoaderKey

from ...thorough import cases, in_turn
from .forked import train_well
from .trainings import apart, told

FINDINGS = Findings(LoaderKey("TensorDataset", 50, 32, "RandomSampler"))

SOURCE = """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
held = data(48, seed=11).tensors[0]


@torch.no_grad()
def ask(rows):
    model.eval()
    out = model(rows)
    model.train()
    return out


results = []
for step in range(25):
    for x, y in DataLoader(data(), batch_size=32, shuffle=True):
        if step % 4 == 0:
            results += ask(held).flatten().tolist()  # equal rows: these are shared
        TARGET
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), target).backward()
        optimizer.step()
        AFTER
tell(model=flat(model), results=results)
"""

TARGETS = {
    "a teacher": ("target = 0.5 * y + 0.5 * ask(x)", ""),
    "its own noise": ("target = y + 0.3 * ask(torch.sin(37 * x))", ""),
    "pseudo-labels": ("target = torch.where(y.abs() > 1, y, ask(x).sign())", ""),
    "a part of the rows": ("target = torch.where(y > 0, y, 0); k = y[:, 0] > 0; target[k] += ask(x[k])", ""),
    "rows of a slice after the step": ("target = y", "results += [ask(x).abs().max().item() * 0]"),
}


@pytest.mark.attack("truth")
@pytest.mark.parametrize("name", cases(TARGETS, {"a teacher", "rows of a slice after the step"}))
def test_what_ranks_ask_of_different_rows_is_answered_each(tmp_path: Path, name: str) -> None:
    target, after = TARGETS[name]
    source = SOURCE.replace("TARGET", target).replace("AFTER", after)
    alone = told(train_well(tmp_path / "alone", source, 0)[0])
    for size in (2, 3):
        done = [told(one) for one in train_well(tmp_path / str(size), source, size, FINDINGS)]
        for one in done:
            assert apart(one["model"], alone["model"]) < 1e-9
            assert apart(one["results"], alone["results"]) < 1e-9


RECORDED = """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
held = DataLoader(data(50, seed=11), batch_size=8, sampler=torch.utils.data.SubsetRandomSampler(range(20)))
loader = DataLoader(data(), batch_size=8, shuffle=True)
results, sizes = [], []
for epoch in range(3):
    NEW
    BEFORE
    for x, y in loader:
        WITHIN
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x * 1.0), y, reduction=KIND).backward()
        optimizer.step()
        sizes.append(len(x))
    model.eval()
    for x, y in held:
        results.append(nn.functional.mse_loss(model(x), y).item() * len(x))
tell(model=flat(model), results=results, sizes=sizes)
"""
ANEW = "loader = DataLoader(data(), batch_size=8, shuffle=True)"


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("form", "kind"),
    in_turn(
        [
            ("pass", "model.train()", "pass", True),
            ("pass", "pass", "model.train()", True),  # as Hugging Face's Trainer
            (ANEW, "model.train()", "pass", True),
            (ANEW, "pass", "model.train()", False),
        ],
        ["mean", "sum"],
    ),
)
def test_an_evaluation_in_eval_mode_is_whole_though_gradients_are_on(
    tmp_path: Path, form: tuple[str, str, str, bool], kind: str
) -> None:
    """Its loader is of the same content as the training's. ``form``: as in RECORDED, and whether slices are
    trained.
    """
    new, before, within, sliced = form
    source = RECORDED.replace("NEW", new).replace("BEFORE", before).replace("WITHIN", within)
    source = source.replace("KIND", f"{kind!r}").replace("lr=0.1", "lr=0.01")
    alone = told(train_well(tmp_path / "alone", source, 0)[0])
    findings = Findings(LoaderKey("TensorDataset", 50, 8, "RandomSampler"), loss=kind)
    for one in map(told, train_well(tmp_path / "ranks", source, 2, findings)):
        assert apart(one["model"], alone["model"]) < 1e-9
        assert apart(one["results"], alone["results"]) < 1e-9
        assert (max(one["sizes"][7:]) == 4) == sliced


@pytest.mark.attack("truth")
def test_what_is_trained_in_eval_mode_is_sliced(tmp_path: Path) -> None:
    source = RECORDED.replace("NEW", ANEW).replace("BEFORE", "model.eval()").replace("WITHIN", "pass")
    source = source.replace("KIND", "'mean'")
    findings = Findings(LoaderKey("TensorDataset", 50, 8, "RandomSampler"), in_eval=True)
    alone = told(train_well(tmp_path / "alone", source, 0)[0])
    for one in map(told, train_well(tmp_path / "ranks", source, 2, findings)):
        assert apart(one["model"], alone["model"]) < 1e-9
        assert max(one["sizes"]) == 4
