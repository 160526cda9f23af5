"""Hosts for tests: network namespaces of this machine, joined by a bridge, each with a name of its own.

Needs root on Linux, iproute2 and util-linux. A host has its own interfaces, loopback, /etc/hosts and host
name; files, processes and users are this machine's.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from .patience import PATIENCE_SECONDS

_NEEDED = ("ip", "unshare", "mount")
_IMPAIRED = Path(__file__).with_name("impaired_link.py")


class Network:
    """Hosts h1, h2 and so on, at 10.77.0.1, 10.77.0.2 and so on."""

    def __init__(self, count: int) -> None:
        self.mark = f"hst{os.getpid()}"
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
        """Ends what runs on them, too."""
        for name in ["sw", *(f"h{number}" for number in range(1, self._count + 1))]:
            with suppress(subprocess.CalledProcessError):
                _end_all(self._space(name), "")
                _ip("netns", "del", self._space(name))
        self._names.close()

    def cut(self, host: int) -> None:
        """Nothing reaches it any more."""
        _ip("-n", self._space("sw"), "link", "set", f"p{host}", "down")

    def join(self, host: int) -> None:
        """The link that was cut is there again. Returns once the host has noticed."""
        _ip("-n", self._space("sw"), "link", "set", f"p{host}", "up")
        ends_by = time.monotonic() + PATIENCE_SECONDS
        while "LOWER_UP" not in _ip("-n", self._space(f"h{host}"), "link", "show", "eth0"):
            assert time.monotonic() < ends_by
            time.sleep(0.05)

    def limit(self, mbit: float, *hosts: int, burst: str = "256kb") -> None:
        """Each of ``hosts`` sends and receives so many megabits a second at most; without any, all do."""
        for space, end in self._ends(*hosts):
            words = f"qdisc replace dev {end} root tbf rate {mbit}mbit burst {burst} latency 50ms"
            _ip("netns", "exec", space, "tc", *words.split())

    def unlimited(self) -> None:
        """Take back what ``limit`` did."""
        for space, end in self._ends():
            with suppress(subprocess.CalledProcessError):  # it was not limited
                _ip("netns", "exec", space, "tc", "qdisc", "del", "dev", end, "root")

    def _ends(self, *hosts: int) -> Iterator[tuple[str, str]]:
        for number in hosts or range(1, self._count + 1):
            yield self._space(f"h{number}"), "eth0"
            yield self._space("sw"), f"p{number}"

    @contextmanager
    def losing(self, share: float) -> Iterator[None]:
        """Of the packets between the first two hosts, this share is lost."""
        with self._relayed(share, 0.0, ["p1", "p2"]):
            yield

    @contextmanager
    def delayed(self, seconds: float) -> Iterator[None]:
        """A packet takes so much longer from any host to any other."""
        switch, names = self._space("sw"), []
        for number in range(1, self._count + 1):
            outer, inner = f"q{number}", f"r{number}"
            _ip(*f"-n {switch} link add {outer} type veth peer name {inner}".split())
            _ip("-n", switch, "link", "set", outer, "master", "br0", "up")
            _ip("-n", switch, "link", "set", inner, "up")
            names += [f"p{number}", inner]
        try:
            with self._relayed(0.0, seconds / 2, names):  # a packet crosses two of these links
                yield
        finally:
            for number in range(1, self._count + 1):
                _ip("-n", switch, "link", "del", f"q{number}")

    @contextmanager
    def _relayed(self, loss: float, delay: float, ends: Sequence[str]) -> Iterator[None]:
        """A program passes the packets between each two of these interfaces of the switch."""
        switch, ports = self._space("sw"), [end for end in ends if end.startswith("p")]
        for port in ports:
            _ip("-n", switch, "link", "set", port, "nomaster")
        words = [sys.executable, str(_IMPAIRED), str(loss), str(delay), *ends]
        relay = subprocess.Popen(["ip", "netns", "exec", switch, *words], stdin=subprocess.DEVNULL)
        try:
            yield
        finally:
            relay.kill()
            relay.wait()
            for port in ports:
                _ip("-n", switch, "link", "set", port, "master", "br0")

    def command(self, host: int, argv: Sequence[str]) -> list[str]:
        """What runs ``argv`` on that host, in the environment and folder that it is given."""
        inside = 'mount --bind "$1" /etc/hosts && hostname "$2" && shift 2 && exec "$@"'
        on = ["ip", "netns", "exec", self._space(f"h{host}"), "unshare", "-um", "sh", "-c", inside, "sh"]
        return [*on, self._names.name, f"h{host}", *argv]

    def start(
        self, host: int, command: Sequence[str], environment: Mapping[str, str], folder: Path
    ) -> subprocess.Popen[str]:
        """``command`` on that host."""
        return subprocess.Popen(
            self.command(host, command),
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def processes(self, host: int, word: str = "") -> list[int]:
        """What runs on a host, in the order of their numbers; with a ``word``, what has it in its command
        line.
        """
        pids = sorted(map(int, _ip("netns", "pids", self._space(f"h{host}")).split()))
        return [pid for pid in pids if word in _words_of(pid)]

    def end_all(self, host: int, word: str = "") -> None:
        """Kill what runs on a host; with a ``word``, what has it in its command line, and all below it."""
        _end_all(self._space(f"h{host}"), word)

    def _space(self, name: str) -> str:
        return f"{self.mark}-{name}"


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
    if sys.platform != "linux" or os.geteuid() != 0:
        return "hosts made of network namespaces need root on Linux"
    missing = [name for name in _NEEDED if shutil.which(name) is None]
    if missing:
        return f"{' and '.join(missing)} is missing: apt install iproute2 util-linux"
    try:
        with network(1):
            return ""
    except subprocess.CalledProcessError as error:
        return f"{' '.join(error.cmd)}: {error.stderr.strip()}"


def _end_all(space: str, word: str) -> None:
    pids = [int(number) for number in _ip("netns", "pids", space).split()]
    found = {pid for pid in pids if word in _words_of(pid)}
    while more := {pid for pid in pids if _parent_of(pid) in found} - found:
        found |= more
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


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
