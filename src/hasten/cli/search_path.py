"""Whose modules the command line itself uses: never the user's, which may be called like our libraries."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path


def users_last() -> None:
    """The working directory and PYTHONPATH are looked through after everything else.

    That of the script is not touched: a worker is a process of its own.
    """
    ours = str(Path(__file__).resolve().parent.parent.parent)
    users = {""}
    with suppress(FileNotFoundError):  # the working directory was deleted
        users.add(os.getcwd())
        users.update(map(os.path.abspath, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    sys.path.sort(key=lambda entry: entry in users - {ours})
