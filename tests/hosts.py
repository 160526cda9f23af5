"""Hosts for tests: network namespaces joined by a bridge, each with a name of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

_NEEDED = ("ip", "unshare", "mount")


class Network:
    """Hosts h1, h2 and so on, at 10.77.0.1, 10.77.0.2 and so on."""

    def __init__(self, count: int) -> None:
        self._mark = f"hst{os.getpid()}"
        self._names = tempfile.NamedTemporaryFile("w", prefix="hosts-")  # noqa: SIM115
        lines = ["127.0.0.1 localhost", *(f"{self.address(n)} h{n}" for n in range(1, count + 1))]
        self._names.write("\n".join([*lines, ""]))
        self._names.flush()
        self._count = count

    def address(self, host: int) -> str:
        return f"10.77.0.{host}"

    def up(self) -> None:
        switch = self._space("sw")
        _ip("netns", "add", switch)
        _ip("-n", switch, "link", "add", "br0", "type", "bridge")
        _ip("-n", switch, "link", "set", "br0", "up")
        for number in range(1, self._count + 1):
            host, port = self._space(f"h{number}"), f"p{number}"
            _ip("netns", "add", host)
            _ip("-n", host, "link", "set", "lo", "up")
            _ip(*f"link add eth0 netns {host} type veth peer name {port} netns {switch}".split())
            _ip("-n", switch, "link", "set", port, "master", "br0", "up")
            _ip("-n", host, "addr", "add", f"{self.address(number)}/24", "dev", "eth0")
            _ip("-n", host, "link", "set", "eth0", "up")

    def down(self) -> None:
        for name in ["sw", *(f"h{number}" for number in range(1, self._count + 1))]:
            subprocess.run(["ip", "netns", "del", self._space(name)], capture_output=True, check=False)
        self._names.close()

    def cut(self, host: int) -> None:
        """Nothing reaches it any more."""
        _ip("-n", self._space("sw"), "link", "set", f"p{host}", "down")

    def limit(self, mbit: int) -> None:
        """Each host sends and receives so many megabits a second at most."""
        for number in range(1, self._count + 1):
            ends = (self._space(f"h{number}"), "eth0"), (self._space("sw"), f"p{number}")
            for space, end in ends:
                words = (
                    f"exec {space} tc qdisc add dev {end} root tbf rate {mbit}mbit burst 256kb latency 50ms"
                )
                _ip("netns", *words.split())

    def start(
        self, host: int, command: Sequence[str], environment: Mapping[str, str], folder: Path
    ) -> subprocess.Popen[str]:
        """``command`` on that host."""
        inside = 'mount --bind "$1" /etc/hosts && hostname "$2" && shift 2 && exec "$@"'
        return subprocess.Popen(
            [
                *("ip", "netns", "exec", self._space(f"h{host}"), "unshare", "-um", "sh", "-c", inside, "sh"),
                *(self._names.name, f"h{host}", *command),
            ],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _space(self, name: str) -> str:
        return f"{self._mark}-{name}"


@contextmanager
def network(count: int) -> Iterator[Network]:
    made = Network(count)
    try:
        made.up()
        yield made
    finally:
        made.down()


@cache
def why_no_hosts() -> str:
    """Why there can be none here; "" where there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [name for name in _NEEDED if shutil.which(name) is None]
    if missing:
        return f"there is no {', '.join(missing)}"
    try:
        with network(1):
            return ""
    except subprocess.CalledProcessError as error:
        return f"{' '.join(error.cmd)}: {error.stderr.strip()}"


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
