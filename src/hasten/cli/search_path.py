"""The command line never imports the user's modules, which may have the names of our libraries."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path


def users_last() -> None:
    """Search the working directory and PYTHONPATH after everything else.

    The script's own search path is not touched: a worker is a separate process.
    """
    ours = str(Path(__file__).resolve().parent.parent.parent)
    users = {""}
    with suppress(FileNotFoundError):  # the working directory was deleted
        users.add(os.getcwd())
        users.update(map(os.path.abspath, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    sys.path.sort(key=lambda entry: entry in users - {ours})
