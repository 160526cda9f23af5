"""The shipped data-bound example trains, repeats itself under one seed, and knows nothing of us."""

from __future__ import annotations

import os
import random
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from hasten import examples
from ..patience import PATIENCE_SECONDS

SCRIPT = examples.path("augmented_resnet")
REPOSITORY = Path(__file__).resolve().parents[2]

RANDOM_TRANSFORMS: dict[str, tuple[float, ...]] = {
    "RandomCrop": (28, 2),
    "RandomHorizontalFlip": (),
    "RandomRotation": (10,),
    "ColorJitter": (0.2, 0.2),
    "ElasticTransform": (1.5, 4),
}


def train(script: Path, folder: Path) -> str:
    """What one epoch under seed 0, started from ``folder``, prints. A warning is an error, as in ours."""
    command = [sys.executable, "-W", "error", str(script), "--epochs", "1", "--seed", "0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # one thread: sums are added in one order
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def _needs_the_examples_extra() -> None:
    pytest.importorskip("numpy")
    pytest.importorskip("PIL")


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture(scope="module")
def printed(elsewhere: Path) -> str:
    return train(SCRIPT, elsewhere)


@pytest.fixture(scope="module")
def module() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def image(module: dict[str, Any]) -> Any:
    """The first training image, a PIL image of a shirt."""
    return module["FashionMNIST"](train=True)[0][0]


def seed(module: dict[str, Any], number: int) -> None:
    random.seed(number)
    module["np"].random.seed(number)


def without_seconds(text: str) -> str:
    return re.sub(r", \d+\.\d s$", "", text, flags=re.MULTILINE)


@pytest.mark.thorough
def test_prints_one_line_an_epoch_and_the_accuracy_last(printed: str) -> None:
    epoch, last = printed.splitlines()
    assert re.fullmatch(r"epoch 1: loss \d\.\d{4}, test accuracy 0\.\d{4}, lr 0\.\d{4}, \d+\.\d s", epoch)
    assert re.fullmatch(r"accuracy 0\.\d{4}", last)
    assert last.removeprefix("accuracy ") in epoch


@pytest.mark.thorough
def test_learns_in_one_epoch(printed: str) -> None:
    assert float(printed.split()[-1]) > 0.6  # guessing gives 0.1


@pytest.mark.thorough
def test_same_seed_prints_the_same_from_the_repository_too(printed: str, tmp_path: Path) -> None:
    link = REPOSITORY / "examples" / "augmented_resnet.py"
    assert without_seconds(train(link, tmp_path)) == without_seconds(printed)


@pytest.mark.usefixtures("printed")
@pytest.mark.thorough
def test_leaves_nothing_behind(elsewhere: Path) -> None:
    assert list(elsewhere.iterdir()) == []


def test_split_is_8000_and_2000_without_a_common_image(module: dict[str, Any]) -> None:
    train_images, test_images = (
        {image.tobytes() for image in module["FashionMNIST"](train=part).images} for part in (True, False)
    )
    assert (len(train_images), len(test_images)) == (8000, 2000)  # every image is there once
    assert not train_images & test_images


@pytest.mark.parametrize("name", RANDOM_TRANSFORMS)
def test_augmentation_draws_anew_each_time_and_keeps_the_form(
    module: dict[str, Any], image: Any, name: str
) -> None:
    transform = module[name](*RANDOM_TRANSFORMS[name])
    seed(module, 0)
    results = [transform(image) for _ in range(20)]
    assert {(result.mode, result.size) for result in results} == {("L", (28, 28))}
    assert len({result.tobytes() for result in results}) > 1


@pytest.mark.parametrize("name", RANDOM_TRANSFORMS)
def test_augmentation_repeats_itself_under_one_seed(module: dict[str, Any], image: Any, name: str) -> None:
    transform = module[name](*RANDOM_TRANSFORMS[name])
    results = []
    for _ in range(2):
        seed(module, 0)
        results.append([transform(image).tobytes() for _ in range(5)])
    assert results[0] == results[1]


def test_elastic_transform_without_shifts_changes_nothing(module: dict[str, Any], image: Any) -> None:
    assert module["ElasticTransform"](alpha=0, sigma=4)(image).tobytes() == image.tobytes()


def test_model_gives_ten_scores_an_image(module: dict[str, Any]) -> None:
    assert module["ResNet"]()(torch.zeros(2, 1, 28, 28)).shape == (2, 10)


def test_knows_nothing_of_us() -> None:
    assert "hasten" not in SCRIPT.read_text(encoding="utf-8").lower()
