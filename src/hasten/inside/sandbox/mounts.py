"""Mount calls of Linux by ctypes, and what is mounted where. A refused call raises OSError.

Sources: the manual pages mount(2), unshare(2), user_namespaces(7) and proc_pid_mountinfo(5), and the kernel's
Documentation/filesystems/overlayfs.rst.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .user_namespaces import switched_off

_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_MOVE, _MS_REC, _MS_SLAVE = 1, 32, 4096, 8192, 16384, 1 << 19
_MS_KEPT = 2 | 4 | 8 | 1024 | 2048  # nosuid, nodev, noexec, noatime, nodiratime; statvfs(3) agrees
_MNT_DETACH = 2
_CAP_DAC_READ_SEARCH, _CAP_SYS_PTRACE, _CAP_SYS_ADMIN = 2, 19, 21
_WAYS_OUT = (_CAP_DAC_READ_SEARCH, _CAP_SYS_PTRACE, _CAP_SYS_ADMIN)
_PR_CAPBSET_DROP = 24
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Mount:
    """One entry of the list of mounts."""

    point: str  # absolute path of the directory or file it is mounted on
    kind: str  # type of file system: ext4, tmpfs, overlay
    device: str  # which file system, as "major:minor"
    root: str  # what is visible at ``point``: "/" is all of it, another path a part that was bound there


_UNKNOWN = Mount("/", "", "", "/")  # after chroot(2), / need not be a mount


def mounted() -> list[Mount]:
    """All mounts this process can see, in the order they were made."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        return [_parsed(line) for line in lines]


def _parsed(line: str) -> Mount:
    """``36 35 98:0 / /data rw,noatime master:1 - ext3 /dev/b rw`` is ext3 on /data; a blank is ``\\040``."""
    place, _, source = line.partition(" - ")
    device, root, point = (
        re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), word) for word in place.split(" ")[2:5]
    )
    return Mount(point, source.split(" ")[0], device, root)


def below(path: str, folder: str) -> bool:
    """Whether ``path`` is ``folder`` or lies anywhere below it; both absolute and real."""
    return os.path.commonpath([path, folder]) == folder


def holder(path: str, among: Sequence[Mount]) -> Mount:
    """The mount that contains ``path``; if several share a place, the last one wins."""
    holding = [mount for mount in reversed(among) if below(path, mount.point)]
    return max(holding, key=lambda mount: len(mount.point), default=_UNKNOWN)


def kind_at(path: str) -> str:
    """The type of file system that holds ``path``."""
    return holder(path, mounted()).kind


def is_admin() -> bool:
    """Whether this process may mount in the user namespace it is in (CAP_SYS_ADMIN is effective)."""
    return bool(_capabilities("CapEff") >> _CAP_SYS_ADMIN & 1)


def _capabilities(kind: str) -> int:
    found = re.search(rf"^{kind}:\s*(\w+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1], 16) if found else 0


def in_user_namespace() -> bool:
    """Whether this process lives in a user namespace other than the machine's first one."""
    return Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]


def leave_shared_mounts() -> None:
    """Give this process its own mount namespace: what it mounts from here on is invisible elsewhere.

    Without CAP_SYS_ADMIN that needs a user namespace, too, in which the process keeps its user and group id.
    """
    _leave(_CLONE_NEWNS)


def leave_shared_processes() -> None:
    """Like ``leave_shared_mounts``, and what this process forks from here on is in a process namespace, too:
    its first child is process 1 there, and all others end when that one does.
    """
    _leave(_CLONE_NEWNS | _CLONE_NEWPID)


def show_processes() -> None:
    """Mount /proc again, for the process namespace that this process is in."""
    _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)


def empty_memory(target: str) -> None:
    """Mount an empty tmpfs at ``target``, as large as what is mounted there now."""
    there = os.statvfs(target)
    size = f"mode=1777,size={there.f_blocks * there.f_frsize}"
    _mount("tmpfs", target, "tmpfs", _MS_NOSUID | _MS_NODEV, size)


def _leave(namespaces: int) -> None:
    if is_admin():
        _called("unshare", _libc.unshare(namespaces))
        _let_nothing_out()
        return
    try:
        _leave_as_user(namespaces)
    except OSError as refused:
        why = switched_off()
        raise OSError(f"{why}; {refused}" if why else str(refused)) from None


def _leave_as_user(namespaces: int) -> None:
    user, group = os.geteuid(), os.getegid()
    _called("unshare", _libc.unshare(_CLONE_NEWUSER | namespaces))
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")
    _let_nothing_out()


def _let_nothing_out() -> None:
    # Slave, not private: an automounter outside still reaches in, and nothing of ours reaches out.
    _mount(None, "/", None, _MS_REC | _MS_SLAVE)


def drop_capabilities() -> None:
    """Give up all capabilities, so that file permissions apply to the script as they do outside."""
    _set_capabilities(0, 0, 0)


def drop_ways_out() -> None:
    """Permanently give up what root could use to unmount, trace others or open files by handle: programs
    started from here on do not get it back.
    """
    for capability in _WAYS_OUT:
        _called("prctl", _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0))
    left = ~sum(1 << capability for capability in _WAYS_OUT)
    _set_capabilities(*(_capabilities(kind) & left for kind in ("CapEff", "CapPrm", "CapInh")))


def _set_capabilities(*sets: int) -> None:
    """``sets``: effective, permitted, inheritable."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    halves = [(one >> shift) & 0xFFFFFFFF for shift in (0, 32) for one in sets]
    _called("capset", _libc.capset(header, (ctypes.c_uint32 * 6)(*halves)))


def bind(source: str, target: str) -> None:
    """Show the directory or file ``source`` at ``target`` as well, without what is mounted below it."""
    _mount(source, target, None, _MS_BIND)


def bind_with_mounts(source: str, target: str) -> None:
    """Like ``bind``, with everything mounted below."""
    _mount(source, target, None, _MS_BIND | _MS_REC)


def bind_read_only(source: str, target: str) -> None:
    bind(source, target)
    make_read_only(target)


def make_read_only(target: str) -> None:
    kept = os.statvfs(target).f_flag & _MS_KEPT
    _mount(None, target, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | kept)


def mount_scratch(target: str) -> None:
    """Mount an empty tmpfs at ``target``, for a few folders to bind others to."""
    _mount("tmpfs", target, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755,size=1m")


def make_root(target: str) -> None:
    """Let the mount at ``target`` be this process' root, and its working directory. The former root is
    then beneath it, out of reach of any path.
    """
    os.chdir(target)
    _mount(".", "/", None, _MS_MOVE)
    os.chroot(".")
    os.chdir("/")


def overlay(target: str, lower: Sequence[str], upper: str, work: str) -> None:
    """Show at ``target`` the directories ``lower``, topmost first; what is written there goes into ``upper``.

    All but ``target`` must be free of ``:``, ``,`` and backslashes.
    """
    options = [f"lowerdir={':'.join(lower)}", f"upperdir={upper}", f"workdir={work}"]
    # With redirect_dir a directory of the lower layer can be renamed; user xattrs do not allow it.
    options += ["userxattr"] if in_user_namespace() else ["redirect_dir=on", "metacopy=off", "index=off"]
    _mount("overlay", target, "overlay", 0, ",".join(options))


def merge(target: str, lower: Sequence[str]) -> None:
    """Like ``overlay``, read-only; at least two directories."""
    options = [f"lowerdir={':'.join(lower)}"]
    options += ["userxattr"] if in_user_namespace() else ["redirect_dir=follow", "metacopy=off", "index=off"]
    _mount("overlay", target, "overlay", _MS_RDONLY, ",".join(options))


def detach(target: str) -> None:
    _called("umount2", _libc.umount2(os.fsencode(target), _MNT_DETACH))


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    text = [None if word is None else os.fsencode(word) for word in (source, target, kind, options)]
    _called(f"mount on {target}", _libc.mount(*text[:3], ctypes.c_ulong(flags), text[3]))


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w") as file:
            file.write(text)
    except OSError as refused:
        raise _refusal(f"writing {path}", refused.errno or 0) from None


def _called(what: str, result: int) -> None:
    if result != 0:
        raise _refusal(what, ctypes.get_errno())


def _refusal(what: str, number: int) -> OSError:
    return OSError(f"the kernel refused {what}: {os.strerror(number)}")
