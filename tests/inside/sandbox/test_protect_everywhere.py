"""A protected process writes in many ways, in many places outside its project: all of it stays as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product
from typing import Any

import pytest

from ...thorough import cases
from ..ground import (
    Ground,
    as_root,
    as_user,
    fingerprint,
    in_own_mounts,
    mount,
)

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="protection is for Linux"),
    pytest.mark.attack("files"),
]

# Each changes the folder ``there`` and reads back what it did.
WAYS = {
    "open": "(there / 'data.txt').write_text('new'); assert (there / 'data.txt').read_text() == 'new'",
    "os.open": """
descriptor = os.open(there / 'made', os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
assert os.write(descriptor, b'new') == 3
assert (there / 'made').read_bytes() == b'new'
""",
    "relative to a descriptor": """
folder = os.open(there, os.O_RDONLY | os.O_DIRECTORY)
os.close(os.open('made', os.O_CREAT | os.O_WRONLY, dir_fd=folder))
os.unlink('data.txt', dir_fd=folder)
assert (there / 'made').exists() and not (there / 'data.txt').exists()
""",
    "nameless, then linked": """
descriptor = os.open(there, os.O_TMPFILE | os.O_WRONLY)
os.write(descriptor, b'new')
named, follow = os.fsencode(f'/proc/self/fd/{descriptor}'), 0x400
assert ctypes.CDLL(None).linkat(-100, named, -100, os.fsencode(there / 'made'), follow) == 0
assert (there / 'made').read_bytes() == b'new'
""",
    "C library": """
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(libc.fopen(os.fsencode(there / 'data.txt'), b'w'))
assert libc.fwrite(b'new', 1, 3, file) == 3 and libc.fclose(file) == 0
assert (there / 'data.txt').read_text() == 'new'
""",
    "shell": """
subprocess.run(['sh', '-c', 'echo new > data.txt; mkdir -p a/b; cp data.txt a/b'], cwd=there, check=True)
assert (there / 'a/b/data.txt').read_text() == 'new\\n'
""",
    "child": """
if os.fork() == 0:
    (there / 'data.txt').write_text('new')
    os._exit(0)
os.wait()
assert (there / 'data.txt').read_text() == 'new'
""",
    "child of another session": """
subprocess.run([sys.executable, '-c', 'open("made", "x")'], cwd=there, start_new_session=True, check=True)
assert (there / 'made').exists()
""",
    "thread": """
thread = threading.Thread(target=(there / 'data.txt').write_text, args=('new',))
thread.start()
thread.join()
assert (there / 'data.txt').read_text() == 'new'
""",
    "at exit": """
import atexit
atexit.register((there / 'data.txt').write_text, 'new')
""",
    "memory": """
with open(there / 'bytes.bin', 'r+b') as file, mmap.mmap(file.fileno(), 0) as memory:
    memory[4096:4099] = b'new'
assert (there / 'bytes.bin').read_bytes()[4096:4099] == b'new'
""",
    "sqlite": """
with sqlite3.connect(there / 'log.db') as database:
    database.execute("INSERT INTO log VALUES ('new')")
assert ('new',) in sqlite3.connect(there / 'log.db').execute('SELECT * FROM log').fetchall()
""",
    "shelve": """
import shelve
with shelve.open(str(there / 'shelf')) as shelf:
    shelf['key'] = 'new'
with shelve.open(str(there / 'shelf')) as shelf:
    assert shelf['key'] == 'new'
""",
    "rename over": """
(there / 'other').write_text('new')
os.replace(there / 'other', there / 'data.txt')
assert (there / 'data.txt').read_text() == 'new'
""",
    "hard link": """
os.link(there / 'data.txt', there / 'again')
(there / 'again').write_text('new')
assert (there / 'data.txt').read_text() == 'new'
""",
    "link swapped": """
(there / 'link').unlink()
(there / 'link').symlink_to('bytes.bin')
(there / 'link').write_text('new')
assert (there / 'bytes.bin').read_text() == 'new'
""",
    "truncate": "os.truncate(there / 'bytes.bin', 7); assert (there / 'bytes.bin').stat().st_size == 7",
    "allocate": """
with open(there / 'data.txt', 'r+') as file:
    os.posix_fallocate(file.fileno(), 0, 9000)
assert (there / 'data.txt').stat().st_size == 9000
""",
    "copy within the kernel": """
with open(there / 'bytes.bin', 'rb') as source, open(there / 'data.txt', 'r+b') as target:
    assert os.copy_file_range(source.fileno(), target.fileno(), 100) == 100
assert (there / 'data.txt').stat().st_size == 100
""",
    "mode": "file = there / 'data.txt'; file.chmod(0o600); assert file.stat().st_mode & 0o777 == 0o600",
    "mode of the folder": "os.chmod(there, 0o700); assert there.stat().st_mode & 0o777 == 0o700",
    "time": "os.utime(there / 'data.txt', (1, 1)); assert (there / 'data.txt').stat().st_mtime == 1",
    "pipe": "os.mkfifo(there / 'pipe'); assert 'pipe' in os.listdir(there)",
    "socket": """
import socket
os.chdir(there)
with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as calling:
    listening.bind('socket')
    listening.listen()
    calling.connect('socket')
    listening.accept()[0].send(b'new')
    assert calling.recv(3) == b'new'
""",
    "unlink": "(there / 'data.txt').unlink(); assert not (there / 'data.txt').exists()",
    "rmtree": "shutil.rmtree(there / 'dir'); assert not (there / 'dir').exists()",
    "all removed": """
for path in there.iterdir():
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
assert os.listdir(there) == []
""",
    "lock": """
import fcntl
with open(there / 'data.txt', 'r+') as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    file.write('new')
assert (there / 'data.txt').read_text() == 'new\\n'
""",
    "copied tree": """
shutil.copytree(there / 'dir', there / 'copy')
assert os.listdir(there / 'copy') == ['inner.txt']
""",
}
PLACES = ("link out", "parent", "home", "temporary", "absolute", "cache")
FEW = ("open", "shell", "rename over", "rmtree", "memory")


class Elsewhere:
    """Folders outside the project, by how a script comes to them."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.temporary = ground.base / "temporary"
        folders = {
            "link out": ground.base / "disk",
            "parent": ground.base / "beside",
            "home": ground.home / "results",
            "temporary": self.temporary / "results",
            "absolute": ground.base / "absolute",
            "cache": ground.home / "own cache" / "results",
        }
        for folder in (self.temporary, ground.home / "own cache"):
            folder.mkdir()
            ground.give(folder)
        for folder in folders.values():
            ground.populate(folder)
        (ground.project / "checkpoints").symlink_to(folders["link out"])
        self.typed = {
            "link out": "Path('checkpoints')",
            "parent": "Path('../beside')",
            "home": "Path('~/results').expanduser()",
            "temporary": "Path(tempfile.gettempdir(), 'results')",
            "absolute": f"Path({str(folders['absolute'])!r})",
            "cache": "Path(os.environ['XDG_CACHE_HOME'], 'results')",
        }

    def start(self, way: str, place: str, protected: bool = True) -> subprocess.CompletedProcess[str]:
        environment = {
            "TMPDIR": str(self.temporary), "XDG_CACHE_HOME": str(self.ground.home / "own cache"),
        }  # fmt: skip
        body = f"there = {self.typed[place]}\n{WAYS[way]}"
        return self.ground.start(body, protected, environment=environment)

    def fingerprint(self) -> dict[str, Any]:
        return {path: facts for path, facts in fingerprint(self.ground.base).items() if "/layers" not in path}


@pytest.fixture
def elsewhere(ground: Ground) -> Elsewhere:
    return Elsewhere(ground)


@pytest.mark.parametrize("way", WAYS)
@as_root
def test_every_way_to_write(elsewhere: Elsewhere, way: str) -> None:
    """By the way that scripts take most often: a link in the project that leads out."""
    before = elsewhere.fingerprint()
    done = elsewhere.start(way, "link out")
    assert done.returncode == 0, done.stderr
    assert elsewhere.fingerprint() == before


@pytest.mark.parametrize("way", [way for way in WAYS if way not in FEW])
@as_user
@pytest.mark.thorough
def test_every_way_to_write_as_a_user(elsewhere: Elsewhere, way: str) -> None:
    before = elsewhere.fingerprint()
    done = elsewhere.start(way, "home")
    assert done.returncode == 0, done.stderr
    assert elsewhere.fingerprint() == before


# Each way, and each place, as root and as a user: the others of all are for --thorough.
ONCE_EACH = {(FEW[number % len(FEW)], place) for number, place in enumerate(PLACES)}


@pytest.mark.parametrize(("way", "place"), cases(product(FEW, PLACES), ONCE_EACH))
def test_every_place(elsewhere: Elsewhere, way: str, place: str) -> None:
    before = elsewhere.fingerprint()
    done = elsewhere.start(way, place)
    assert done.returncode == 0, done.stderr
    assert elsewhere.fingerprint() == before


@pytest.mark.parametrize("way", WAYS)
@as_user
@pytest.mark.thorough
def test_each_would_have_been_seen(elsewhere: Elsewhere, way: str) -> None:
    before = elsewhere.fingerprint()
    done = elsewhere.start(way, "absolute", protected=False)
    assert done.returncode == 0, done.stderr
    assert elsewhere.fingerprint() != before


def test_a_home_that_is_removed_is_there_afterwards(ground: Ground) -> None:
    ground.populate(ground.home / "thesis")
    before = fingerprint(ground.home)
    ground.run(
        "shutil.rmtree(Path.home(), ignore_errors=True); assert not Path('~/thesis').expanduser().exists()"
    )
    assert fingerprint(ground.home) == before


@as_root
def test_directly_in_the_root_folder(ground: Ground) -> None:
    name = f"/made-by-{os.getpid()}"
    ground.run(f"os.makedirs('{name}/deeper'); Path('{name}/deeper/file').touch()")
    assert not os.path.exists(name)


@as_user
def test_where_nothing_is_covered_writing_is_denied(ground: Ground) -> None:
    """In a folder of somebody else's, and too deep to be found."""
    hidden = ground.base / "a" / "b" / "c" / "d" / "open to all"
    hidden.mkdir(parents=True)
    hidden.chmod(0o777)
    done = ground.start(f"Path({str(hidden)!r}, 'file').touch()")
    assert done.returncode != 0, "by Landlock, or where that is missing because its parents cannot be copied"
    assert list(hidden.iterdir()) == []


@pytest.mark.parametrize("source", ["tmpfs", "bind"])
@as_root
def test_other_mounts(ground: Ground, source: str) -> None:
    in_own_mounts({"tmpfs": _other_file_system, "bind": _mounted_twice}[source], ground)


def _other_file_system(ground: Ground) -> None:
    there = ground.base / "disk"
    there.mkdir()
    mount("-t", "tmpfs", "none", there)
    (there / "data.txt").write_text("old")
    before = fingerprint(there)
    ground.run("there = Path('../disk'); (there / 'data.txt').write_text('new'); (there / 'made').mkdir()")
    assert fingerprint(there) == before


def _mounted_twice(ground: Ground) -> None:
    there = ground.base / "again"
    there.mkdir()
    mount("--bind", ground.project, there)
    before = fingerprint(ground.project)
    ground.run("Path('../again/data.txt').write_text('new'); Path('../again/made').touch()")
    assert fingerprint(ground.project) == before
