"""A program started on another host by ssh, and no shell in between that could read its words.

Source: ssh(1). All that is sent to a remote shell are two paths of ours; what to start goes by standard
input.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..pulse import deadline_of
from .engine import Start, There

REMOTE_ENTRY = Path(__file__).resolve().parents[1] / "remote_entry.py"
_OPTIONS = ("-T", "-o", "BatchMode=yes")
_ASKS = 4  # that stay without an answer before a host counts as lost


def why_not() -> str | None:
    """What is wrong if there is no ssh here; None if there is."""
    if shutil.which("ssh") is None:
        return "there is no ssh on PATH: install it, or start the run by hand on each host (--node-rank)"
    return None


def on_host(
    host: str, argv: Sequence[str], folder: str, environment: Mapping[str, str], python: str
) -> Start:
    """``host`` is checked already. ``python`` and hasten are at the same places there as here. A host that is
    silent for the deadline counts as lost. Raises UsageError if ``environment`` has one that is none.
    """
    command = f"exec {shlex.join([python, str(REMOTE_ENTRY)])}"
    every = max(1, round(deadline_of(environment) / _ASKS))
    alive = ("-o", f"ServerAliveInterval={every}", "-o", f"ServerAliveCountMax={_ASKS}")
    words = ("ssh", *_OPTIONS, *alive, "--", host, command)
    return Start(words, there=There(host, folder, tuple(argv), environment))
