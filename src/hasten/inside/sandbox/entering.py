"""What a trial's worker does before its script starts: protect the user's files, contain the processes
that it will start, and arrange to end with the coordinator.
"""

from __future__ import annotations

import os
import sys
import tempfile

from ...records.messages import Sandboxed
from ..job import Sandbox
from ..process.wire import Hangup, Wire
from . import mounts
from .containment import contain, die_with_parent, stand_over
from .protect import Protection, protect


def enter_sandbox(sandbox: Sandbox | None, wire: Wire | None) -> None:
    """Do what ``sandbox`` asks, and report the result to the coordinator. Ends the process if it may not go
    on.
    """
    protection, contained = _protected(sandbox) if sandbox is not None else (None, False)
    if wire is None:
        return
    die_with_parent()  # not earlier: a change of credentials resets it
    if sandbox is None or protection is None:
        return
    try:
        wire.send(Sandboxed(protection.kind, protection.reason, contained, protection.uppers))
    except Hangup:
        os._exit(0)  # the coordinator was gone before the kernel knew that we end with it
    if protection.kind == "off" and sandbox.required:
        raise SystemExit(0)


def _protected(sandbox: Sandbox) -> tuple[Protection, bool]:
    """The protection, and whether the kernel will end all processes started from here on."""
    if not sys.platform.startswith("linux"):
        return protect(sandbox.folders, sandbox.layers), False  # which says that it is for Linux
    admin = mounts.is_admin()
    contained = not contain()
    if not contained:
        stand_over()
    protection = protect(
        sandbox.folders, sandbox.layers, sandbox.prelude, sandbox.through, or_deny=sandbox.required
    )
    if protection.kind != "overlay" and sandbox.aside:
        _keep_temporary_files_in(os.path.join(sandbox.aside, "temporary"))
    if contained and not admin:
        mounts.drop_capabilities()  # those that came with the namespace
    return protection, contained


def _keep_temporary_files_in(folder: str) -> None:
    """If writing is denied, so is the usual folder; and what a killed worker leaves must be removed."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass  # an earlier worker's
    except OSError:
        return  # the trials may be over and their folder deleted: do not create it again
    os.environ["TMPDIR"] = folder
    tempfile.tempdir = None
