"""The shipped example trains, repeats itself under one seed, and knows nothing of us."""

from __future__ import annotations

import hashlib
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from hasten import examples
from hasten.errors import UsageError

from .training import train

SCRIPT = examples.path("fashion_cnn")
DATA = SCRIPT.parent / "data" / "fashion-mnist"
REPOSITORY = Path(__file__).resolve().parents[2]

SHA256 = {
    "t10k-images-idx3-ubyte.gz": "cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa",
    "t10k-labels-idx1-ubyte.gz": "8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05",
}


EPOCH = ("--epochs", "1", "--batch-size", "16")


@pytest.fixture(scope="module", autouse=True)
def _needs_the_examples_extra() -> None:
    pytest.importorskip("numpy")
    pytest.importorskip("PIL")


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture(scope="module")
def printed(elsewhere: Path) -> str:
    return train(SCRIPT, elsewhere, *EPOCH)


@pytest.fixture(scope="module")
def module() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def without_seconds(text: str) -> str:
    return re.sub(r", \d+\.\d s$", "", text, flags=re.MULTILINE)


def test_prints_one_line_an_epoch_and_the_accuracy_last(printed: str) -> None:
    epoch, last = printed.splitlines()
    assert re.fullmatch(r"epoch 1: loss \d\.\d{4}, test accuracy 0\.\d{4}, \d+\.\d s", epoch)
    assert re.fullmatch(r"accuracy 0\.\d{4}", last)
    assert last.removeprefix("accuracy ") in epoch


def test_learns_in_one_epoch(printed: str) -> None:
    assert float(printed.split()[-1]) > 0.6  # guessing gives 0.1


@pytest.mark.thorough
def test_same_seed_prints_the_same_from_the_repository_too(printed: str, tmp_path: Path) -> None:
    link = REPOSITORY / "examples" / "fashion_cnn.py"
    assert without_seconds(train(link, tmp_path, *EPOCH)) == without_seconds(printed)


@pytest.mark.usefixtures("printed")
def test_leaves_nothing_behind(elsewhere: Path) -> None:
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("name", sorted(SHA256))
def test_data_is_zalandos(name: str) -> None:
    assert hashlib.sha256((DATA / name).read_bytes()).hexdigest() == SHA256[name]


def test_data_carries_its_licence() -> None:
    text = (DATA / "LICENSE").read_text(encoding="utf-8")
    assert "2017 Zalando SE" in text
    assert "WITHOUT WARRANTY OF ANY KIND" in text


def test_split_is_8000_and_2000_without_a_common_image(module: dict[str, Any]) -> None:
    train_images, test_images = (
        {image.tobytes() for image in module["FashionMNIST"](train=part).images} for part in (True, False)
    )
    assert (len(train_images), len(test_images)) == (8000, 2000)  # every image is there once
    assert not train_images & test_images


def test_both_parts_hold_every_class(module: dict[str, Any]) -> None:
    for part in (True, False):
        assert set(module["FashionMNIST"](train=part).labels.tolist()) == set(range(10))


def test_knows_nothing_of_us() -> None:
    assert "hasten" not in SCRIPT.read_text(encoding="utf-8").lower()


def test_unknown_example_lists_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"no example is called 'mnist'; there are: .*fashion_cnn"):
        examples.path("mnist")
