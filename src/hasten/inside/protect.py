"""Keep what a trial's script writes away from the real files, while the script can read back what it wrote.

The protected folders are covered by overlays in a mount namespace of this process: the script reads the real
files and writes into **layers**, throw-away folders of the trial. C code and subprocesses are caught too. Not
caught: files outside the folders, also where a symbolic link inside leads there, and files open before.

    coordinator:  layers = make_layers(folders) ... remove_layers(layers)
    worker:       protection = protect(folders, layers)
    either:       keep(protection.uppers[0], saved) ... protect(folders, layers, [saved]) in a later worker

Each worker sees only its own writes. Without root the kernel sets two limits to what was there before: no
directory can be renamed (EXDEV), and what belongs to another user, or to a group that is not the process's
first, cannot be written (EOVERFLOW).

Where no overlay can be laid, writing can still be denied: see landlock.py.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from . import landlock, mounts
from .rehearsal import rehearse

_ADVICE = "run it from a project folder"
_LOCK = ".in-use"  # in a directory for layers, locked by the process that made it


@dataclass(frozen=True)
class Protection:
    """What became of a request to protect folders."""

    kind: str  # "overlay"; "landlock": writes are denied; or "off": this process is as it was before
    reason: str  # why it is no overlay, one sentence; "" when it is
    folders: tuple[str, ...]  # absolute real paths that are protected; none when off
    uppers: tuple[str, ...]  # where an overlay's writes go: one a folder, then those of the mounts below it


def protect(
    folders: Sequence[str], layers: str, prelude: Sequence[str] = (), or_deny: bool = False
) -> Protection:
    """Cover ``folders`` and everything mounted below them. Call it before any thread starts.

    ``prelude`` holds copies of an earlier worker's uppers, in their order, for this process to start from;
    the folders must be the same. Anything the kernel refuses turns the overlays off as a whole. ``or_deny``:
    then deny writes instead, unless there is a prelude, which this process could not see.

    Raises OSError if the kernel refuses now what it granted a moment ago: the process must end then.
    """
    roots = _outermost(folders)
    unsuitable = _unsuitable(roots)
    if unsuitable:
        return Protection("off", unsuitable, (), ())
    reason = _unfit(roots, layers, prelude) or rehearse(lambda: _cover(roots, layers, prelude))
    if not reason:
        return Protection("overlay", "", roots, _cover(roots, layers, prelude))
    if not or_deny or prelude:
        return Protection("off", reason, (), ())
    try:
        landlock.deny_writes(roots, layers)
    except OSError as refused:
        return Protection("off", f"{reason}; and {refused}", (), ())
    return Protection("landlock", reason, roots, ())


_held: dict[str, int] = {}  # layers made by this process -> the lock that says it is alive


def make_layers(folders: Sequence[str]) -> str:
    """Make a directory for layers, outside ``folders`` and where the kernel takes them; "" if none is.

    Layers of this user's that a killed process has left are removed.
    """
    roots = _outermost(folders)
    for candidate in (tempfile.gettempdir(), "/dev/shm", "/var/tmp", os.path.expanduser("~/.cache")):
        parent = os.path.realpath(candidate)
        if any(mounts.below(parent, root) for root in roots):
            continue
        with suppress(OSError):
            _remove_abandoned(parent)
            made = tempfile.mkdtemp(prefix="hasten-", dir=parent)
            if _can_hold_layers(made):
                _held[made] = os.open(os.path.join(made, _LOCK), os.O_CREAT | os.O_RDWR, 0o600)
                fcntl.flock(_held[made], fcntl.LOCK_EX)
                return made
            os.rmdir(made)
    return ""


def remove_layers(layers: str) -> None:
    """Remove what ``make_layers`` made, as far as this user may. Never raises."""
    for folder, names, _ in os.walk(layers):
        for name in names:  # overlays leave work/work with mode 000, and scripts make folders read-only
            path = os.path.join(folder, name)
            with suppress(OSError):
                if not os.path.islink(path):
                    os.chmod(path, stat.S_IRWXU)
    shutil.rmtree(layers, ignore_errors=True)
    if layers in _held:
        os.close(_held.pop(layers))


def _remove_abandoned(parent: str) -> None:
    """Remove the layers in ``parent`` whose lock nobody holds any more."""
    for name in os.listdir(parent):
        lock = os.path.join(parent, name, _LOCK)
        if not name.startswith("hasten-") or not os.path.isfile(lock) or os.stat(lock).st_uid != os.getuid():
            continue
        held = os.open(lock, os.O_RDWR)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        finally:
            os.close(held)
        remove_layers(os.path.join(parent, name))


def keep(upper: str, to: str) -> None:
    """Copy an upper to the new directory ``to``, outside the protected folders, for use as a prelude.

    Deletions are copied too: a whiteout, character device 0:0, stands for a deleted file, and an extended
    attribute marks a directory that replaced another. Sockets and pipes are not: they end with their owner.
    Raises OSError where something cannot be read, or ``to`` cannot hold it.
    """
    os.mkdir(to)
    with os.scandir(upper) as entries:
        for entry in entries:
            target = os.path.join(to, entry.name)
            if entry.is_dir(follow_symlinks=False):
                keep(entry.path, target)
            elif entry.is_symlink() or entry.is_file():
                shutil.copy2(entry.path, target, follow_symlinks=False)
            elif stat.S_ISCHR(entry.stat().st_mode) and entry.stat().st_rdev == 0:
                os.mknod(target, stat.S_IFCHR)
    for name in os.listxattr(upper):
        if ".overlay." in name:  # copystat passes in silence over what `to` cannot hold
            os.setxattr(to, name, os.getxattr(upper, name))
    shutil.copystat(upper, to)


def _outermost(folders: Sequence[str]) -> tuple[str, ...]:
    real = dict.fromkeys(os.path.realpath(folder) for folder in folders)
    return tuple(a for a in real if not any(a != b and mounts.below(a, b) for b in real))


def _unsuitable(roots: Sequence[str]) -> str:
    """Why no kernel could protect these folders in this process, or ""."""
    if not sys.platform.startswith("linux"):
        return "files can be protected on Linux only"
    if len(os.listdir("/proc/self/task")) > 1:
        return "files cannot be protected once a second thread runs"
    if not roots:
        return "there is no folder to protect"
    for root in roots:
        if root in ("/", "/dev", "/dev/shm") or root.split("/")[1] in ("proc", "sys"):
            return f"{root} belongs to the system and cannot be protected: {_ADVICE}"
        if not os.path.isdir(root):
            return f"{root} cannot be protected: it is no directory"
    return ""


def _unfit(roots: Sequence[str], layers: str, prelude: Sequence[str]) -> str:
    """Why the kernel need not even be asked for overlays with these layers, or ""."""
    for root in roots:
        for path in filter(None, (layers, *prelude)):
            if mounts.below(os.path.realpath(path), root):
                return f"{root} cannot be protected: it holds {path}, which must lie outside; {_ADVICE}"
    if not os.path.isdir(layers):
        return f"no directory outside {' and '.join(roots)} can take the writes: {_ADVICE}"
    return ""


def _can_hold_layers(path: str) -> bool:
    """Whether an upper may lie here: not on an overlay, and where an overlay's marks can be stored."""
    try:
        namespace = "trusted" if mounts.is_admin() and not mounts.in_user_namespace() else "user"
        os.setxattr(path, f"{namespace}.hasten", b"")
        return mounts.kind_at(path) != "overlay"
    except OSError:
        return False


def _cover(roots: Sequence[str], layers: str, prelude: Sequence[str]) -> tuple[str, ...]:
    """Lay an overlay on every root and on what is mounted below; returns where each one's writes go."""
    cwd, unprivileged = os.getcwd(), not mounts.is_admin()
    mounts.leave_shared_mounts()
    places = [place for root in roots for place in (root, *_mounted_below(root))]
    if len(prelude) not in (0, len(places)):
        raise OSError(f"a prelude of {len(prelude)} layers does not fit {len(places)} folders and mounts")
    own = tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=os.path.realpath(layers))
    saved = [os.path.abspath(path) for path in prelude]
    os.chdir(own)  # from here on the names of layers are short and relative: none needs escaping as an option
    for index, place in enumerate(places):
        _prepare(index, place)
        if saved:
            os.symlink(saved[index], f"prelude{index}")
    for index, place in enumerate(places):
        _lay(index, place, optional=place not in roots)
    for index in range(len(places)):
        mounts.detach(f"lower{index}")  # the overlays hold it themselves; now no path leads to the real files
    os.chdir(cwd)  # where it was is beneath the overlay now
    if unprivileged:
        mounts.drop_capabilities()
    return tuple(os.path.join(own, f"upper{index}") for index in range(len(places)))


def _mounted_below(root: str) -> list[str]:
    points = {mount.point for mount in mounts.mounted()}
    return sorted(p for p in points if p != root and mounts.below(p, root) and os.path.lexists(p))


def _prepare(index: int, place: str) -> None:
    """Make the layers of a place, and bind it aside: a covered folder hides what is mounted below it."""
    lower, upper = f"lower{index}", f"upper{index}"
    os.mkdir(upper)
    os.mkdir(f"work{index}")
    if os.path.isdir(place):
        os.mkdir(lower)
        found = os.stat(place)  # the top of an overlay shows the owner, mode and times of its upper
        with suppress(OSError):  # only root may give it to somebody else
            os.chown(upper, found.st_uid, found.st_gid)
        writable = 0o777 if os.access(place, os.W_OK) else 0o555
        os.chmod(upper, stat.S_IMODE(found.st_mode) & (0o7000 | writable))
        os.utime(upper, ns=(found.st_atime_ns, found.st_mtime_ns))
    else:
        open(lower, "x").close()
    try:
        mounts.bind(place, lower)
    except OSError as refused:
        inner = _mounted_below(place)
        if not inner:
            raise
        why = f"{place} cannot be protected: something is mounted below it, at {inner[0]}, which takes root"
        raise OSError(f"{why} ({refused})") from None


def _lay(index: int, place: str, optional: bool) -> None:
    """Cover a place by its overlay. A mount that cannot have one, such as a file, stays visible read-only."""
    lower = f"lower{index}"
    layers = [name for name in (f"prelude{index}", lower) if os.path.lexists(name)]
    if optional and os.statvfs(lower).f_flag & os.ST_RDONLY:
        mounts.bind_read_only(lower, place)
        return
    try:
        mounts.overlay(place, layers, f"upper{index}", f"work{index}")
    except OSError as refused:
        if not optional:
            here = os.getcwd()
            raise OSError(f"{refused} (overlay, layers on {mounts.kind_at(here)} in {here})") from None
        mounts.bind_read_only(lower, place)
