"""A command line typed in the test's own process, for what is refused before anything is started."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hasten.cli import interruption
from hasten.cli.main import main

Typed = Callable[..., str]


@pytest.fixture
def refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """``refused(*words)``: what is said, in a folder with ``train.py`` in it. The exit code is 2; neither the
    script nor a folder of hasten's has come of it, nor anything else.
    """
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text("open('started', 'w')\n")
    (folder / "folder").mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(interruption, "heed", lambda: None)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)

    def typed(*words: str) -> str:
        before = sorted(folder.rglob("*"))
        try:
            code: object = main(list(words))
        except SystemExit as end:  # of a word that makes no sense
            code = end.code
        printed = capsys.readouterr()
        assert (code, printed.out) == (2, ""), printed
        assert sorted(folder.rglob("*")) == before
        assert "Traceback" not in printed.err
        return printed.err

    return typed
