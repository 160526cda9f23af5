"""Where a worker's standard streams go, and how much of its output is kept."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ... import safe_files
from ...errors import UnsafeFile
from ...launch.standard_input import Given
from ...lost_writes import check_room
from .listening import Heard


@dataclass(frozen=True)
class Output:
    """Where a worker's standard output and error go; None: where ours go. ``heard`` gets every line of
    standard output. ``given`` is its standard input, None for /dev/null, and ``stands_in`` says what that is
    if it is not the user's.
    """

    stdout: Path | None = None
    stderr: Path | None = None
    stdout_to_stderr: bool = False
    heard: Heard | None = None
    given: Given | None = None
    stands_in: str = ""


def output_into(folder: Path, name: str) -> Output:
    """Into two files named after ``name``. Raises HastenError if the disk is full."""
    safe_files.make_folder(folder)
    check_room(folder)
    return Output(folder / f"{name}.stdout", folder / f"{name}.stderr")


def keep_ends(path: Path, most: int = 2**20) -> None:
    """Shorten a worker's output to its beginning and end if it has more than ``most`` bytes: a script that
    prints much prints it in every trial.
    """
    with contextlib.suppress(OSError, UnsafeFile), safe_files.changing(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size <= most:
            return
        half = most // 2
        file.seek(size - half)
        end = file.read()
        file.truncate(half)
        file.seek(half)
        file.write(b"\n[hasten left %d bytes out here]\n" % (size - 2 * half))
        file.write(end)


def open_output(path: Path | None) -> IO[bytes] | None:
    """Open for appending; None for ours, which a worker inherits. Raises UnsafeFile."""
    return None if path is None else safe_files.append(path)
