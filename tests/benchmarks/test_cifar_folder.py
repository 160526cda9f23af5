"""The images of the package become files, each in the folder of its class."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks.workloads import cifar_folder
from PIL import Image


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two images a file, of one value each: ten to train on, two to test on."""
    made = tmp_path / "package"
    made.mkdir()
    for number in range(5):
        save(made / f"data_batch_{number + 1}.png", [2 * number, 2 * number + 1])
    save(made / "test_batch.png", [100, 101])
    (made / "train_lables.json").write_text(json.dumps(list(range(10))))
    (made / "test_lables.json").write_text(json.dumps([3, 3]))
    monkeypatch.setattr(sys, "argv", ["cifar_folder", str(made), str(tmp_path / "folder")])
    return made


def save(path: Path, values: list[int]) -> None:
    rows = np.repeat(np.array(values, dtype=np.uint8), 32 * 32 * 3).reshape(len(values), 32 * 32, 3)
    Image.fromarray(rows).save(path)


def test_each_image_is_in_the_folder_of_its_class(package: Path) -> None:
    cifar_folder.main()
    folder = package.parent / "folder"
    for number, name in enumerate(cifar_folder.CLASSES):
        (path,) = (folder / "train" / name).iterdir()
        with Image.open(path) as image:
            assert (image.size, image.mode) == ((32, 32), "RGB")
            assert np.unique(np.asarray(image)).tolist() == [number]
    assert sorted(path.name for path in (folder / "test" / "cat").iterdir()) == ["00000.png", "00001.png"]


def test_labels_that_are_too_few_are_an_error(package: Path) -> None:
    (package / "test_lables.json").write_text("[3]")
    with pytest.raises(SystemExit, match="2 test images have 1 labels"):
        cifar_folder.main()
