"""What Landlock denies to a process, and what it leaves. Each test starts one: there is no way back."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from hasten.inside import landlock, mounts
from hasten.inside.landlock import granted, version, writing

from .test_protect import fingerprint

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
from hasten.inside.protect import Protection, protect

project, layers, layers_are_there, body = sys.argv[1:]
protection = protect([project], layers if layers_are_there else "", or_deny=True)
assert protection.kind == "landlock", protection
exec(body)
"""


class Ground:
    """A project folder with something in it, and beside it a folder that nobody protects."""

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
            [sys.executable, "-B", "-c", WORKER, str(self.project), str(self.beside), "", body],
            cwd=self.project, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def run(self, body: str) -> None:
        """It must not fail."""
        done = self.start(body)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


DENIED = {  # what it does: the code, and how it fails
    "overwrite": ("open('data.txt', 'w')", "PermissionError: [Errno 13] Permission denied: 'data.txt'"),
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
    "hard link to beside": ("os.link('data.txt', '../beside/h')", "OSError: [Errno 18] Invalid cross-device"),
    "pipe": ("os.mkfifo('pipe')", "PermissionError"),
    "socket": ("socket.socket(socket.AF_UNIX).bind('socket')", "PermissionError"),
    "sqlite": ("sqlite3.connect('log.db').execute(\"INSERT INTO log VALUES ('x')\")", "readonly database"),
    "sqlite, a new one": ("sqlite3.connect('n.db').execute('CREATE TABLE t (x)')", "unable to open database"),
    "numpy": ("import numpy; numpy.save('a.npy', numpy.ones(3))", "PermissionError"),
    "memmap": ("import numpy; numpy.memmap('a.npy', shape=3, mode='w+')", "PermissionError"),
    "torch": ("import torch; torch.save({}, 'm.pt')", "failed with strerror: Permission denied"),
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
@pytest.mark.parametrize("writer", DENIED)
def test_a_write_is_denied(ground: Ground, writer: str) -> None:
    before = fingerprint(ground.base)
    body, error = DENIED[writer]
    done = ground.start(body)
    assert (done.returncode, error in done.stderr) == (1, True), done.stderr
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
def test_writing_elsewhere_is_left(ground: Ground, body: str) -> None:
    before = fingerprint(ground.project)
    ground.run(body)
    assert fingerprint(ground.project) == before


@needs_landlock
def test_why_it_is_no_overlay_is_said(ground: Ground) -> None:
    ground.run("""
assert "can take the writes" in protection.reason
assert protection == Protection("landlock", protection.reason, (project,), ())
""")


@needs_landlock
def test_without_consent_writes_are_not_denied(ground: Ground) -> None:
    worker = WORKER.replace(", or_deny=True", "").replace('"landlock"', '"off"')
    body = "open('data.txt', 'w').write('new')"
    command = [sys.executable, "-B", "-c", worker, str(ground.project), "", "", body]
    subprocess.run(command, cwd=ground.project, check=True, timeout=60)
    assert (ground.project / "data.txt").read_text() == "new"


@linux
def test_where_neither_works_both_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from hasten.inside import protect

    def refuse(*_: object) -> None:
        raise OSError("the kernel refused Landlock: Function not implemented")

    monkeypatch.setattr(landlock, "deny_writes", refuse)
    monkeypatch.setattr(protect, "_unsuitable", lambda roots: "")  # threads of the tests
    protection = protect.protect([str(tmp_path)], "", or_deny=True)
    assert (protection.kind, protection.folders) == ("off", ())
    assert protection.reason.startswith(f"no directory outside {tmp_path} can take the writes")
    assert protection.reason.endswith("; and the kernel refused Landlock: Function not implemented")


@linux
def test_a_kernel_without_landlock_refuses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(landlock, "_CREATE_RULESET", 100_000)  # there is no such system call
    with pytest.raises(OSError, match="the kernel refused Landlock: Function not implemented"):
        landlock.deny_writes([str(tmp_path)])


# ---- which rights
@pytest.mark.parametrize(("number", "bits"), [(1, {1, *range(4, 13)}), (2, {1, *range(4, 14)})])
def test_rights_of_early_versions(number: int, bits: set[int]) -> None:
    assert writing(number) == sum(1 << bit for bit in bits)


@pytest.mark.parametrize("number", [3, 4, 5, 7, 20])
def test_rights_since_version_3(number: int) -> None:
    """Reading, executing (0, 2, 3) and ioctl on devices (15) are never taken away."""
    assert writing(number) == sum(1 << bit for bit in {1, *range(4, 15)})


# ---- which paths
@pytest.fixture
def tree(tmp_path: Path) -> Path:
    base = tmp_path.resolve()
    for folder in ("home/project/data", "home/project/layers", "home/other", "home/second/deep"):
        (base / folder).mkdir(parents=True)
    (base / "home" / "notes.txt").write_text("notes")
    return base


def below(base: Path, paths: list[str]) -> set[str]:
    return {str(Path(path).relative_to(base)) for path in paths if mounts.below(path, str(base))}


@linux
def test_all_beside_the_way_is_granted(tree: Path) -> None:
    paths = granted([str(tree / "home/project")])
    assert below(tree, paths) == {"home/other", "home/second", "home/notes.txt"}
    assert {"/dev", "/proc"} <= set(paths)
    ways = [str(parent) for parent in (tree / "home/project/data").parents]
    assert not set(paths) & set(ways)


@linux
def test_each_of_several_folders_is_left_out(tree: Path) -> None:
    folders = [str(tree / "home/project"), str(tree / "home/project/data"), str(tree / "home/second/deep")]
    assert below(tree, granted(folders)) == {"home/other", "home/notes.txt"}


@linux
def test_layers_are_granted_also_in_a_protected_folder(tree: Path) -> None:
    layers = str(tree / "home/project/layers")
    assert below(tree, granted([str(tree / "home")], layers)) == {"home/project/layers"}
    for folder in (layers, str(Path(layers).parent)):
        assert layers not in granted([layers], folder)


@linux
def test_other_names_of_what_is_protected_are_not_granted(tree: Path) -> None:
    (tree / "home/link").symlink_to("project")
    (tree / "home/project/log.txt").write_text("log")
    os.link(tree / "home/project/log.txt", tree / "home/log.txt")
    assert below(tree, granted([str(tree / "home/project")])) == {
        "home/other",
        "home/second",
        "home/notes.txt",
    }


@linux
@pytest.mark.parametrize(
    ("bound", "is_granted"),
    [("home/project", False), ("home/project/data", False), ("home", False), ("home/second", True)],
)
def test_mounts_of_what_is_protected_are_not_granted(
    tree: Path, monkeypatch: pytest.MonkeyPatch, bound: str, is_granted: bool
) -> None:
    """``home/other`` shows what lies at ``bound``."""
    found = mounts.mounted()
    place = mounts.holder(str(tree), found)
    root = os.path.join(place.root, os.path.relpath(tree / bound, place.point))
    again = mounts.Mount(str(tree / "home/other"), place.kind, place.device, root)
    monkeypatch.setattr(mounts, "mounted", lambda: [*found, again])
    assert ("home/other" in below(tree, granted([str(tree / "home/project")]))) is is_granted
