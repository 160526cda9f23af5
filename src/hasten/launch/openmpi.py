"""Ranks that mpirun starts, because the script uses MPI."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from ..machine.probe import output_of


def find_mpirun(python: str) -> str:
    """The one installed next to ``python``, or the first on PATH; "" if there is none."""
    beside = Path(python).with_name("mpirun")
    return str(beside) if beside.exists() else shutil.which("mpirun") or ""


def render(mpirun: str, version: str, count: int, command: Sequence[str], as_root: bool) -> list[str]:
    """The command line that starts ``command`` ``count`` times. ``version``: what ``mpirun --version`` says.

    Ranks bind themselves; Open MPI would bind each to one core, and refuse more ranks than it counts cores.
    """
    options = ["-n", str(count)]
    if "Open MPI" in version or "PRTE" in version:
        options += ["--bind-to", "none", "--oversubscribe", *(["--allow-run-as-root"] if as_root else [])]
    return [mpirun, *options, *command]


def version_of(mpirun: str) -> str:
    """Its full version output, several lines; "" if it cannot be started."""
    return output_of(mpirun, "--version")


def is_root() -> bool:
    """Whether we are root: then Open MPI refuses to start unless told otherwise."""
    return os.geteuid() == 0
