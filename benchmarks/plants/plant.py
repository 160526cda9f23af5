"""A plant: a few lines put in the place of others, as people write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "planted"

Changes = Sequence[tuple[str, str]]
"""Of lines in a training, each with what stands there instead."""


@dataclass(frozen=True)
class Plant:
    """``script``: the training it is put into; ``causes``: those that are right.

    ``planted``: the changes that plant it; ``without``: those of the script that it is compared with, where
    that is not the training as it stands; ``both``: those of both, such as sizes.
    """

    name: str
    script: str
    causes: tuple[str, ...]
    planted: Changes
    without: Changes = ()
    both: Changes = ()

    def script_with_it(self) -> str:
        return changed(self.script, (*self.both, *self.planted))

    def script_without(self) -> str:
        return changed(self.script, (*self.both, *self.without))


def changed(script: str, changes: Changes) -> str:
    """The training's text. Raises ValueError where a change finds no place, or several."""
    text = (FOLDER / f"{script}.py").read_text()
    for old, new in changes:
        if text.count(old) != 1:
            raise ValueError(f"{script}.py has {text.count(old)} times: {old}")
        text = text.replace(old, new)
    return text


def wider(width: int) -> Changes:
    """Layers of the pictures' model."""
    return (
        ("nn.Linear(784, 256)", f"nn.Linear(784, {width})"),
        ("nn.Linear(256, 256)", f"nn.Linear({width}, {width})"),
        ("nn.Linear(256, 10)", f"nn.Linear({width}, 10)"),
    )


# ---- places in the trainings
ITEM = "        picture = self.pictures[index]\n"
LOADER = "batch_size=32, shuffle=True)"
BATCH = "        for pictures, labels in train_loader:\n"
LOSS = "            loss = loss_function(model(pictures), labels)\n"
STEP = "            optimizer.step()\n"
TOTAL = "            total += loss.detach()\n"
OPTIMIZER = "    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)\n"
SEED = "    torch.manual_seed(0)\n"
PRINT = '        print(f"epoch {epoch}: loss {total / len(train_loader):.4f}, accuracy {accuracy:.3f}")\n'
IMPORTS = "import torch\nfrom torch import nn\n"
MADE = "        self.pictures[torch.arange(n), 0, :, 2 * self.labels] += 0.5\n"
TRAINED_ON = "Pictures(1280, 1)"
TESTED_ON = "Pictures(64, 2), batch_size=64)"
LAST = "        nn.Linear(256, 10),\n"
