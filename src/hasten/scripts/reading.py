"""Reads a script, and the modules next to it, without running anything."""

from __future__ import annotations

import ast
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError
from ..inside.worker.notebook import name_of, read_notebook
from .workspace import Script


@dataclass(frozen=True)
class Part:
    """A module, or a notebook's cell, under the name that a traceback gives it."""

    name: str
    source: str
    tree: ast.Module


def parts_of(script: Script) -> Iterator[Part]:
    """The script, and then the modules next to it that it imports, in order.

    Raises UsageError if one cannot be read.
    """
    waiting, seen = [script.path], set()
    while waiting:
        path = waiting.pop(0)
        if path.resolve() in seen:
            continue
        seen.add(path.resolve())
        try:
            parts = [Part(name, source, ast.parse(source)) for name, source in _sources(path)]
        except (OSError, SyntaxError, ValueError, RecursionError) as error:
            raise UsageError(f"{path} cannot be read: {error}") from None
        for part in parts:
            yield part
            waiting += _beside(path, part.tree)


def _sources(path: Path) -> list[tuple[str, str]]:
    """A module, or the cells of a notebook, by name."""
    if path.suffix == ".ipynb":
        return [(name_of(str(path), cell), cell.source) for cell in read_notebook(str(path))]
    with tokenize.open(path) as file:
        return [(str(path), file.read())]


def _beside(path: Path, tree: ast.AST) -> list[Path]:
    """The files of modules in the script's own folder that it imports."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    stems = [path.parent.joinpath(*name.split(".")) for name in names]
    files = [file for stem in stems for file in (stem.with_suffix(".py"), stem / "__init__.py")]
    return [file for file in dict.fromkeys(files) if file.is_file()]


def imported_names(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """The names that imports bind, each with its full name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (
                    alias.asname or alias.name.partition(".")[0],
                    (alias.name if alias.asname else alias.name.partition(".")[0]),
                )
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def full_name(function: ast.expr, names: dict[str, str]) -> str:
    """The full name of what is called, using ``names`` that imports bind."""
    first, dot, rest = ast.unparse(function).partition(".")
    return names.get(first, first) + dot + rest
