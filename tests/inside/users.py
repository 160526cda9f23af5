"""To run a Python as a user without rights, too."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import suppress
from functools import cache
from typing import Any

NOBODY = 65534


def identity(user: int | None) -> dict[str, Any]:
    """How subprocess.run is told to start as ``user``."""
    return {} if user is None else {"user": user, "group": user, "extra_groups": []}


@cache
def python_for(user: int | None) -> str:
    """A Python that may be run by that user; "" if there is none."""
    check = "import sys, sqlite3, ctypes; sys.exit(sys.version_info < (3, 10))"
    for path in filter(None, (sys.executable, shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin"))):
        with suppress(OSError):
            if subprocess.run([path, "-c", check], cwd="/", **identity(user)).returncode == 0:
                return path
    return ""
