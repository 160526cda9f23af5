"""Keep what a trial's script writes away from the real files, while the script can read back what it wrote.

Everything the script can write is covered by overlays in a mount namespace of this process: the script reads
the real files and writes into **layers**, throw-away folders of the trial. That includes C code and
subprocesses. As root, every file system is covered (covering.py). Otherwise folders are covered one by one:
the requested ones, the home folder, temporary ones, and other writable ones that reach.py finds; Landlock
denies writing anywhere else, if the kernel has it. Not covered are /proc, /sys and /dev, what ``through``
names, and files that are already open.

    coordinator:  layers = make_layers() ... remove_layers(layers)
    worker:       protection = protect(folders, layers)
    coordinator:  keep(protection.uppers[place], saved)
    another:      protection = protect(folders, layers, {place: saved})

Each worker sees only its own writes. Without root the kernel limits access to existing files: no directory
can be renamed (EXDEV), and what belongs to another user, or to a group other than the process's first, cannot
be written (EOVERFLOW).

If no overlay can be mounted, writing can still be denied: see landlock.py. This guards against accidents. It
is no sandbox: root can still write to disks through their devices, and change the kernel's settings.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from . import landlock, mounts, reach
from .covering import Uppers, cover_everything, cover_places
from .dry_run import rehearse

_ADVICE = "run it from a project folder"


@dataclass(frozen=True)
class Protection:
    """The result of a request to protect folders."""

    kind: str  # "overlay"; "landlock": writes are denied; or "off": this process is as it was before
    reason: str  # why it is not an overlay, one sentence; "" if it is
    folders: tuple[str, ...]  # absolute real paths that were requested and are protected; none if off
    uppers: Mapping[str, str]  # where an overlay's writes go, by the place it covers


def protect(
    folders: Sequence[str],
    layers: str,
    prelude: Mapping[str, str] | None = None,
    through: Sequence[str] = (),
    or_deny: bool = False,
) -> Protection:
    """Cover ``folders`` and everything else that can be written. Call it before any thread starts.

    ``prelude`` holds copies of an earlier worker's uppers, by place, for this process to start from.
    ``through`` are existing folders that are written directly. Anything the kernel refuses for
    ``folders`` turns the overlays off as a whole. ``or_deny``: then deny writes instead, unless there is a
    prelude, which this process could not see.

    Raises OSError if the kernel refuses now what it granted a moment ago: then the process must end.
    """
    roots = reach.outermost(folders)
    unsuitable = _unsuitable(roots)
    if unsuitable:
        return Protection("off", unsuitable, (), {})
    kept, open_ways = dict(prelude or {}), [os.path.realpath(path) for path in through]
    reason = "" if os.path.isdir(layers) else "there is no folder that can take the writes"
    if not reason and mounts.is_admin():
        everything = partial(_cover_everything, roots, layers, kept, open_ways)
        if not rehearse(everything):
            return Protection("overlay", "", roots, everything())
    if not reason:
        one_by_one = partial(_cover_places, *reach.places(roots, layers), layers, kept, open_ways)
        reason = rehearse(one_by_one)
        if not reason:
            return Protection("overlay", "", roots, one_by_one())
    if not or_deny or kept:
        return Protection("off", reason, (), {})
    try:
        landlock.deny_writes([*open_ways, *reach.caches(os.environ, roots)])
    except OSError as refused:
        return Protection("off", f"{reason}; and {refused}", (), {})
    return Protection("landlock", reason, roots, {})


def _unsuitable(roots: Sequence[str]) -> str:
    """Why no kernel could protect these folders in this process, or ""."""
    if not sys.platform.startswith("linux"):
        return "files can be protected on Linux only"
    if len(os.listdir("/proc/self/task")) > 1:
        return "files cannot be protected once a second thread runs"
    if not roots:
        return "there is no folder to protect"
    for root in roots:
        if root in ("/dev", "/dev/shm") or root.split("/")[1] in ("proc", "sys"):
            return f"{root} belongs to the system and cannot be protected: {_ADVICE}"
        if not os.path.isdir(root):
            return f"{root} cannot be protected: it is not a directory"
    return ""


def _cover_everything(
    roots: Sequence[str], layers: str, prelude: Mapping[str, str], through: Sequence[str]
) -> Uppers:
    uppers = cover_everything(roots, layers, prelude, through)
    mounts.drop_ways_out()
    return uppers


def _cover_places(
    needed: Sequence[str],
    others: Sequence[str],
    layers: str,
    prelude: Mapping[str, str],
    through: Sequence[str],
) -> Uppers:
    unprivileged = not mounts.is_admin()
    uppers = cover_places(needed, others, layers, prelude, through)
    with suppress(OSError):  # then what is not covered can be written as usual
        landlock.deny_writes([*uppers, *through, *reach.runtime(os.environ)])
    if unprivileged:
        mounts.drop_capabilities()
    else:
        mounts.drop_ways_out()
    return uppers
