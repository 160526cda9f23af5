"""OpenSSH's own server on each host of a test, with a key made for it; a program ``ssh`` that knows that key.

Nothing of the machine's own server or of ~/.ssh is read or changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from hasten.inside.sandbox.containment import die_with_parent

_PROGRAMS = ("sshd", "ssh", "ssh-keygen")
_PATIENCE_SECONDS = 20
_SERVER = """\
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
LogLevel ERROR
"""
_CLIENT = """\
IdentityFile {folder}/user_key
IdentitiesOnly yes
UserKnownHostsFile {folder}/known_hosts
GlobalKnownHostsFile none
StrictHostKeyChecking yes
"""


def why_not() -> str:
    """Why there can be no such servers here; "" where there can."""
    missing = [name for name in _PROGRAMS if shutil.which(name, path=_path()) is None]
    return f"{', '.join(missing)} missing: apt install openssh-server openssh-client" if missing else ""


@contextmanager
def servers(hosts: Mapping[str, Sequence[str]], folder: Path) -> Iterator[None]:
    """``hosts``: by name, the command line's beginning that runs something there. Leaves ``folder/ssh``."""
    for name in ("host_key", "user_key"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
    public = (folder / "host_key.pub").read_text()
    (folder / "known_hosts").write_text("".join(f"{name} {public}" for name in hosts))
    (folder / "server").write_text(_SERVER.format(folder=folder))
    (folder / "client").write_text(_CLIENT.format(folder=folder))
    real = shutil.which("ssh", path="/usr/local/bin:/usr/bin:/bin")
    (folder / "ssh").write_text(f'#!/bin/sh\nexec {real} -F {folder}/client "$@"\n')
    (folder / "ssh").chmod(0o755)
    os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    sshd = shutil.which("sshd", path=_path())
    assert sshd is not None
    running = [
        subprocess.Popen(
            [*enter, sshd, "-D", "-e", "-f", str(folder / "server")],
            stdin=subprocess.DEVNULL,
            preexec_fn=die_with_parent,
        )
        for enter in hosts.values()
    ]
    try:
        first = next(iter(hosts.values()))
        for name in hosts:
            _wait_for([*first, str(folder / "ssh"), name, "true"])
        yield
    finally:
        for process in running:
            process.terminate()
            process.wait()


def _wait_for(argv: list[str]) -> None:
    ends_by = time.monotonic() + _PATIENCE_SECONDS
    while True:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if not done.returncode:
            return
        assert time.monotonic() < ends_by, f"no ssh leads there: {done.stderr}"
        time.sleep(0.1)


def _path() -> str:
    return f"{os.environ['PATH']}:/usr/sbin:/sbin"
