"""Where programs of engines are: the one installed next to Python wins over the first on PATH."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from ..machine.probe import output_of


def path_of(program: str, python: str = sys.executable) -> str:
    """The program's path, "" if there is none; a path stays as it is."""
    if os.sep in program:
        return program
    beside = Path(python).with_name(program)
    return str(beside) if beside.exists() else shutil.which(program) or ""


def version_of(program: str) -> str:
    """What the program prints about its version, several lines; "" if it cannot be started."""
    return output_of(path_of(program) or program, "--version")
