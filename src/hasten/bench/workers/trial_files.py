"""Where trials write instead of the user's files, and what is kept from one to the next."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress

from ...inside.job import Sandbox
from ...inside.sandbox.overlay_folders import make_layers, remove_layers
from ...inside.sandbox.prelude import keep
from .clearing import Clearing
from .outside_writes import written_outside
from .worker import Worker


class TrialFiles:
    """Created when trials begin, deleted by ``remove``. ``folders``: those that must not be touched."""

    def __init__(self, folders: Sequence[str], environment: Mapping[str, str]) -> None:
        self._folders = tuple(folders)
        self._clearing = Clearing()
        try:
            self.layers = make_layers(self._clearing.covers)
            self._base = self.layers or tempfile.mkdtemp(prefix="hasten-")
            self._clearing.covers(self._base)
            self.aside = os.path.join(self._base, "aside")
            os.mkdir(self.aside, 0o700)
        except BaseException:
            self._clearing.close()
            raise
        self._made: list[str] = []
        self._own_cache = self._make_own_cache(environment)
        self._prelude: dict[str, str] = {}
        self._workers: list[Worker] = []
        self._kept = 0

    def sandbox(self, folders: Sequence[str], required: bool) -> Sandbox:
        """Keeps a worker away from the user's files, and has what earlier ones prepared."""
        through = (self.aside, *filter(None, [self._own_cache]))
        return Sandbox(tuple(folders), self.layers, dict(self._prelude), through, self.aside, required)

    def lies_elsewhere(self, folder: str) -> bool:
        """Whether what a trial writes into ``folder`` goes to a different file system than a run's: then it
        may take a different time. An overlay passes writes on.
        """
        while not os.path.isdir(folder) and folder != os.path.dirname(folder):
            folder = os.path.dirname(folder)
        try:
            return os.stat(folder).st_dev != os.stat(self._base).st_dev
        except OSError:
            return True

    def watch(self, worker: Worker) -> None:
        """Report at the end what this worker writes outside the folders."""
        self._workers.append(worker)

    def keep_preparations(self, worker: Worker) -> None:
        """Keep what the worker's script wrote so far for all later workers."""
        for place, upper in worker.uppers.items():
            if os.listdir(upper):
                to = os.path.join(self.layers, f"prelude-{self._kept}")
                keep(upper, to)
                self._prelude[place] = to
                self._kept += 1

    def remove(self) -> list[str]:
        """Delete everything. Returns the files that were written, or removed, outside the folders."""
        outside = written_outside([worker.uppers for worker in self._workers], self._folders)
        remove_layers(self._base)
        self._clearing.close()
        for folder in reversed(self._made):
            with suppress(OSError):  # already in use
                os.rmdir(folder)
        return outside

    def _make_own_cache(self, environment: Mapping[str, str]) -> str:
        """Where hasten keeps compiled code from one command to the next; "" if it cannot, or if the
        folder is a link or another user's.
        """
        base = environment.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        folder = os.path.join(base, "hasten")
        try:
            for path in (base, folder):
                if not os.path.lexists(path):
                    os.mkdir(path, 0o700)
                    self._made.append(path)
            found = os.lstat(folder)
        except OSError:
            return ""
        ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
        return os.path.realpath(folder) if ours and os.path.isabs(base) else ""
