"""Processes that are still there, told by the environment that they were started with."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def started_with(variable: str, value: str) -> list[int]:
    """All living ones in whose environment ``variable`` had that value, children of children included."""
    mark = f"{variable}={value}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found
