"""What Landlock denies to a process, and what it leaves. Each test starts one: there is no way back."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from hasten.inside.sandbox import landlock
from hasten.inside.sandbox.landlock import version, writing

from ...patience import PATIENCE_SECONDS
from ...thorough import cases
from ..ground import fingerprint

pytestmark = pytest.mark.attack("files")
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Landlock is a part of Linux")


def why_no_landlock() -> str:
    """Ask the kernel: "" if it has Landlock."""
    if not sys.platform.startswith("linux"):
        return "Landlock is a part of Linux"
    try:
        version()
    except OSError as refused:
        return str(refused)
    return ""


needs_landlock = pytest.mark.skipif(bool(why_no_landlock()), reason=why_no_landlock() or "it is there")

WORKER = """
import ctypes, mmap, os, pickle, shutil, socket, sqlite3, subprocess, sys, tempfile, threading
from pathlib import Path
from hasten.inside.sandbox.protect import Protection, protect

project, beside, body = sys.argv[1:]
protection = protect([project], "", through=[beside], or_deny=True)
assert protection.kind == "landlock", protection
exec(body)
"""


class Ground:
    """A project folder with something in it, and next to it a folder that may be written."""

    def __init__(self, base: Path) -> None:
        self.base = base.resolve()
        self.project = self.base / "project"
        self.beside = self.base / "beside"
        for folder in (self.project / "dir", self.project / "empty", self.beside):
            folder.mkdir(parents=True)
        (self.project / "data.txt").write_text("old\n")
        (self.project / "dir" / "inner.txt").write_text("inner")
        (self.project / "link").symlink_to("data.txt")
        (self.beside / "other.txt").write_text("other")
        database = sqlite3.connect(self.project / "log.db")
        with database:
            database.execute("CREATE TABLE log (line TEXT)")
        database.close()

    def start(self, body: str) -> subprocess.CompletedProcess[str]:
        """Run ``body`` in the project folder. There is no place for layers, so no overlay can be laid."""
        return subprocess.run(
            [sys.executable, "-B", "-c", WORKER, str(self.project), str(self.beside), body],
            cwd=self.project, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
        )  # fmt: skip

    def run(self, body: str) -> None:
        """It must not fail."""
        done = self.start(body)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


DENIED = {  # what it does: the code, and how it fails, as a pattern
    "overwrite": ("open('data.txt', 'w')", r"PermissionError: \[Errno 13\] Permission denied: 'data.txt'"),
    "append": ("open('data.txt', 'a')", "PermissionError"),
    "update": ("open('data.txt', 'r+')", "PermissionError"),
    "new file": ("open('new.txt', 'x')", "PermissionError"),
    "absolute path": ("open(os.path.join(project, 'dir', 'n'), 'w')", "PermissionError"),
    "through a symlink": ("open('link', 'w')", "PermissionError"),
    "through /proc": ("open('/proc/self/cwd/data.txt', 'w')", "PermissionError"),
    "rename": ("os.rename('data.txt', 'r')", "PermissionError"),
    "replace from beside": ("os.replace('../beside/other.txt', 'data.txt')", "PermissionError"),
    "move away": ("os.rename('data.txt', '../beside/r')", "PermissionError"),
    "move a folder away": ("os.rename('dir', '../beside/r')", "PermissionError"),
    "mkdir": ("os.mkdir('new')", "PermissionError"),
    "rmdir": ("os.rmdir('empty')", "PermissionError"),
    "rmtree": ("shutil.rmtree('dir')", "PermissionError"),
    "remove": ("os.remove('data.txt')", "PermissionError"),
    "symlink": ("os.symlink('data.txt', 's')", "PermissionError"),
    "hard link": ("os.link('data.txt', 'dir/h')", "PermissionError"),
    "hard link to beside": (
        "os.link('data.txt', '../beside/h')",
        r"OSError: \[Errno 18\] Invalid cross-device",
    ),
    "pipe": ("os.mkfifo('pipe')", "PermissionError"),
    "socket": ("socket.socket(socket.AF_UNIX).bind('socket')", "PermissionError"),
    "sqlite": ("sqlite3.connect('log.db').execute(\"INSERT INTO log VALUES ('x')\")", "readonly database"),
    "sqlite, a new one": ("sqlite3.connect('n.db').execute('CREATE TABLE t (x)')", "unable to open database"),
    "numpy": ("import numpy; numpy.save('a.npy', numpy.ones(3))", "PermissionError"),
    "memmap": ("import numpy; numpy.memmap('a.npy', shape=3, mode='w+')", "PermissionError"),
    "torch": (
        "import torch; torch.save({}, 'm.pt')",
        "failed with strerror: Permission denied|File m.pt cannot be opened",  # torch 2.9 gives no reason
    ),
    "torch, legacy": (
        "import torch; torch.save({}, 'm.pt', _use_new_zipfile_serialization=False)",
        "PermissionError",
    ),
    "C": (
        "libc = ctypes.CDLL(None, use_errno=True); assert not libc.fopen(b'data.txt', b'w'); "
        "raise OSError(ctypes.get_errno(), 'fopen')",
        "PermissionError",
    ),
    "subprocess": (
        "subprocess.run(['sh', '-c', 'echo new > data.txt'], check=True)",
        "cannot create data.txt: Permission denied",
    ),
    "thread": (
        "t = threading.Thread(target=lambda: open('data.txt', 'w')); t.start(); t.join(); sys.exit(1)",
        "PermissionError",
    ),
    "directly above": ("os.mkdir('../new')", "PermissionError"),
}


@needs_landlock
@pytest.mark.parametrize("writer", cases(DENIED, set(DENIED) - {"torch, legacy"}))
def test_a_write_is_denied(ground: Ground, writer: str) -> None:
    before = fingerprint(ground.base)
    body, error = DENIED[writer]
    done = ground.start(body)
    assert done.returncode == 1, done.stderr
    assert re.search(error, done.stderr), done.stderr
    assert fingerprint(ground.base) == before


@needs_landlock
def test_truncating_is_denied_since_linux_6_2(ground: Ground) -> None:
    if version() < 3:
        pytest.skip(f"this kernel's Landlock (version {version()}) cannot deny it")
    done = ground.start("os.truncate('data.txt', 0)")
    assert "PermissionError" in done.stderr
    assert (ground.project / "data.txt").read_text() == "old\n"


@needs_landlock
def test_everything_can_be_read(ground: Ground) -> None:
    ground.run("""
assert Path("data.txt").read_text() == Path("link").read_text() == "old\\n"
assert sorted(os.listdir()) == ["data.txt", "dir", "empty", "link", "log.db"]
assert sqlite3.connect("log.db").execute("SELECT * FROM log").fetchall() == []
with open("data.txt", "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory:
    assert memory[:3] == b"old"
subprocess.run(["sh", "-c", "cat data.txt > /dev/null"], check=True)
""")


@needs_landlock
@pytest.mark.parametrize(
    "body",
    [
        "open('../beside/other.txt', 'a').write('new'); assert os.path.getsize('../beside/other.txt') == 8",
        "os.makedirs('../beside/a'); Path('../beside/f').touch(); os.rename('../beside/f', '../beside/a/f')",
        "shutil.copytree('dir', '../beside/dir'); shutil.rmtree('../beside/dir')",
        "os.link('../beside/other.txt', '../beside/again')",
        "open('/dev/null', 'w').write('gone')",
        "tempfile.TemporaryFile(dir='/dev/shm').write(b'x')",
        "open('/proc/self/comm', 'w').write('trial')",
        "os.write(os.memfd_create('x'), b'x'); os.pipe()",
        "import torch; torch.ones(3).share_memory_()",
    ],
)
def test_writing_there_is_left(ground: Ground, body: str) -> None:
    before = fingerprint(ground.project)
    ground.run(body)
    assert fingerprint(ground.project) == before


@needs_landlock
def test_why_it_is_no_overlay_is_said(ground: Ground) -> None:
    ground.run("""
assert "no folder that can take the writes" in protection.reason
assert protection == Protection("landlock", protection.reason, (project,), {})
""")


@needs_landlock
def test_without_consent_writes_are_not_denied(ground: Ground) -> None:
    worker = WORKER.replace(", or_deny=True", "").replace('"landlock"', '"off"')
    body = "open('data.txt', 'w').write('new')"
    command = [sys.executable, "-B", "-c", worker, str(ground.project), str(ground.beside), body]
    subprocess.run(command, cwd=ground.project, check=True, timeout=PATIENCE_SECONDS)
    assert (ground.project / "data.txt").read_text() == "new"


@linux
def test_where_neither_works_both_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from hasten.inside.sandbox import protect

    def refuse(*_: object) -> None:
        raise OSError("the kernel refused Landlock: Function not implemented")

    monkeypatch.setattr(landlock, "deny_writes", refuse)
    monkeypatch.setattr(protect, "_unsuitable", lambda roots: "")  # threads of the tests
    protection = protect.protect([str(tmp_path)], "", or_deny=True)
    assert (protection.kind, protection.folders) == ("off", ())
    assert protection.reason.startswith("there is no folder that can take the writes")
    assert protection.reason.endswith("; and the kernel refused Landlock: Function not implemented")


@linux
def test_a_kernel_without_landlock_refuses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(landlock, "_CREATE_RULESET", 100_000)  # there is no such system call
    with pytest.raises(OSError, match="the kernel refused Landlock: Function not implemented"):
        landlock.deny_writes([])


# ---- which rights
@pytest.mark.parametrize(("number", "bits"), [(1, {1, *range(4, 13)}), (2, {1, *range(4, 14)})])
def test_rights_of_early_versions(number: int, bits: set[int]) -> None:
    assert writing(number) == sum(1 << bit for bit in bits)


@pytest.mark.parametrize("number", [3, 4, 5, 7, 20])
def test_rights_since_version_3(number: int) -> None:
    """Reading, executing (0, 2, 3) and ioctl on devices (15) are never taken away."""
    assert writing(number) == sum(1 << bit for bit in {1, *range(4, 15)})


# ---- where
ELSEWHERE = {  # what it does, outside the project folder
    "parent folder": "open('../up.txt', 'w')",
    "link that leads out": "os.symlink(beside, os.path.join(beside, 'l')); open('out/x', 'w')",
    "home": "open(os.path.expanduser('~/.profile-of-this-test'), 'w')",
    "temporary folder": "tempfile.mkdtemp(dir='/tmp')",
    "other temporary folder": "tempfile.mkdtemp(dir='/var/tmp')",
    "root of the file system": "os.mkdir('/folder-of-this-test')",
    "through /proc": "open('/proc/self/root' + os.path.dirname(project) + '/p', 'w')",
    "C": "assert ctypes.CDLL(None, use_errno=True).mkdir(b'../made', 0o777) == 0, 'Permission denied'",
    "child": "subprocess.run(['touch', '../touched'], check=True)",
    "unmount": "subprocess.run(['umount', '/proc'], check=True)",
    "mount": "subprocess.run(['mount', '-t', 'tmpfs', 'none', '/mnt'], check=True)",
    "look into process 1": "os.listdir('/proc/1/root/')",
}


@needs_landlock
@pytest.mark.parametrize("writer", ELSEWHERE)
def test_a_write_elsewhere_is_denied(ground: Ground, writer: str) -> None:
    aim = ground.base / "aim"
    aim.mkdir()
    (ground.project / "out").symlink_to(aim)
    names = sorted(os.listdir(ground.base))
    done = ground.start(ELSEWHERE[writer])
    assert done.returncode != 0
    assert any(word in done.stderr for word in ("denied", "not permitted", "must be superuser")), done.stderr
    assert sorted(os.listdir(ground.base)) == names
    assert list(aim.iterdir()) == []


@needs_landlock
def test_caches_of_libraries_can_be_written(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    (ground.base / "home/.cache").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(ground.base / "home"))
    ground.run("open(os.path.expanduser('~/.cache/weights'), 'w')")
    assert (ground.base / "home/.cache/weights").exists()
    assert "PermissionError" in ground.start("open(os.path.expanduser('~/notes'), 'w')").stderr


@needs_landlock
@pytest.mark.parametrize("named", ["project", "project/dir", "."])
def test_a_cache_that_is_the_projects_is_no_cache(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(ground.base / named))
    assert "PermissionError" in ground.start("open('dir/weights', 'w')").stderr
