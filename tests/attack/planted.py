"""What an attacker can put where a file of ours is expected."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

SECRET = b"alias ls='ls -l'\n"  # of a file that must stay as it is


def victim(path: Path) -> Path:
    """A file of the user's outside the project."""
    found = path.absolute()
    while found.name not in ("", "project"):
        found = found.parent
    return found.parent / ".bashrc"


def _link(path: Path) -> None:
    path.symlink_to(victim(path))


def _dangling(path: Path) -> None:
    path.symlink_to(victim(path).with_name("not-there"))


def _link_to_folder(path: Path) -> None:
    path.symlink_to(victim(path).parent, target_is_directory=True)


def _link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def _device(path: Path) -> None:
    try:
        os.mknod(path, 0o666 | 0o020000, os.makedev(1, 5))  # /dev/zero
    except OSError:
        pytest.skip("only root may make a device")


def _socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # a socket's path must be short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def _of_another(path: Path) -> None:
    path.write_bytes(b"")
    _give_away(path)


def _folder_of_another(path: Path) -> None:
    path.mkdir()
    _give_away(path)


def _give_away(path: Path) -> None:
    try:
        os.chown(path, 12345, 12345)
    except OSError:
        pytest.skip("only root may give a file away")


def _hard_link(path: Path) -> None:
    os.link(victim(path), path)


LINKS: dict[str, Callable[[Path], None]] = {
    "a link": _link,
    "a dangling link": _dangling,
    "a link to a folder": _link_to_folder,
    "a link to itself": _link_to_itself,
}
SPECIAL: dict[str, Callable[[Path], None]] = {
    "a pipe": os.mkfifo,
    "a socket": _socket,
    "a device": _device,
}
NO_FILE = {**LINKS, **SPECIAL, "a folder": Path.mkdir, "a file of another's": _of_another}
NO_FOLDER = {**LINKS, **SPECIAL, "a folder of another's": _folder_of_another}
IN_PLACE = {**NO_FILE, "a second name": _hard_link}  # where it would be written without being replaced
