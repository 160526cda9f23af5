"""Scripts with padding, each as somebody would write it: what becomes of it under pad_trim."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..inside.distributed.forked import workers_forked
from ..scripts.shapes import FOLDER
from ..scripts.trial import follow, trials_for

THOROUGH = pytest.mark.thorough


@pytest.mark.parametrize(
    ("script", "what", "why"),
    [
        ("padded_text", "applied", "2 of 2 passes were cut"),
        pytest.param("padded_tags", "applied", "1 of 2 passes were cut", marks=THOROUGH),
        pytest.param("packed_text", "refused", "the script packs its sequences", marks=THOROUGH),
        pytest.param(
            "text_cnn", "no effect", "without its padding a call fails with RuntimeError", marks=THOROUGH
        ),
        pytest.param("custom_collate", "refused", "no padding beyond multiples of 8", marks=THOROUGH),
        pytest.param("convolutional", "refused", "no padding beyond multiples of 8", marks=THOROUGH),
    ],
)
def test_what_becomes_of_it(script: str, what: str, why: str, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    with workers_forked(), trials_for(FOLDER / f"{script}.py", folder) as trials:
        outcome = follow(trials, ["pad_trim"])
    found, said = outcome.techniques["pad_trim"]
    assert (found, why in said) == (what, True), said
    assert outcome.ended is not None
    assert outcome.ended.how == "completed"
