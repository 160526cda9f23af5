"""Training scripts to try things on: plain PyTorch, each with the data it needs beside it."""

from __future__ import annotations

from pathlib import Path

from hasten.errors import UsageError


def path(name: str) -> Path:
    """The script of the example ``name``, such as ``fashion_cnn``; raises UsageError if there is none."""
    folder = Path(__file__).resolve().parent
    scripts = {script.stem: script for script in sorted(folder.glob("*.py")) if script.stem != "__init__"}
    if name not in scripts:
        raise UsageError(f"no example is called {name!r}; there are: {', '.join(scripts)}")
    return scripts[name]
