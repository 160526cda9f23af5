"""What ``hasten run`` takes for itself, by running it: a plain run does not pay for that."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ..inside.package import PACKAGE

_TIMES = 2  # of which the shorter one counts: other programs only make one longer
_MOST_SECONDS = 30.0
_ANY = "lazy_dynamo"  # a technique that needs nothing: under an empty plan, a script runs without hasten


def own_start() -> float | None:
    """Seconds that a script with nothing in it takes longer than in plain Python; None if that fails."""
    with suppress(OSError, subprocess.SubprocessError), tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "nothing.py")
        script.write_text("")
        plain = [sys.executable, str(script)]
        ours = [sys.executable, "-m", "hasten.cli.main", "run", "--use", _ANY, str(script)]
        return max(0.0, _seconds(ours, folder) - _seconds(plain, folder))
    return None


def _seconds(words: Sequence[str], folder: str) -> float:
    """Of a run in the folder. Raises OSError, SubprocessError."""
    path = os.pathsep.join(filter(None, (os.path.dirname(PACKAGE), os.environ.get("PYTHONPATH"))))
    taken = []
    for _ in range(_TIMES):
        began = time.monotonic()
        subprocess.run(
            words,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path},
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_MOST_SECONDS,
        )
        taken.append(time.monotonic() - began)
    return min(taken)
