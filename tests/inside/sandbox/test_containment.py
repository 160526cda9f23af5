"""What a contained process starts ends with it, however that was started. Each test as root and not."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hasten.inside.process.orphans import end_all_below
from hasten.inside.sandbox.containment import contain

from ...patience import PATIENCE_SECONDS
from ...processes import started_with
from ..ground import sources_for
from ..users import NOBODY, identity, python_for

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="namespaces are Linux's")

STAND_OVER = """
import os, signal, subprocess, sys, time
sys.path.insert(0, {path!r})
from hasten.inside.sandbox.containment import stand_over
stand_over()
"""
MARK = "CONTAINED_BY_THIS_TEST"
BEGIN = """
import os, signal, subprocess, sys, time
sys.path.insert(0, {path!r})
from hasten.inside.sandbox.containment import contain

reason = contain()
if reason:
    print(reason)
    sys.exit(42)
"""
LEAVES_CHILDREN = """
subprocess.Popen(["sleep", "600"])
subprocess.Popen(["sleep", "600"], start_new_session=True)
stopped = subprocess.Popen(["sleep", "600"], preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN))
stopped.send_signal(signal.SIGSTOP)
child = os.fork()
if child == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
os.waitpid(child, 0)
print("ready", flush=True)
"""


class Place:
    """A folder that a user may read, and processes started from it, told by a mark in their environment."""

    def __init__(self, folder: Path, user: int | None) -> None:
        self.folder = folder
        self.user = user
        self.package = str(sources_for(python_for(user)))  # where anybody may read it

    def start(self, body: str, begin: str = BEGIN) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [python_for(self.user), "-c", begin.format(path=self.package) + body],
            env={"PATH": os.environ["PATH"], MARK: str(self.folder)},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **identity(self.user),
        )

    def says(self, body: str) -> str:
        process = self.start(body)
        said, _ = process.communicate(timeout=PATIENCE_SECONDS)
        if process.returncode == 42:
            pytest.skip(f"no process namespaces here: {said.strip()}")
        return said

    def living(self) -> list[str]:
        """Command lines of what came from here and is not over."""
        found = []
        for number in started_with(MARK, str(self.folder)):
            with contextlib.suppress(OSError):
                found.append(Path(f"/proc/{number}/cmdline").read_text().replace("\0", " "))
        return found

    def empties(self) -> bool:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.living() and time.monotonic() < deadline:
            time.sleep(0.02)
        return not self.living()


@pytest.fixture(params=["root", "another user"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    user = None
    if request.param == "another user":
        if os.geteuid() != 0:
            pytest.skip("only root can be another user")
        user = NOBODY
    elif os.geteuid() != 0:
        pytest.skip("these tests do not run as root")
    if not python_for(user):
        pytest.skip("there is no Python >= 3.10 that an unprivileged user may run")
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield Place(folder, user)
    shutil.rmtree(folder)


def test_what_it_leaves_behind_ends_with_it(place: Place) -> None:
    said = place.says(LEAVES_CHILDREN)
    assert said == "ready\n"
    assert place.empties()


def test_what_it_leaves_behind_ends_when_it_is_killed(place: Place) -> None:
    with place.start(LEAVES_CHILDREN + "time.sleep(600)") as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        running = len(place.living())
        process.kill()
    if line != "ready\n":
        pytest.skip(f"no process namespaces here: {line.strip()}")
    assert running == 7, "three of ours and four children"
    assert place.empties()


def test_a_stopped_one_ends_with_whoever_started_it(place: Place) -> None:
    """The kernel kills it, although no process can send it a signal any more."""
    body = BEGIN.format(path=place.package) + LEAVES_CHILDREN + "time.sleep(600)"
    parent = f"""
import subprocess, sys, os, signal, time
child = subprocess.Popen([sys.executable, "-c", {body!r}], start_new_session=True, stdout=subprocess.PIPE)
print(child.stdout.readline().decode(), end="", flush=True)
os.killpg(child.pid, signal.SIGSTOP)
print("stopped", flush=True)
time.sleep(600)
"""
    with subprocess.Popen(
        [python_for(place.user), "-c", parent],
        env={"PATH": os.environ["PATH"], MARK: str(place.folder)},
        stdout=subprocess.PIPE,
        text=True,
        **identity(place.user),
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        if first == "ready\n":
            assert process.stdout.readline() == "stopped\n"
        process.kill()
    if first != "ready\n":
        pytest.skip(f"no process namespaces here: {first.strip()}")
    assert place.empties()


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("sys.exit(0)", 0),
        ("sys.exit(7)", 7),
        ("os._exit(255)", 255),
        ("raise ValueError", 1),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV),
    ],
)
def test_it_is_seen_to_end_as_it_did(place: Place, end: str, code: int) -> None:
    process = place.start("sys.stderr = open(os.devnull, 'w')\n" + end)
    process.communicate(timeout=PATIENCE_SECONDS)
    if process.returncode == 42:
        pytest.skip("no process namespaces here")
    assert process.returncode == code


def test_proc_shows_the_namespace_and_itself(place: Place) -> None:
    said = place.says(
        "print(sorted(n for n in os.listdir('/proc') if n.isdigit()), os.getpid(), os.readlink('/proc/self'))"
    )
    assert said == "['1', '2'] 2 2\n"


def test_shared_memory_that_was_there_is_the_same_and_what_is_new_vanishes(place: Place) -> None:
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as there:
        Path(there.name).chmod(0o666)
        said = place.says(
            f"path = {there.name!r}\n"
            "open(path, 'w').write('from inside')\n"
            "from multiprocessing.shared_memory import SharedMemory\n"
            "memory = SharedMemory(create=True, size=4096)\n"
            "name = memory.name.lstrip('/')\n"
            "print(name if os.path.exists('/dev/shm/' + name) else 'not there', flush=True)\n"
            "os._exit(0)\n"
        )
        assert said != "not there\n"
        assert Path(there.name).read_text() == "from inside"
        assert said.strip() not in os.listdir("/dev/shm")


def test_where_the_kernel_refuses_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError("the kernel refused unshare: Operation not permitted")

    monkeypatch.setattr("hasten.inside.sandbox.mounts.leave_shared_processes", refuse)
    before = os.getpid(), os.readlink("/proc/self/ns/pid_for_children"), os.listdir("/proc/self/fd")
    assert contain() == "the kernel refused unshare: Operation not permitted"
    assert (os.getpid(), os.readlink("/proc/self/ns/pid_for_children"), os.listdir("/proc/self/fd")) == before


# ---- where the kernel refuses namespaces
def stood_over(place: Place, then: str) -> str:
    return STAND_OVER.format(path=place.package) + LEAVES_CHILDREN + then


@pytest.mark.attack("signals")
@pytest.mark.parametrize(
    ("then", "code"),
    [("", 0), ("sys.exit(7)", 7), ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL)],
    ids=["it ends", "it fails", "it is killed"],
)
def test_without_namespaces_what_it_leaves_ends_with_it(place: Place, then: str, code: int) -> None:
    with place.start(stood_over(place, then), begin="") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert process.wait(timeout=PATIENCE_SECONDS) == code
    assert place.living() == [], "gone before it is seen to end"


@pytest.mark.attack("signals")
@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
def test_without_namespaces_it_ends_with_whoever_started_it(place: Place, stopped: bool) -> None:
    """As soon as it runs again."""
    parent = f"""
import subprocess, sys, os, signal, time
body = {stood_over(place, "time.sleep(600)")!r}
child = subprocess.Popen([sys.executable, "-c", body], start_new_session=True, stdout=subprocess.PIPE)
print(child.stdout.readline().decode(), end="", flush=True)
if {stopped}:
    os.killpg(child.pid, signal.SIGSTOP)
print(child.pid, flush=True)
time.sleep(600)
"""
    with place.start(parent, begin="") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        worker = int(process.stdout.readline())
        process.kill()
    if stopped:
        os.killpg(worker, signal.SIGCONT)
    assert place.empties()


@pytest.mark.attack("signals")
def test_without_namespaces_all_that_it_started_can_be_ended_from_outside(place: Place) -> None:
    with place.start(stood_over(place, "time.sleep(600)"), begin="") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert len(place.living()) == 6, "two of ours and four children"
        end_all_below(process.pid)
        assert process.wait(timeout=PATIENCE_SECONDS) == -signal.SIGKILL
    assert place.living() == []


@pytest.mark.attack("signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_without_namespaces_signals_to_its_group_are_the_workers(
    place: Place, number: signal.Signals
) -> None:
    heard = f"signal.signal({int(number)}, lambda *_: (os.write(1, b'heard\\n'), os._exit(3)))"
    body = STAND_OVER.format(path=place.package) + heard + "\nprint('ready', flush=True)\ntime.sleep(600)"
    with place.start(body, begin="") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, number)
        assert process.stdout.readline() == "heard\n"
        assert process.wait(timeout=PATIENCE_SECONDS) == 3
