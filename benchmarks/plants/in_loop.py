"""What the training loop does itself, beside what a step needs."""

from __future__ import annotations

from .plant import BATCH, OPTIMIZER, STEP, TOTAL, Plant

_AUGMENT = """\
            for i in range(len(pictures)):
                if torch.rand(()) < 0.5:
                    pictures[i] = pictures[i].flip(-1)
                shift = int(torch.randint(-3, 4, ()))
                pictures[i] = pictures[i].roll(shift, -1) + 0.01 * torch.randn(1, 28, 28)
"""
_CLIP = """\
            for parameter in model.parameters():
                for row in parameter.grad:
                    norm = row.norm()
                    if norm > 1:
                        row.mul_(1 / norm)
"""
_CONFUSION = """\
            with torch.no_grad():
                guessed = model(pictures).argmax(dim=1)
            for i in range(10):
                for j in range(10):
                    confusion[i, j] += ((guessed == i) & (labels == j)).sum()
"""
_BRIGHTEST = """\
            shades = pictures[:4].flatten()
            brightest = max(shade.item() for shade in shades)
"""
_AVERAGE = """\
            for average, parameter in zip(averages, model.parameters(), strict=True):
                for mean, row in zip(average, parameter, strict=True):
                    mean.copy_(0.999 * mean + 0.001 * row.detach())
"""
_AVERAGES = "    averages = [parameter.detach().clone() for parameter in model.parameters()]\n"

PLANTS = (
    Plant("augmentation", "pictures", ("loop",), ((BATCH, BATCH + _AUGMENT),)),
    Plant("clipping_by_hand", "pictures", ("loop",), ((STEP, _CLIP + STEP),)),
    Plant(
        "metric_every_step",
        "pictures",
        ("loop",),
        (
            (OPTIMIZER, f"{OPTIMIZER}    confusion = torch.zeros(10, 10)\n"),
            (TOTAL, TOTAL + _CONFUSION),
        ),
    ),
    Plant("item_by_item", "pictures", ("waiting", "loop"), ((TOTAL, TOTAL + _BRIGHTEST),)),
    Plant(
        "sleeps",
        "pictures",
        ("loop",),
        (
            ("import argparse\n", "import argparse\nimport time\n"),
            (TOTAL, f"{TOTAL}            time.sleep(0.01)  # lets others have the machine\n"),
        ),
    ),
    Plant(
        "batches_by_hand",
        "series",
        ("loop",),
        (
            (
                "            batch = series[chosen]\n",
                "            batch = torch.tensor([series[i].tolist() for i in chosen])\n",
            ),
        ),
    ),
    Plant(
        "average_of_weights",
        "pictures",
        ("loop",),
        ((OPTIMIZER, OPTIMIZER + _AVERAGES), (TOTAL, TOTAL + _AVERAGE)),
    ),
)
