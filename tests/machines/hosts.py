"""Hosts for tests: network namespaces of this machine, joined by a bridge, each with a name of its own.

Needs root and iproute2. A host has its own interfaces, loopback, /etc/hosts and host name; files, processes
and users are this machine's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path


def why_not() -> str:
    """Why there can be no such hosts here; "" where there can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "hosts made of network namespaces need root on Linux"
    missing = [name for name in ("ip", "unshare") if shutil.which(name) is None]
    if missing:
        return f"{' and '.join(missing)} is missing: apt install iproute2 util-linux"
    probe = f"hasten-probe-{os.getpid()}"
    try:
        _ip("netns", "add", probe)
        _ip("link", "add", "probe0", "netns", probe, "type", "veth", "peer", "name", "probe1", "netns", probe)
    except subprocess.CalledProcessError as error:
        return f"this kernel makes no network namespaces with veth: {error.stderr.strip()}"
    finally:
        with suppress(subprocess.CalledProcessError):
            _ip("netns", "del", probe)
    return ""


@dataclass(frozen=True)
class Hosts:
    """``names`` are what they call each other by; programs in ``folder`` are found before others there."""

    prefix: str
    names: tuple[str, ...]
    folder: Path

    def address(self, name: str) -> str:
        return f"10.77.0.{self.names.index(name) + 1}"

    def start(self, name: str, *argv: str) -> list[str]:
        """The command line that runs ``argv`` on a host, in the environment and folder that it is given."""
        inner = ["sh", "-c", 'hostname "$0"; exec "$@"', name, *argv]
        return ["ip", "netns", "exec", f"{self.prefix}{name}", "unshare", "--uts", "--", *inner]

    def end_all(self, name: str, word: str = "") -> None:
        """Kill what runs on a host; with a ``word``, what has it in its command line, and all below it."""
        pids = [int(number) for number in _ip("netns", "pids", f"{self.prefix}{name}").split()]
        found = {pid for pid in pids if word in _words_of(pid)}
        while more := {pid for pid in pids if _parent_of(pid) in found} - found:
            found |= more
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, 9)


@contextmanager
def hosts(folder: Path, count: int = 2) -> Iterator[Hosts]:
    """``count`` of them, h1, h2, ..., gone at the end with what runs in them."""
    prefix = f"hasten{os.getpid()}-"
    names = tuple(f"h{number + 1}" for number in range(count))
    made = Hosts(prefix, names, folder)
    try:
        _make(made)
        yield made
    finally:
        for name in (*names, "sw"):
            with suppress(subprocess.CalledProcessError):
                made.end_all(name)
                _ip("netns", "del", f"{prefix}{name}")
            shutil.rmtree(f"/etc/netns/{prefix}{name}", ignore_errors=True)


def _make(made: Hosts) -> None:
    switch = f"{made.prefix}sw"
    _ip("netns", "add", switch)
    _ip("-n", switch, "link", "add", "br0", "type", "bridge")
    _ip("-n", switch, "link", "set", "br0", "up")
    known = "".join(f"{made.address(name)} {name}\n" for name in made.names)
    for name in made.names:
        host = f"{made.prefix}{name}"
        etc = Path("/etc/netns", host)
        etc.mkdir(parents=True)
        (etc / "hosts").write_text(f"127.0.0.1 localhost\n{known}")
        _ip("netns", "add", host)
        _ip(
            "link", "add", "eth0", "netns", host, "type", "veth", "peer", "name", f"p-{name}", "netns", switch
        )
        _ip("-n", switch, "link", "set", f"p-{name}", "master", "br0", "up")
        _ip("-n", host, "link", "set", "lo", "up")
        _ip("-n", host, "addr", "add", f"{made.address(name)}/24", "dev", "eth0")
        _ip("-n", host, "link", "set", "eth0", "up")
    hasten = made.folder / "hasten"
    hasten.write_text(f'#!/bin/sh\nexec {sys.executable} -m hasten.cli.main "$@"\n')
    hasten.chmod(0o755)


def _words_of(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    return ""


def _parent_of(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    return 0


def _ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout
