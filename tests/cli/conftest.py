"""A folder with scripts in it, and commands typed there."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hasten.cli import run
from hasten.inside.job import Job

from ..patience import PATIENCE_SECONDS
from ..processes import started_with
from .typed import refused as refused

_HIS_OWN = ("OMP_", "MKL_", "MALLOC_", "LD_PRELOAD", "GLIBC_TUNABLES", "PYTHON", "HASTEN_", "COV_")
_MARK = "MADE_BY_THIS_TEST"


class Project:
    """A working directory of its own. What was started from it can be found by its environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.temporary = Path(tempfile.mkdtemp())  # for layers, and sockets, whose paths must be short
        weakref.finalize(self, shutil.rmtree, self.temporary, ignore_errors=True)
        self.folder.mkdir(parents=True)
        plain = {key: value for key, value in os.environ.items() if not key.startswith(_HIS_OWN)}
        self.environment = {**plain, "TMPDIR": str(self.temporary), _MARK: str(folder)}

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def python(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """What happens without hasten."""
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    def hasten(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return self.python("-m", "hasten.cli.main", *words, stdin=stdin)

    def start(self, *words: str, before: Callable[[], object] | None = None) -> subprocess.Popen[str]:
        """hasten in the background; its standard error can be read line by line."""
        return subprocess.Popen(
            [sys.executable, "-m", "hasten.cli.main", *words],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=before,
        )

    def processes(self) -> list[int]:
        """All living processes that came from here, told by the environment they were started with."""
        return started_with(_MARK, self.environment[_MARK])

    def layers(self) -> list[str]:
        """The temporary folders of hasten's that are still there."""
        return [path.name for path in self.temporary.glob("hasten*")]

    def left_over(self) -> list[str]:
        """Processes and temporary folders of hasten's that are still there."""
        found = self.layers()
        for number in self.processes():
            with suppress(OSError):
                found.append(Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ").decode())
        return found

    def end_all(self) -> None:
        for number in self.processes():
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)


def wait_until(condition: Callable[[], bool]) -> None:
    """Look again and again; fails after PATIENCE_SECONDS."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path)
    yield made
    made.end_all()


@pytest.fixture(scope="module")
def shared_project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """For runs that several tests look at."""
    made = Project(tmp_path_factory.mktemp("shared"))
    yield made
    made.end_all()


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """Those that ``hasten run`` would start in this empty folder with a script in it."""
    found: list[Job] = []

    def start(job: Job, *rest: object) -> int:
        found.append(job)
        return 0

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "start", start)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    Path("train.py").write_text("print('trains')\n")
    return found


@pytest.fixture(autouse=True, scope="session")
def interruptible() -> None:
    """A shell starts background commands with SIGINT ignored, and what we start would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
