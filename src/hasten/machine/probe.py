"""Read files and run programs that may be missing: whatever fails is empty, never an error."""

from __future__ import annotations

import subprocess
from pathlib import Path


def text_of(path: Path) -> str:
    """The text of a file, stripped; "" if it is missing or unreadable."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def output_of(*command: str, timeout_seconds: float = 10.0) -> str:
    """What a program prints, stripped; "" if it is not on PATH, fails, or times out."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def fields_in(text: str) -> dict[str, str]:
    """The lines "name: value" of a text."""
    parts = [line.partition(":") for line in text.splitlines()]
    return {name.strip(): value.strip() for name, _, value in parts}


def number_in(text: str) -> int | None:
    """A text as a non-negative integer; None for "max", "-1", "" and everything else."""
    return int(text) if text.isdecimal() else None


def numbers_in(text: str) -> tuple[int, ...]:
    """The numbers in a list as the kernel writes it: "0-2,8" is (0, 1, 2, 8)."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return tuple(found)
