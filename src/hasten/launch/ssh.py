"""A program started on another host by ssh, and no shell in between that could read its words.

Source: ssh(1). All that is sent to a remote shell are two paths of ours; what to start goes by standard
input.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from .engines.engine import Start, There

REMOTE_ENTRY = Path(__file__).resolve().with_name("remote_entry.py")
_OPTIONS = ("-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4")


def why_not() -> str | None:
    """What is wrong if there is no ssh here; None if there is."""
    if shutil.which("ssh") is None:
        return "there is no ssh on PATH: install it, or start the run by hand on each host (--node-rank)"
    return None


def on_host(
    host: str, argv: Sequence[str], folder: str, environment: Mapping[str, str], python: str
) -> Start:
    """``host`` is checked already. ``python`` and hasten are at the same places there as here."""
    command = f"exec {shlex.join([python, str(REMOTE_ENTRY)])}"
    return Start(("ssh", *_OPTIONS, "--", host, command), there=There(host, folder, tuple(argv), environment))
