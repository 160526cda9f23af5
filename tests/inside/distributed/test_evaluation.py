"""Evaluation shared among ranks gives what one process gives; what cannot be shared is not."""

from __future__ import annotations

from pathlib import Path

from hasten.records.ranks import Findings

from .forked import train_well
from .test_this_rank import BATCHES
from .trainings import LOADER, apart, told

FINDINGS = Findings(LOADER, least=2)

SOURCE = (
    BATCHES
    + """
rows = []


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)

    def forward(self, x, scale=None):
        if not self.training:
            rows.append(len(x))
        out = self.last(torch.tanh(self.norm(self.first(x))))
        FORM


model = Counting()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
held = data(41, seed=11).tensors[0]
results = []
for step, x, y in batches(12):
    model.train()
    optimizer.zero_grad()
    TRAINED(model(x)).square().mean().backward()
    optimizer.step()
    if step % 4 == 0:
        model.eval()
        with torch.no_grad():
            for start in (0, 16, 32, 39):
                results += TRAINED(model(held[start : start + 16])).sum(0).tolist()
tell(model=flat(model), results=results, rows=[float(n) for n in rows])
"""
)


def of_form(form: str, trained: str = "") -> str:
    return SOURCE.replace("FORM", form).replace("TRAINED", trained)


def test_outputs_are_shared_and_the_same(tmp_path: Path) -> None:
    source = of_form("return {'logits': out, 'features': [out + 1]}", "(lambda found: found['logits'])")
    alone = told(train_well(tmp_path / "alone", source, 0)[0])
    done = [told(one) for one in train_well(tmp_path / "ranks", source, 2, sync_batch_norm=True)]
    for one in done:
        assert apart(one["results"], alone["results"]) < 1e-9
    # the first batch is proven, computed whole and by halves, and so is the one after four that were shared;
    # 9 rows are shared, 2 are not
    assert done[0]["rows"] == [16, 8, 8, 4, 2, 8, 8, 9, 4, 2, 8, 8, 4, 2]
    assert done[1]["rows"] == [16, 8, 8, 5, 2, 8, 8, 9, 5, 2, 8, 8, 5, 2]


def test_running_statistics_of_slices_are_brought_together(tmp_path: Path) -> None:
    done = [told(one) for one in train_well(tmp_path, of_form("return out"), 2, FINDINGS)]
    assert done[0]["results"] == done[1]["results"]
    assert done[0]["rows"][2] == 8


def test_outputs_that_depend_on_the_whole_batch_are_computed_by_all(tmp_path: Path) -> None:
    source = of_form("return out if self.training else out - out.mean(0)")
    done = [told(one) for one in train_well(tmp_path, source, 2, FINDINGS)]
    assert done[0]["rows"] == [16, 8, 16, 9, 2] + [16, 16, 9, 2] * 2


def test_outputs_without_a_row_for_each_sample_are_computed_by_all(tmp_path: Path) -> None:
    source = of_form("return out if self.training else out.mean(0, keepdim=True)")
    done = [told(one) for one in train_well(tmp_path, source, 2, FINDINGS)]
    assert done[0]["rows"] == [16, 16, 9, 2] * 3
