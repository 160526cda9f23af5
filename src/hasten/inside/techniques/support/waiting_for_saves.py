"""Whoever looks at files that are still being written waits until they are there: by Python's audit events
for what opens, lists, moves or hands on files, and around ``os.stat``, which has none.
"""

from __future__ import annotations

import os
import pathlib
import sys
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

from ...seams import Call, Seams
from .background_saves import BackgroundSaves

_NEED_ALL = frozenset(
    {
        *(
            "os.rename",
            "os.remove",
            "os.rmdir",
            "os.link",
            "os.symlink",
            "os.truncate",
            "os.chmod",
            "os.chown",
        ),
        *("os.utime", "os.setxattr", "os.kill", "os.killpg"),
        *("os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile", "subprocess.Popen"),
    }
)
"""Events at which all files must be written: another program may look at any of them."""
_LISTING = ("os.listdir", "os.scandir")
_ASKED = ("stat", "lstat", "access")  # of os, without an event
_SUPPORTED = ("supports_fd", "supports_dir_fd", "supports_follow_symlinks", "supports_effective_ids")


class _Hook:
    """The one audit hook of this process: it cannot be removed, so it does nothing when not needed."""

    def __init__(self) -> None:
        self.saves: BackgroundSaves | None = None
        self._added = False
        self._looking = threading.local()

    def serve(self, saves: BackgroundSaves) -> None:
        self.saves = saves
        if not self._added:
            self._added = True
            sys.addaudithook(self._event)

    def _event(self, event: str, arguments: tuple[Any, ...]) -> None:
        saves = self.saves
        if saves is None or not saves.any_under_way:
            return
        if event in _NEED_ALL or event.startswith("shutil."):
            if not saves.is_writing_here():
                saves.wait()
        elif event == "open":
            self.path_asked(arguments[0])
        elif event in _LISTING and not saves.is_writing_here():
            self._folder_asked(saves, arguments[0])

    def path_asked(self, path: object) -> None:
        """Wait if ``path`` is a file that is still being written."""
        saves = self.saves
        if saves is None or not saves.any_under_way or saves.is_writing_here() or isinstance(path, int):
            return
        real = self._real(path)
        if real is not None and saves.concerns(real):
            saves.wait()

    def _folder_asked(self, saves: BackgroundSaves, path: object) -> None:
        """Wait if a pending file will be in the folder, or if only its descriptor is known."""
        real = None if isinstance(path, int) else self._real("." if path is None else path)
        if real is None or saves.concerns_folder(real):
            saves.wait()

    def _real(self, path: object) -> str | None:
        """The path without links; None if it is not a path, or within this method: resolving links looks up
        paths itself.
        """
        if getattr(self._looking, "on", False):
            return None
        self._looking.on = True
        try:
            return os.path.realpath(os.fsdecode(path))  # type: ignore[arg-type]
        except (TypeError, ValueError, OSError):
            return None
        finally:
            self._looking.on = False


_HOOK = _Hook()


def ask_for(path: object) -> None:
    """Call it before something reads ``path`` without Python: waits if the file is still being written."""
    _HOOK.path_asked(path)


def let_others_wait(saves: BackgroundSaves, seams: Seams) -> None:
    """From now on, until the seams are undone, whatever looks at a pending file waits."""
    _HOOK.serve(saves)

    def undo() -> None:
        if saves.at_home:
            saves.wait()
        _HOOK.saves = None

    seams.on_undo(undo)
    old = getattr(pathlib, "_NormalAccessor", None)  # Python 3.10: it keeps functions of its own
    for name in _ASKED:
        seams.replace(os, name, _waiting)
        _supports_what_it_did(seams, vars(os)[name])
        if hasattr(old, name):
            seams.replace(old, name, lambda original: staticmethod(_waiting(original)))
    import multiprocessing.util

    seams.replace(multiprocessing.util, "spawnv_passfds", lambda original: _after_all(saves, original))


def _waiting(original: Call) -> Call:
    @wraps(original)
    def asked(*args: Any, **kwargs: Any) -> object:
        if _HOOK.saves is not None and _HOOK.saves.any_under_way:
            _HOOK.path_asked(args[0] if args else kwargs.get("path"))
        return original(*args, **kwargs)

    return asked


def _supports_what_it_did(seams: Seams, ours: Any) -> None:
    """``shutil`` and others look up by identity what a function of os supports: add ours to these sets."""
    for name in _SUPPORTED:
        functions: set[Callable[..., Any]] = getattr(os, name)
        if ours.__wrapped__ in functions:
            functions.add(ours)
            seams.on_undo(lambda functions=functions: functions.discard(ours))  # type: ignore[misc]


def _after_all(saves: BackgroundSaves, original: Call) -> Call:
    def spawn(*args: object, **kwargs: object) -> object:
        saves.wait()
        return original(*args, **kwargs)

    return spawn
