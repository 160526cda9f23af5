"""A training on two hosts to which something happens in the middle, and what is seen of it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from ..cluster import PATIENCE_SECONDS, Cluster, until

OWN, OURS = "of_its_own_ranks.py", "of_no_ranks.py"
_HERE = Path(__file__).parent
GO = "go"
DEADLINE_SECONDS = 8


@dataclass
class Seen:
    """``lines``: what came, each with the seconds since it happened. ``steps``: rank 0's, likewise; those
    with negative times came before. ``ended``: what ranks left at their end.
    """

    code: int
    end_seconds: float
    lines: list[tuple[float, str]]
    steps: list[tuple[float, int]]
    ended: list[dict[str, object]] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(line for _, line in self.lines)

    def notice_seconds(self, said: str) -> float | None:
        """When the first line came in which ``said``, a pattern, is found."""
        return next((seconds for seconds, line in self.lines if re.search(said, line)), None)

    @property
    def recover_seconds(self) -> float | None:
        """When the next step was done, the first of those that were done again if there are any."""
        again = [
            seconds for n, (seconds, step) in enumerate(self.steps) if n and step <= self.steps[n - 1][1]
        ]
        return next((seconds for seconds in (*again, *dict(self.steps)) if seconds > 0), None)

    @property
    def again(self) -> int:
        """Steps done more than once."""
        return len(self.steps) - len({step for _, step in self.steps})


class Training:
    """``hasten run`` typed at a host, whose output is read as it comes."""

    def __init__(self, bed: Bed, argv: Sequence[str], host: str) -> None:
        self._bed = bed
        self.process = bed.cluster.start(*argv, host=host).process
        self._lines: list[tuple[float, str]] = []
        pipes = (self.process.stdout, self.process.stderr)
        self._readers = [threading.Thread(target=self._read, args=(pipe,), daemon=True) for pipe in pipes]
        for reader in self._readers:
            reader.start()

    def _read(self, pipe: IO[str]) -> None:
        with pipe:
            for line in pipe:
                self._lines.append((time.monotonic(), line.rstrip("\n")))

    @property
    def text(self) -> str:
        return "\n".join(line for _, line in self._lines)

    def ended(self, happened: float) -> Seen:
        """What was seen of it, when it has ended by itself."""
        try:
            code = self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"it did not end within {PATIENCE_SECONDS} s:\n{self.text}") from None
        ended = time.monotonic()
        for reader in self._readers:
            reader.join()
        lines = sorted((at - happened, line) for at, line in self._lines)
        return Seen(code, ended - happened, lines, self._bed.steps(happened), self._bed.left())


class Bed:
    """``words`` of ``start`` are the script's own; those of ``asked`` are hasten's."""

    def __init__(self, cluster: Cluster, script: str = OWN) -> None:
        self.cluster, self.script = cluster, script
        self.network = cluster.hosts.network
        cluster.environment |= {"OMP_NUM_THREADS": "1", "HASTEN_DEADLINE": str(DEADLINE_SECONDS)}
        for name in (OWN, OURS):
            cluster.write(name, (_HERE / name).read_text())

    @property
    def folder(self) -> Path:
        return self.cluster.folder

    def start(
        self, *words: str, asked: Sequence[str] = (), hosts: str = "h1,h2", host: str = "h1"
    ) -> Training:
        """Returns at once."""
        ranks = ["--hosts", hosts, "--nproc-per-node", "1"] if hosts else []
        argv = (*self.cluster.entry, "run", "--no-plan", *ranks, *asked, self.script, *words)
        return Training(self, argv, host)

    def to_the_middle(self, training: Training, ranks: int = 2) -> None:
        """Return once all stand there."""
        many = ranks if self.script == OWN else 1

        def there() -> bool:
            assert training.process.poll() is None, training.text
            return len(list(self.folder.glob("middle-*"))) >= many

        until(there)

    def go_on(self) -> float:
        """Let all go on. Returns when that was."""
        now = time.monotonic()
        self.cluster.write(GO, "")
        return now

    @staticmethod
    def now() -> float:
        return time.monotonic()

    @staticmethod
    def stand(seconds: float) -> None:
        """A fault that lasts so long."""
        time.sleep(seconds)

    def forget_the_middle(self) -> None:
        for path in self.folder.glob("middle-*"):
            path.unlink()

    def beside(self, name: str) -> Bed:
        """Another training on the same hosts, in a folder of its own."""
        (self.folder / name).mkdir()
        return Bed(replace(self.cluster, folder=self.folder / name), self.script)

    # ---- what is there
    def ranks(self) -> list[int]:
        """All processes of ranks on both hosts."""
        return [pid for host in (1, 2) for pid in self.network.processes(host, "bootstrap.py")]

    def rank(self, number: int, host: int) -> int:
        """The process that trains as that rank."""
        mark = f"RANK={number}" if self.script == OWN else f'"rank": {number}, "world_size"'
        found = [pid for pid in self.network.processes(host, "bootstrap.py") if mark in _environment(pid)]
        assert found, f"no rank {number} on h{host}"
        return found[-1]  # below those that only guard it

    def signal(self, number: int, host: int, what: signal.Signals) -> None:
        os.kill(self.rank(number, host), what)

    def steps(self, happened: float) -> list[tuple[float, int]]:
        """Rank 0's steps, and when they ended."""
        path = self.folder / "steps-0"
        rows = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return [(float(at) - happened, int(step)) for step, at in rows]

    def left(self) -> list[dict[str, object]]:
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("ended-*.json"))]

    @contextmanager
    def small_folder(self, name: str, host: int, kilobytes: int) -> Iterator[None]:
        """A folder that is another one on that host, with so much room."""
        (self.folder / name).mkdir(exist_ok=True)
        (server,) = self.network.processes(host, "sshd")[:1]
        enter = ["nsenter", "-t", str(server), "-m"]
        where = str(self.folder / name)
        size = f"size={kilobytes}k"
        subprocess.run([*enter, "mount", "-t", "tmpfs", "-o", size, "tmpfs", where], check=True)
        try:
            yield
        finally:
            subprocess.run([*enter, "umount", "-l", where], check=True)

    def fill(self, name: str, host: int) -> None:
        """Leave no room in such a folder."""
        (server,) = self.network.processes(host, "sshd")[:1]
        filled = ["dd", "if=/dev/zero", f"of={self.folder / name / 'filler'}", "bs=4k"]
        subprocess.run(["nsenter", "-t", str(server), "-m", *filled], check=False, capture_output=True)


def _environment(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_text(errors="replace")
    return ""


def in_one_process(folder: Path, script: str) -> list[float]:
    """The parameters where nothing of hasten's or of several hosts is in it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / GO).touch()
    subprocess.run(
        [sys.executable, str(_HERE / script)], cwd=folder, check=True, timeout=PATIENCE_SECONDS,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    (left,) = [json.loads(path.read_text()) for path in folder.glob("ended-0.json")]
    found = left["parameters"]
    assert isinstance(found, list)
    return found
