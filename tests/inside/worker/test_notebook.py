"""A notebook's code cells run in order, less what only IPython understands."""

from __future__ import annotations

import json
import traceback
import types
from pathlib import Path

import pytest

from hasten.inside.worker.notebook import NotANotebook, read_notebook, run_notebook


def notebook(folder: Path, *sources: str, language: str = "python") -> str:
    cells: list[dict[str, object]] = [{"cell_type": "markdown", "source": ["# not code\n", "%not a magic"]}]
    cells += [{"cell_type": "code", "source": source.splitlines(keepends=True)} for source in sources]
    content = {"nbformat": 4, "metadata": {"language_info": {"name": language}}, "cells": cells}
    path = folder / "train.ipynb"
    path.write_text(json.dumps(content))
    return str(path)


def run(path: str) -> dict[str, object]:
    module = types.ModuleType("made_up")
    run_notebook(path, module)
    return module.__dict__


def test_cells_run_in_order_in_one_namespace(tmp_path: Path) -> None:
    assert run(notebook(tmp_path, "x = 1\n", "y = x + 1", "x = 5\nx"))["y"] == 2


@pytest.mark.parametrize(
    ("source", "runs", "left_out"),
    [
        ("%matplotlib inline\nx = 1\n", "pass\nx = 1\n", ("%matplotlib inline",)),
        ("!pip install nothing\n", "pass\n", ("!pip install nothing",)),
        ("if True:\n    %time y = 2\n", "if True:\n    y = 2\n", ("%time",)),
        ("%time\ny = 2\n", "pass\ny = 2\n", ("%time",)),
        ("%timeit y = 2\n", "pass\n", ("%timeit y = 2",)),
        ("!pip install \\\n    nothing\nx = 1\n", "pass\n\nx = 1\n", ("!pip install nothing",)),
        ("?print\nprint??\n", "pass\npass\n", ("?print", "print??")),
        ("x = 1  # why?\n", "x = 1  # why?\n", ()),
        ("%%time\nx = 2\n", "pass\nx = 2\n", ("%%time",)),
        ("%%bash\nls\n", "", ("the whole cell, %%bash",)),
        ("x = (7\n  % 4)\n", "x = (7\n  % 4)\n", ()),
        ("s = '''\n%d\n!\n'''\n", "s = '''\n%d\n!\n'''\n", ()),
    ],
)
def test_what_only_ipython_understands(
    tmp_path: Path, source: str, runs: str, left_out: tuple[str, ...]
) -> None:
    (cell,) = read_notebook(notebook(tmp_path, source))
    assert cell.source == runs
    assert cell.left_out == left_out


def test_display_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(notebook(tmp_path, "display('a table', 7)\n"))
    assert capsys.readouterr().out == "a table 7\n"


def test_what_is_left_out_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = notebook(tmp_path, "x = 1\n", "!nvidia-smi\n")
    run(path)
    assert capsys.readouterr().err == f"hasten: {path}, cell 2 is run without: !nvidia-smi\n"


def test_a_traceback_shows_cell_and_line(tmp_path: Path) -> None:
    path = notebook(tmp_path, "x = 1\n", "y = 2\nraise ValueError(x + y)\n")
    with pytest.raises(ValueError, match="3") as caught:
        run(path)
    text = "".join(traceback.format_exception(caught.value))
    assert f'File "{path}, cell 2", line 2' in text
    assert "raise ValueError(x + y)" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [("not JSON", "not JSON"), ("[]", "list of cells"), ('{"worksheets": []}', "list of cells")],
)
def test_what_is_no_notebook(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "train.ipynb"
    path.write_text(text)
    with pytest.raises(NotANotebook, match=message):
        read_notebook(str(path))


def test_another_language(tmp_path: Path) -> None:
    with pytest.raises(NotANotebook, match="julia"):
        read_notebook(notebook(tmp_path, "x = 1", language="julia"))


def test_a_cell_that_is_not_python(tmp_path: Path) -> None:
    with pytest.raises(SyntaxError):
        read_notebook(notebook(tmp_path, "def f(:\n"))
