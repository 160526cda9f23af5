"""Does the noise of a perturbed baseline foretell what bfloat16 does to a gradient?

python -m benchmarks.rounding

Trains small models a few steps and compares gradients, from one state and one batch, with the plain one:
under bfloat16 autocast, under the guard's noise at every layer, and under noise at the model's output and the
gradients alone. Of |c - r| / |r| the largest of ``CHECKED`` steps is kept.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, relu, scaled_dot_product_attention

from hasten.bench.guard.single_steps import ROUNDING
from hasten.inside.guarding.perturber import Perturber
from hasten.inside.seams import Seams
from hasten.inside.structures import map_tensors
from hasten.inside.training import Training

from .results import write_result

CHECKED = (1, 2, 20, 40)
SEEDS = 5
SIZE = ROUNDING["bfloat16"]


class ResNet(nn.Module):
    """Eight blocks, each of two convolutions with batch normalisation, of 16 channels."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.blocks = nn.ModuleList(
            [nn.Sequential(*_normalised(16, 16), nn.ReLU(), *_normalised(16, 16)) for _ in range(8)]
        )
        self.head = nn.Linear(16, 4)

    def forward(self, pictures: Tensor) -> Tensor:
        x = self.stem(pictures)
        for block in self.blocks:
            x = relu(x + block(x))
        out: Tensor = self.head(x.mean((2, 3)))
        return out


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mixed, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        query, key, value = self.mixed(x).view(batch, length, 3, 4, 8).permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(query, key, value, is_causal=True)
        out: Tensor = self.out(mixed.transpose(1, 2).reshape(x.shape))
        return out


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(32), Attention())
        self.rest = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 32))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(x)
        out: Tensor = x + self.rest(x)
        return out


class Gpt(nn.Module):
    """Four blocks of 32 channels; tells the class of a text from its last place."""

    def __init__(self) -> None:
        super().__init__()
        blocks = [Block() for _ in range(4)]
        self.body = nn.Sequential(nn.Embedding(16, 32), *blocks, nn.LayerNorm(32))
        self.head = nn.Linear(32, 4)

    def forward(self, text: Tensor) -> Tensor:
        out: Tensor = self.head(self.body(text)[:, -1])
        return out


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(4, 24, batch_first=True), nn.Linear(24, 4)

    def forward(self, sequences: Tensor) -> Tensor:
        out: Tensor = self.head(self.lstm(sequences)[0][:, -1])
        return out


def _normalised(channels_in: int, channels_out: int) -> list[nn.Module]:
    return [
        nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False),
        nn.BatchNorm2d(channels_out),
    ]


def _cnn() -> nn.Module:
    first, second = _normalised(3, 8), _normalised(8, 16)
    halved = nn.MaxPool2d(2)
    return nn.Sequential(
        *first, nn.ReLU(), halved, *second, nn.ReLU(), halved, nn.Flatten(), nn.Linear(16 * 16, 4)
    )


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {  # and a batch's shape
    "MLP, 3 layers": (_mlp, (32, 32)),
    "CNN, 2 convolutions, batch normalisation": (_cnn, (20, 3, 16, 16)),
    "ResNet, 8 blocks": (ResNet, (20, 3, 16, 16)),
    "GPT, 4 blocks": (Gpt, (16, 32)),
    "LSTM": (Lstm, (25, 10, 4)),
}


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    for name in MODELS:
        for seed in range(SEEDS):
            row = {"model": name, "seed": seed, **departures(name, seed)}
            rows.append(row)
            print(row, flush=True)
    write_result("rounding", {"rows": rows})


def departures(name: str, seed: int) -> dict[str, float]:
    """|c - r| / |r| under each of the three, the largest of the checked steps."""
    make, shape = MODELS[name]
    torch.manual_seed(seed)
    model = make()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    largest = {"bfloat16": 0.0, "every layer": 0.0, "output alone": 0.0}
    for step in range(1, CHECKED[-1] + 1):
        batch = torch.randint(16, shape) if name.startswith("GPT") else torch.randn(shape)
        score = batch.float().flatten(1).sum(1)
        labels = (score > score.median()).long()
        kept = copy.deepcopy(model.state_dict())
        if step in CHECKED:
            plain = gradient(model, batch, labels, "")
            for how in largest:
                model.load_state_dict(kept)
                apart = gradient(model, batch, labels, how) - plain
                largest[how] = max(largest[how], float(apart.norm() / plain.norm()))
            model.load_state_dict(kept)
        optimizer.zero_grad()
        loss: Any = cross_entropy(model(batch), labels)
        loss.backward()
        optimizer.step()
    return largest


def gradient(model: nn.Module, batch: Tensor, labels: Tensor, how: str) -> Tensor:
    """Of all parameters, one after another, as an optimizer would read it."""
    model.zero_grad()
    seams = Seams()
    training = Training(torch, seams, available_bytes=0)
    perturber = Perturber(training, SIZE, redraw=False, seed=0)
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=how == "bfloat16"):
            if how == "every layer":
                out: Any = training.forward(model, model, (batch,), {})
            else:
                out = model(batch).float()
        if how == "output alone":
            out = map_tensors(torch, out, perturber._rounded)
        loss: Any = cross_entropy(out, labels)
        loss.backward()
        if how in ("every layer", "output alone"):
            torch.optim.SGD(model.parameters(), lr=0.0).step()
        return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    finally:
        seams.undo_all()


if __name__ == "__main__":
    main()
