"""Where a script can write on this machine, as far as known before it runs."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePath

from . import mounts

SYSTEM = ("/proc", "/sys", "/dev")
"""No user files."""

_AS_IT_IS = frozenset(  # virtual file systems
    (
        *("autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs"),
        *("efivarfs", "fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "rpc_pipefs"),
        *("securityfs", "sysfs", "tracefs"),
    )
)
_CACHES = (
    *("XDG_CACHE_HOME", "TORCH_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR"),
    *("HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "TRANSFORMERS_CACHE", "KERAS_HOME", "NLTK_DATA"),
    *("MPLCONFIGDIR", "NUMBA_CACHE_DIR", "CUDA_CACHE_PATH", "KAGGLEHUB_CACHE", "TFDS_DATA_DIR"),
)
_CACHES_AT_HOME = (".cache", ".config/matplotlib", ".nv", ".triton", ".torch", ".keras", "nltk_data")
_BOUND = re.compile(r"(?:\S+ +){6}\d+ (/.*)\n")  # a line of /proc/net/unix with a path
_MOST_SOCKETS = 512
_OF_THE_SYSTEM = (
    "/bin",
    "/boot",
    "/etc",
    "/lib",
    "/lib64",
    "/nix",
    "/run",
    "/sbin",
    "/snap",
    "/usr",
    "/var/run",
)
_DEPTH, _MOST_ENTRIES = 3, 2000  # of folders searched for writable ones


def is_file_system(mount: mounts.Mount) -> bool:
    """Whether it may hold user files: not a virtual file system."""
    in_system = any(mounts.below(mount.point, folder) for folder in SYSTEM)
    return not in_system and mount.kind not in _AS_IT_IS


def seen_mounts() -> list[mounts.Mount]:
    """Mounts by their points, the last of several at one point, in an order in which they can be mounted."""
    last = {mount.point: mount for mount in mounts.mounted()}
    return sorted(last.values(), key=lambda mount: mount.point.split("/"))


def outermost(folders: Sequence[str]) -> tuple[str, ...]:
    """Their real paths, without those inside another one."""
    real = dict.fromkeys(os.path.realpath(folder) for folder in folders)
    return tuple(a for a in real if not any(a != b and mounts.below(a, b) for b in real))


def caches(environment: Mapping[str, str], apart_from: Sequence[str]) -> list[str]:
    """Folders where libraries keep what they load or compile; none above or below ``apart_from``."""
    home = environment.get("HOME") or os.path.expanduser("~")
    named = [environment[name] for name in _CACHES if environment.get(name)]
    found = [
        os.path.realpath(path) for path in (*named, *(os.path.join(home, one) for one in _CACHES_AT_HOME))
    ]
    clear = (p for p in found if not any(mounts.below(p, f) or mounts.below(f, p) for f in apart_from))
    return [path for path in dict.fromkeys(clear) if os.path.isdir(path)]


def runtime(environment: Mapping[str, str]) -> list[str]:
    """Where a session's programs have their sockets and pipes."""
    folder = environment.get("XDG_RUNTIME_DIR", "")
    return [folder] if os.path.isabs(folder) and os.path.isdir(folder) else []


def temporary() -> list[str]:
    """Folders for temporary files. (Asking tempfile would create a file in one.)"""
    named = [os.environ.get(name, "") for name in ("TMPDIR", "TEMP", "TMP")]
    found = dict.fromkeys(os.path.realpath(path) for path in (*named, "/tmp", "/var/tmp") if path)
    return [path for path in found if os.path.isdir(path)]


def sockets() -> list[str]:
    """Sockets that some program listens on: through an overlay they could not be reached."""
    with suppress(OSError), open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as lines:
        named = {match[1] for line in lines if (match := _BOUND.match(line))}
        paths = sorted(path for path in named if not any(mounts.below(path, system) for system in SYSTEM))
        return [path for path in paths if _is_socket(path)][:_MOST_SOCKETS]
    return []


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


# ---- without an overlay over everything
def places(folders: Sequence[str], layers: str) -> tuple[list[str], list[str]]:
    """Folders to cover one by one, so that little is left that this user can write: those that ``folders``
    need, and others. One may be inside another, because the kernel does not copy for us from another user's
    folder.
    """
    above = {str(folder) for mount in seen_mounts() for folder in PurePath(mount.point).parents}
    needed = [_top(folder, above) for folder in folders]
    home = os.path.realpath(os.path.expanduser("~"))
    others = [_top(path, above) for path in (home, *caches(os.environ, ()))]
    others += [*temporary(), *_writable_below("/", above, os.path.realpath(layers))]
    wanted = dict.fromkeys(path for path in others if path not in needed and _is_coverable(path, above))
    return list(dict.fromkeys(needed)), list(wanted)


def _top(path: str, above: Collection[str]) -> str:
    """The topmost folder above ``path`` such that all in between belong to this user and have no mounts
    below; otherwise ``path`` itself.

    ``above``: all folders that something is mounted below.
    """
    top = path
    for folder in map(str, PurePath(path).parents):
        if not _is_ours(top) or not _is_ours(folder) or not _is_coverable(folder, above):
            break
        top = folder
    return top


def _is_ours(folder: str) -> bool:
    """Whether the kernel would copy it for us, with its owner and group."""
    if os.geteuid() == 0 and not mounts.in_user_namespace():
        return True
    try:  # only an owner may do this; in a user namespace, stat shows all other users as one
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOATIME | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.fstat(descriptor).st_gid == os.getegid()
    finally:
        os.close(descriptor)


def _is_coverable(folder: str, above: Collection[str]) -> bool:
    return folder not in above and os.path.isdir(folder) and os.access(folder, os.W_OK)


def _writable_below(top: str, above: Collection[str], layers: str) -> list[str]:
    """Limited in depth and number of entries; skips folders that belong wholly to this user."""
    skipped = {*SYSTEM, *_OF_THE_SYSTEM, layers} | {m.point for m in seen_mounts() if not is_file_system(m)}
    found: list[str] = []
    waiting, left = [(top, 0)], _MOST_ENTRIES
    for folder, depth in waiting:  # grows
        for path in _folders_in(folder):
            left -= 1
            if left < 0:
                return found
            if path in skipped or (folder in found and _is_ours(path)):
                continue  # the kernel can copy it into the layer of the folder that it lies in
            if _is_coverable(path, above):
                found.append(path)
            if depth < _DEPTH - 1 and not (found and found[-1] == path and _is_ours(path)):
                waiting.append((path, depth + 1))
    return found


def _folders_in(folder: str) -> Iterator[str]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    yield entry.path
