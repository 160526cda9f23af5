"""What a worker of a trial does before its script starts: protect the user's files, contain what will be
started, and go when the coordinator goes.
"""

from __future__ import annotations

import os
import sys

from . import mounts
from .containment import contain, die_with_parent
from .job import Shield
from .protect import Protection, protect
from .wire import Hangup, Wire


def take_shelter(shield: Shield | None, wire: Wire | None) -> None:
    """As ``shield`` asks; tells the coordinator what came of it. Ends the process where it may not go on."""
    protection = _protected(shield) if shield is not None else None
    if wire is None:
        return
    die_with_parent()  # not before: a change of credentials takes it back
    if shield is None or protection is None:
        return
    told = {"kind": protection.kind, "reason": protection.reason, "uppers": protection.uppers}
    try:
        wire.send({"event": "shielded", **told})
    except Hangup:
        os._exit(0)  # the coordinator was gone before the kernel knew that we go with it
    if protection.kind == "off" and shield.required:
        raise SystemExit(0)


def _protected(shield: Shield) -> Protection:
    if not sys.platform.startswith("linux"):
        return protect(shield.folders, shield.layers, shield.prelude)  # which says that it is for Linux
    admin = mounts.is_admin()
    contained = not contain()
    protection = protect(shield.folders, shield.layers, shield.prelude, or_deny=shield.required)
    if contained and not admin:
        mounts.drop_capabilities()  # those that came with the namespace
    return protection
