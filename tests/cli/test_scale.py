"""``hasten scale``: steps are measured here, the rest is predicted."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from hasten.bench import step_costs
from hasten.cli.main import main
from hasten.cli.scale import link_of
from hasten.cli.values import amount
from hasten.records.scaling import Link

from ..quickly import quickly
from ..thorough import cases

TRAINING = quickly("""
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = TensorDataset(torch.randn(4096, 8), torch.zeros(4096, dtype=torch.long))
for inputs, labels in DataLoader(data, batch_size=32, shuffle={shuffle}):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs), labels).backward()
    optimizer.step()
""")


@pytest.mark.parametrize("shuffle", cases([True, False], [True]))
def test_a_training_is_measured_and_scaled(
    shuffle: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches that come in order are not cut: a script may rely on them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(step_costs, "DIVISORS", (1, 4))
    Path("train.py").write_text(TRAINING.format(shuffle=shuffle))
    assert main(["scale", "--to", "8", "--json", "scale.json", "train.py"]) == 0
    found = json.loads(Path("scale.json").read_text())
    sizes = [samples for samples, _ in found["workload"]["step"]["measured"]]
    assert sizes == ([8, 32] if shuffle else [32])
    assert found["workload"]["gradient_bytes"] == 4 * (8 * 2 + 2)
    assert found["workload"]["epoch_samples"] == 4096
    assert [row["workers"] for row in found["same"]] == [1, 2, 4, 8]


def test_a_link_is_read() -> None:
    assert link_of("10Gbit/s,50us") == Link(50e-6, 1.25e9)
    assert link_of(" 100 Mbit/s , 2 ms ") == Link(2e-3, 12.5e6)


@pytest.mark.parametrize("text", ["", "10Gbit/s", "10,50", "0Gbit/s,1us", "1..0Gbit/s,1us", "10GB/s,50us"])
def test_what_is_no_link_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"such as 10Gbit/s,50us"):
        link_of(text)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "much"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="above zero"):
        amount(text)
