"""Files below ``.hasten``, which may have come with a downloaded project.

From ``.hasten`` on, no link is followed. Reads plain files of this user's or root's, of bounded size. Writes
appear whole or not at all, in a folder of this user that nobody else can write to. Anything else raises
UnsafeFile, which names it. The system's own errors come as OSError.

Paths are relative to the working directory, or absolute. What comes before ``.hasten`` is the user's own
choice, and links in it are followed; in a path without ``.hasten``, that is all but the last name.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from .errors import UnsafeFile

ROOT = ".hasten"
_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
    stat.S_IFREG: "a file",
}
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ADVICE = "move it away and run again"


# ---- reading
def read(path: Path, most_bytes: int) -> bytes:
    """A file of ours. Raises FileNotFoundError if there is none."""
    with _parent(path) as (folder, name), _opened(folder, name, path, os.O_RDONLY) as file:
        return _bounded(file, path, most_bytes)


def read_named(path: Path, most_bytes: int) -> bytes:
    """A file that the user named, wherever it is and whoever owns it: links are followed."""
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        raise UnsafeFile(f"{path} is {_kind(found)}, not a file: name a file")
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise UnsafeFile(f"{path} is not a file: name a file")
        return _bounded(file, path, most_bytes)


def names(folder: Path) -> list[str]:
    """The names of everything in one of our folders; empty if there is no such folder."""
    try:
        with _reached(*_split(folder)) as descriptor:
            return sorted(os.listdir(descriptor))
    except FileNotFoundError:
        return []


def check(path: Path) -> bool:
    """Whether there is a file at ``path``; if so, it is ours, without a second hard link."""
    with suppress(FileNotFoundError), _parent(path, writing=True) as (folder, name):
        _check_file(os.stat(name, dir_fd=folder, follow_symlinks=False), path, writing=True)
        return True
    return False


# ---- writing
def write(path: Path, content: bytes) -> None:
    """Replace one of our files atomically, so that a crash leaves the old one or the new one."""
    with _parent(path, writing=True) as (folder, name):
        with suppress(FileNotFoundError):
            _check_file(os.stat(name, dir_fd=folder, follow_symlinks=False), path)
        temporary = f".new-{secrets.token_hex(8)}"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE
            with open(os.open(temporary, flags, 0o666, dir_fd=folder), "wb") as file:
                file.write(content)
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise


def rename(path: Path, name: str) -> None:
    """Rename one of our files within its folder, replacing whatever has that name."""
    with _parent(path, writing=True) as (folder, old):
        _check_file(os.stat(old, dir_fd=folder, follow_symlinks=False), path)
        os.rename(old, name, src_dir_fd=folder, dst_dir_fd=folder)


def remove(path: Path) -> None:
    """Delete one of our files, if it exists."""
    with suppress(FileNotFoundError), _parent(path, writing=True) as (folder, name):
        _check_file(os.stat(name, dir_fd=folder, follow_symlinks=False), path)
        os.unlink(name, dir_fd=folder)


@contextmanager
def changing(path: Path, extra_flags: int = 0) -> Iterator[IO[bytes]]:
    """One of our files, to read and write in place. It must not have a second hard link."""
    with (
        _parent(path, writing=True) as (folder, name),
        _opened(folder, name, path, os.O_RDWR | extra_flags, writing=True) as file,
    ):
        yield file


def append(path: Path) -> IO[bytes]:
    """One of our files, opened for appending, created if missing."""
    with _parent(path, writing=True) as (folder, name):
        return _opened(folder, name, path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, writing=True)


# ---- folders
def make_folder(folder: Path) -> None:
    """Create one of our folders, with its parents that are ours. Existing ones must be ours, too.

    ``.hasten`` is created readable by this user only, and ignored by git.
    """
    start, parts = _split(folder)
    with _open_folders(start) as opened:
        at = start
        for part in parts:
            at /= part
            made = False
            with suppress(FileExistsError):
                os.mkdir(part, 0o700, dir_fd=opened[-1])
                made = True
            opened.append(_below(opened[-1], part, at, writing=True))
            if part == ROOT:
                _begin(opened[-1], made)


def make_new_folder(folder: Path) -> None:
    """Raises FileExistsError if something is already there."""
    with _parent(folder, writing=True) as (parent, name):
        os.mkdir(name, 0o700, dir_fd=parent)


def move(folder: Path, to: Path) -> None:
    """Rename a folder next to our others. Raises FileExistsError if the name is taken."""
    with _parent(folder, writing=True) as (parent, name):
        _check_folder(os.stat(name, dir_fd=parent, follow_symlinks=False), folder, writing=True)
        os.mkdir(to.name, 0o700, dir_fd=parent)  # rename may replace an empty folder
        os.rename(name, to.name, src_dir_fd=parent, dst_dir_fd=parent)


def _begin(descriptor: int, made: bool) -> None:
    """What ``.hasten`` needs: a .gitignore if new, otherwise that nobody else can write there."""
    if made:
        with suppress(FileExistsError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE
            with open(os.open(".gitignore", flags, 0o666, dir_fd=descriptor), "wb") as file:
                file.write(b"*\n")
        return
    mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
    if mode & 0o022:
        with suppress(OSError):  # a file system may not support modes
            os.fchmod(descriptor, mode & ~0o022)


# ---- on the way there
def _split(path: Path) -> tuple[Path, tuple[str, ...]]:
    """Where our part of a path begins, and the names from there on."""
    parts = path.parts
    here = len(parts) - 1 - parts[::-1].index(ROOT) if ROOT in parts else len(parts) - 1
    if ".." in parts[here:]:
        raise UnsafeFile(f"{path} leads out of {ROOT} again: hasten does not go there")
    return Path(*parts[:here]), parts[here:]


@contextmanager
def _parent(path: Path, writing: bool = False) -> Iterator[tuple[int, str]]:
    """A descriptor of the folder that ``path`` is in, and its name there."""
    start, parts = _split(path)
    with _reached(start, parts[:-1], writing) as descriptor:
        yield descriptor, parts[-1]


@contextmanager
def _reached(start: Path, parts: tuple[str, ...], writing: bool = False) -> Iterator[int]:
    with _open_folders(start) as opened:
        at = start
        for part in parts:
            at /= part
            opened.append(_below(opened[-1], part, at, writing))
        yield opened[-1]


@contextmanager
def _open_folders(start: Path) -> Iterator[list[int]]:
    """Descriptors of ``start`` and of what is appended to it, all closed at the end.

    Each is closed here only, and once. A signal may raise between any two lines; closing a descriptor twice
    would replace that error with our own, or close another file.
    """
    opened = [os.open(start, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
    try:
        yield opened
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _below(descriptor: int, name: str, at: Path, writing: bool) -> int:
    """The folder ``name`` in the one of ``descriptor``."""
    _check_folder(os.stat(name, dir_fd=descriptor, follow_symlinks=False), at, writing)
    below = os.open(name, _FOLDER, dir_fd=descriptor)
    try:
        _check_folder(os.fstat(below), at, writing)
    except BaseException:
        os.close(below)
        raise
    return below


def _opened(folder: int, name: str, path: Path, flags: int, writing: bool = False) -> IO[bytes]:
    """Looked at before it is opened, since opening a pipe or a device does something; and after, since it
    may have been another one before.
    """
    try:
        _check_file(os.stat(name, dir_fd=folder, follow_symlinks=False), path, writing)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    descriptor = os.open(name, flags | _FILE, 0o666, dir_fd=folder)
    try:
        _check_file(os.fstat(descriptor), path, writing)
    except BaseException:
        os.close(descriptor)
        raise
    return open(descriptor, "ab" if flags & os.O_APPEND else "r+b" if flags & os.O_RDWR else "rb")


def _check_folder(found: os.stat_result, path: Path, writing: bool) -> None:
    if not stat.S_ISDIR(found.st_mode):
        raise UnsafeFile(f"{path} is {_kind(found)}, where hasten needs a folder of its own: {_ADVICE}")
    _check_owner(found, path, writing)


def _check_file(found: os.stat_result, path: Path, writing: bool = False) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise UnsafeFile(f"{path} is {_kind(found)}, where hasten needs a file of its own: {_ADVICE}")
    _check_owner(found, path, writing)
    if writing and found.st_nlink > 1:
        raise UnsafeFile(f"{path} is another file, too (a hard link), which hasten would change: {_ADVICE}")


def _check_owner(found: os.stat_result, path: Path, writing: bool) -> None:
    """Root could put anything anywhere, so what is root's may be read."""
    if found.st_uid != os.geteuid() and (writing or found.st_uid != 0):
        raise UnsafeFile(
            f"{path} belongs to another user ({_user(found.st_uid)}), and hasten uses only what is its own: "
            f"{_ADVICE}"
        )


def _bounded(file: IO[bytes], path: Path, most_bytes: int) -> bytes:
    content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise UnsafeFile(
            f"{path} is larger than {most_bytes} bytes, and hasten reads no files that large: {_ADVICE}"
        )
    return content


def _kind(found: os.stat_result) -> str:
    return _KINDS.get(stat.S_IFMT(found.st_mode), "no file")


def _user(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"number {number}"
