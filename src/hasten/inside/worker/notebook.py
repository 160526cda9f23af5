"""Run a notebook's code cells in order, as one program.

Lines for the shell or for IPython (``!``, ``%``, ``?``) are left out and named. A cell that a ``%%`` line
passes to another program does not run; one that it only times or silences runs without that line, and what
follows ``%time`` runs without it. ``display`` prints.
Source: https://nbformat.readthedocs.io/en/latest/format_description.html
"""

from __future__ import annotations

import ast
import json
import linecache
import re
import sys
import textwrap
import traceback
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ...saying import say

_SHOWN = 40  # characters of a wrong value
_HARMLESS_CELL_MAGICS = {"%%time", "%%timeit", "%%capture", "%%prun"}
_TIMED = re.compile(r"%time\s+(?=\S)")  # what follows runs once, in the notebook's own namespace
_ASKS = re.compile(r"\?{1,2}[\w.]+|[\w.]+\?{1,2}")  # requests for help


class NotANotebook(ValueError):
    """The file is not a notebook in nbformat 4 with Python cells; the message says what is wrong."""


@dataclass(frozen=True)
class Cell:
    """A code cell as it will run, and its lines that will not."""

    number: int  # 1 for the first code cell
    source: str
    left_out: tuple[str, ...]


def read_notebook(path: str) -> list[Cell]:
    """The code cells of ``path``. Raises NotANotebook, OSError, or SyntaxError for a cell that is not
    Python.
    """
    with open(path, encoding="utf-8") as file:
        try:
            content = json.load(file)
        except ValueError as error:
            raise NotANotebook(f"not JSON: {error}") from None
    if not isinstance(content, dict) or not isinstance(content.get("cells"), list):
        raise NotANotebook("it has no list of cells (nbformat 4 is expected)")
    language = _table(_table(content.get("metadata", {})).get("language_info", {})).get("name", "python")
    if language != "python":
        raise NotANotebook(f"its cells are in {language}")
    code = [cell for cell in content["cells"] if _table(cell).get("cell_type") == "code"]
    cells = [_plain(number, _text(cell)) for number, cell in enumerate(code, 1)]
    for cell in cells:
        ast.parse(cell.source, name_of(path, cell))
    return cells


def run_notebook(path: str, module: ModuleType) -> None:
    """Execute the cells of ``path`` in ``module``; says on standard error what was left out."""
    sys.excepthook = traceback.print_exception  # the interpreter's own shows the lines of files only
    module.__dict__["display"] = _display
    for cell in read_notebook(path):
        name = name_of(path, cell)
        for line in cell.left_out:
            say(f"hasten: {name} is run without: {line}")
        lines = cell.source.splitlines(keepends=True)
        linecache.cache[name] = (len(cell.source), None, lines, name)  # so that tracebacks can show them
        exec(compile(cell.source, name, "exec", dont_inherit=True), module.__dict__)


def name_of(path: str, cell: Cell) -> str:
    """What a traceback calls the cell."""
    return f"{path}, cell {cell.number}"


def _text(cell: dict[str, Any]) -> str:
    source = cell.get("source", "")
    return "".join(map(str, source)) if isinstance(source, list) else str(source)


def _table(value: object) -> dict[str, Any]:
    """Raises NotANotebook if it is something else."""
    if not isinstance(value, dict):
        raise NotANotebook(f"it has {str(value)[:_SHOWN]!r} where a table is expected")
    return value


def _plain(number: int, source: str) -> Cell:
    """The cell without what only IPython understands; line numbers stay."""
    lines = source.splitlines()
    first = next((line.strip() for line in lines if line.strip()), "")
    if first.startswith("%%") and first.split()[0] not in _HARMLESS_CELL_MAGICS:
        return Cell(number, "", (f"the whole cell, {first}",))
    left_out: list[str] = []
    for index, line in enumerate(lines):
        bare = line.strip()
        is_ipythons = bare.startswith(("%", "!")) or _ASKS.fullmatch(bare)
        if not (is_ipythons and _begins_a_statement(lines[:index])):
            continue
        indent = line[: len(line) - len(line.lstrip())]
        if timed := _TIMED.match(bare):
            left_out.append("%time")
            lines[index] = indent + bare[timed.end() :]
        else:
            left_out.append(_without_continuation(lines, index))
            lines[index] = indent + "pass"
    return Cell(number, "\n".join(lines) + "\n", tuple(left_out))


def _without_continuation(lines: list[str], index: int) -> str:
    """The line at ``index`` joined with its continuation lines, which are emptied."""
    whole = lines[index].strip()
    while whole.endswith("\\") and index + 1 < len(lines):
        index += 1
        whole = f"{whole[:-1].rstrip()} {lines[index].strip()}"
        lines[index] = ""
    return whole


_print = print  # output of the script itself: it goes where its other output goes


def _display(*objects: object, **options: object) -> None:
    """Like IPython's, if only text can be shown."""
    _print(*objects)


def _begins_a_statement(before: list[str]) -> bool:
    """Whether no bracket or string of the lines before is open: inside one, ``%`` is an operator or text."""
    try:
        ast.parse(textwrap.dedent("\n".join([*before, ""])))
    except SyntaxError as error:
        return "never closed" not in str(error) and "unterminated" not in str(error)
    return True
