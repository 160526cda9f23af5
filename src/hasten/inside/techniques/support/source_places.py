"""Where Python files say something, as their syntax tree tells."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterable


def first_place(files: Iterable[str], lines_in: Callable[[ast.Module], Iterable[int]]) -> str:
    """The first of these places, as "train.py:30"; "" if there is none. What cannot be read has none."""
    for path in files:
        try:
            with open(path, "rb") as file:
                line = min(lines_in(ast.parse(file.read())), default=0)
        except (OSError, SyntaxError, ValueError):
            continue
        if line:
            return f"{os.path.basename(path)}:{line}"
    return ""
