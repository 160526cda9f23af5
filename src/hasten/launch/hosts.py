"""Names of hosts, as they are typed or in a file: checked before anything else sees them.

They are put on ssh's and mpirun's command lines, so a host is nothing that could be read as an option, as
shell syntax or as a list. Sources: RFC 1123, section 2.1, and RFC 4291, section 2.2; mpirun(1) for
``slots=``, mpiexec's documentation for ``host:slots``.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,252}[A-Za-z0-9])?")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
_IPV6 = re.compile(r"[0-9A-Fa-f]{0,4}(:[0-9A-Fa-f]{0,4}){2,7}")
_SLOTS = re.compile(r"(?:\s+slots\s*=\s*|:)([0-9]{1,4})$")
_MOST_BYTES = 2**20
_MOST_HOSTS = 4096


@dataclass(frozen=True)
class Host:
    """``name``: as ssh takes it, perhaps with a user. ``slots``: how many ranks a file gives it; 0 unsaid."""

    name: str
    slots: int = 0


def checked_host(text: str, where: str) -> str:
    """``text``, if it is a host or user@host; else raises UsageError. ``where``: what it was read from."""
    user, at, name = text.rpartition("@")
    if (at and not _USER.fullmatch(user)) or not (_NAME.fullmatch(name) or _IPV6.fullmatch(name)):
        shown = repr(text if len(text) <= 60 else f"{text[:60]}...")
        raise UsageError(
            f"{where}: {shown} is not a host: expected a name or an address, perhaps as user@host"
        )
    return text


def without_user(host: str) -> str:
    """What other hosts reach it by."""
    return host.rpartition("@")[2]


def place_of(host: str, port: int) -> str:
    """As HOST:PORT."""
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


def listed(text: str) -> list[Host]:
    """The hosts of ``--hosts h1,h2``."""
    return _distinct([Host(checked_host(part.strip(), "--hosts")) for part in text.split(",")], "--hosts")


def in_file(path: str) -> list[Host]:
    """The hosts of a hostfile: one a line, perhaps with ``slots=N`` or ``:N``; ``#`` begins a comment."""
    found = []
    for number, line in enumerate(_text_of(path).split("\n"), 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        slots = None if _IPV6.fullmatch(text) else _SLOTS.search(text)
        name = text[: slots.start()] if slots else text
        found.append(Host(checked_host(name, f"{path}, line {number}"), int(slots[1]) if slots else 0))
    if not found:
        raise UsageError(f"{path} names no host: write one on each line")
    return _distinct(found, path)


def slots_of(hosts: Sequence[Host]) -> int | None:
    """How many ranks each host has by the hostfile; None if it does not say so for all of them.

    Raises UsageError if the numbers differ.
    """
    numbers = {host.slots for host in hosts}
    if len(numbers) > 1:
        raise UsageError(
            "the hosts of the hostfile have different slots, and hasten starts as many ranks on each: say "
            "how many by --nproc-per-node"
        )
    return next(iter(numbers), 0) or None


def _distinct(hosts: list[Host], where: str) -> list[Host]:
    names = [host.name for host in hosts]
    twice = next((name for name in names if names.count(name) > 1), None) if len(names) < _MOST_HOSTS else ""
    if twice == "":
        raise UsageError(f"{where}: {len(hosts)} hosts, and hasten takes at most {_MOST_HOSTS}")
    if twice is not None:
        raise UsageError(
            f"{where}: {twice} is named twice: one host has one line; --nproc-per-node says its ranks"
        )
    return hosts


def _text_of(path: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UsageError(f"{path} is not a plain file: name a file with one host on each line")
            text = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    if len(text) > _MOST_BYTES:
        raise UsageError(f"{path} is larger than 1 MB: name a file with one host on each line")
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not text: name a file with one host on each line") from None
