"""The user's own files that a script has imported: a measurement is valid while they are unchanged."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import sysconfig
from types import ModuleType
from typing import TYPE_CHECKING

from .package import PACKAGE

if TYPE_CHECKING:
    from .job import Job

_INSTALLED = {"site-packages", "dist-packages"}


class SourceFiles:
    """The files of modules in the script's folder, in the working directory, and wherever else Python was
    told to look (PYTHONPATH, a package installed in place). Created before the script starts.
    """

    def __init__(self, script: str, module: bool) -> None:
        self._script = () if module else (script, os.path.abspath(script))
        own = [] if module else [os.path.dirname(os.path.realpath(script))]
        paths = sysconfig.get_paths()
        self._python = {os.path.realpath(paths[name]) for name in ("stdlib", "platstdlib")}
        told = [os.path.realpath(entry or ".") for entry in sys.path]
        self._folders = {os.getcwd(), *own, *(path for path in told if not self._is_installed(path))}
        self._looked_at = 0  # modules, when we looked last
        self._known: set[str] = set()

    def made_of(self, job: Job) -> str:
        """What the job runs: the script, its arguments and the files known so far, as they are on disk; equal
        if a later run has the same.
        """
        digests = [(path, digest_of(path)) for path in self.own(job)]
        return json.dumps([job.argv, job.module, digests])

    def own(self, job: Job) -> list[str]:
        """The files of the script's own that are known until now, itself included."""
        imported = {path for path in map(_file_of, list(sys.modules.values())) if path is not None}
        own = {path for path in imported if self.is_local(path)}
        own |= set() if job.module else {os.path.abspath(job.argv[0])}
        return [path for path in sorted(own) if os.path.isfile(path)]

    def new(self) -> list[str]:
        """Files that were not reported yet."""
        if len(sys.modules) == self._looked_at:
            return []
        self._looked_at = len(sys.modules)
        files = {path for path in map(_file_of, list(sys.modules.values())) if path is not None}
        new, self._known = files - self._known, files | self._known
        return sorted(path for path in new if self.is_local(path) and os.path.isfile(path))

    def is_local(self, path: str) -> bool:
        """Whether a file is the user's, by its path as imported, without resolving links: a link may change,
        too. What runs as the main program is, even where it is installed.
        """
        if path in (self._script or (_file_of(sys.modules.get("__main__")),)):
            return True
        return not self._is_installed(path) and any(_is_below(path, folder) for folder in self._folders)

    def _is_installed(self, path: str) -> bool:
        if _INSTALLED & set(path.split(os.sep)):
            return True
        return any(_is_below(path, folder) for folder in (PACKAGE, *self._python))


def _file_of(module: object) -> str | None:
    """Read from its dictionary: asking a module for an attribute may import something."""
    if not isinstance(module, ModuleType):
        return None
    path = object.__getattribute__(module, "__dict__").get("__file__")
    return os.path.abspath(path) if isinstance(path, str) else None


def digest_of(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.blake2b(file.read(), digest_size=16).hexdigest()
    except OSError:
        return ""


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
