"""One measurement at a time in a folder: two would disturb each other, and overwrite each other's results.

The lock is held by an open file, so the kernel releases it however a process ends.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from . import safe_files
from .errors import InUse, UsageError
from .scripts.workspace import Workspace

_MOST_BYTES = 2**12  # more than ours needs
_MOST_CHARACTERS = 200  # of the other's command, in a message
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # from file systems without locks


@contextmanager
def alone(workspace: Workspace, wait: bool, say: Callable[[str], None]) -> Iterator[bool]:
    """Hold the lock of the working directory's ``.hasten``, which must exist. Yields False if the file
    system has no locks.

    Raises InUse if another process holds it; with ``wait`` waits for that one's end, which ``say``
    reports. Raises UsageError if the folder cannot be written to.
    """
    with ExitStack() as stack:
        try:
            file = _taken(stack, workspace, wait, say)
        except OSError as error:
            raise UsageError(f"{workspace.lock_path.absolute()} cannot be used: {error.strerror}") from None
        if file is not None:
            _sign(file)
            stack.callback(file.truncate, 0)
        yield file is not None


@contextmanager
def beside_nobody(workspace: Workspace, wait: bool, say: Callable[[str], None]) -> Iterator[None]:
    """Like ``alone``, for commands that keep nothing: without a folder to lock, there is no lock."""
    with ExitStack() as stack:
        with suppress(UsageError):
            stack.enter_context(alone(workspace, wait, say))
        yield


def _taken(
    stack: ExitStack, workspace: Workspace, wait: bool, say: Callable[[str], None]
) -> IO[bytes] | None:
    """The locked file, which ``stack`` closes; None if there are no locks."""
    while True:
        file = stack.enter_context(safe_files.changing(workspace.lock_path, os.O_CREAT))
        if not _lock(file, workspace.root, wait, say):
            return None
        if _is_at(workspace.lock_path, file):
            return file
        file.close()  # the folder was deleted while we waited, and this file with it


def _lock(file: IO[bytes], root: Path, wait: bool, say: Callable[[str], None]) -> bool:
    """Whether it is locked now; False if there are no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        holder = _holder(file)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return False
        raise
    if not wait:
        raise InUse(
            f"{holder} is measuring in {root.absolute().parent}, and two at once would disturb each other: "
            "wait for its end (with --wait hasten does), or end it"
        )
    say(f"waiting for {holder} to end")
    fcntl.flock(file, fcntl.LOCK_EX)
    return True


def _is_at(path: Path, file: IO[bytes]) -> bool:
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _sign(file: IO[bytes]) -> None:
    """Write what holds it, for others' messages."""
    told = {
        "pid": os.getpid(),
        "command": " ".join(["hasten", *sys.argv[1:]])[:_MOST_CHARACTERS],
        "since": time.time(),
    }
    file.seek(0)
    file.truncate()
    file.write(json.dumps(told).encode())
    file.flush()


def _holder(file: IO[bytes]) -> str:
    """The process that claims to hold it. Only for a message: the text may be old, or anyone's."""
    try:
        told = json.loads(file.read(_MOST_BYTES))
        began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(float(told["since"])))
        command = str(told["command"])[:_MOST_CHARACTERS]
        return f"process {int(told['pid'])} ({_printable(command)}), since {began},"
    except (ValueError, KeyError, TypeError, OverflowError, OSError, RecursionError):
        return "another hasten"


def _printable(text: str) -> str:
    """``text`` without control characters."""
    return "".join(character if character.isprintable() else "?" for character in text)
