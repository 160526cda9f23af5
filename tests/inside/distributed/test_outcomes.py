"""None of the scripts is silently trained to something else: see ``outcomes``."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from ...thorough import cases
from .became import became
from .outcomes import EQUAL, SHAPES

ALWAYS = {"ordinary", "a root of a mean of squares", "samples chosen by random.sample in each epoch"}


@pytest.mark.attack("truth")
@pytest.mark.parametrize("name", cases(SHAPES, ALWAYS))
def test_none_is_silently_another_training(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shape = SHAPES[name]
    found = became(shape, tmp_path, dict(os.environ))
    assert found.what in shape.expected, found
    if found.what == EQUAL:
        assert found.apart < 1e-9
    else:
        assert re.search(shape.because, found.reason), found


@pytest.mark.thorough
@pytest.mark.attack("truth")
@pytest.mark.parametrize("name", SHAPES)
def test_nor_in_three_ranks(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shape = SHAPES[name]
    found = became(shape, tmp_path, dict(os.environ), 3)
    assert found.what in shape.expected, found
    assert found.apart < 1e-9
