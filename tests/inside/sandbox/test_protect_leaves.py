"""What protection leaves as it is: sockets, shared memory, git, the time that a start takes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ..ground import Ground, fingerprint

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="protection is for Linux"),
    pytest.mark.attack("files"),
]


def test_through_is_written(ground: Ground) -> None:
    for folder in (ground.layers / "aside", ground.home / "own"):
        folder.mkdir()
        ground.give(folder)
    through = [str(ground.layers / "aside"), str(ground.home / "own")]
    body = "[Path(f, 'file').write_text('new') for f in asked['through']]; (Path.home() / 'other').touch()"
    ground.run(body, through=through)
    assert [Path(folder, "file").read_text() for folder in through] == ["new", "new"]
    assert [path.name for path in ground.home.iterdir()] == ["own"]


def test_a_socket_that_somebody_listens_at_answers(ground: Ground) -> None:
    listener = """
import socket, sys
with socket.socket(socket.AF_UNIX) as listening:
    listening.bind(sys.argv[1])
    listening.listen()
    print(flush=True)
    listening.accept()[0].send(b"hello")
"""
    path = ground.home / "socket"
    with subprocess.Popen([sys.executable, "-c", listener, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        path.chmod(0o777)
        call = f"calling = socket.socket(socket.AF_UNIX); calling.connect({str(path)!r})"
        said = ground.run(f"import socket; {call}; result = calling.recv(9).decode()")
        process.kill()
    assert said == "hello"


def test_shared_memory_works(ground: Ground) -> None:
    assert (
        ground.run("""
from multiprocessing.shared_memory import SharedMemory
memory = SharedMemory(create=True, size=4096)
memory.buf[:3] = b"new"
again = SharedMemory(memory.name)
result = bytes(again.buf[:3]).decode()
again.close()
memory.close()
memory.unlink()
""")
        == "new"
    )


def test_no_layer_of_another_worker_is_seen(ground: Ground) -> None:
    (ground.layers / "prelude-0").mkdir()
    assert ground.run("result = os.listdir(asked['layers'])") == []


@pytest.mark.skipif(not shutil.which("git"), reason="there is no git here")
@pytest.mark.parametrize("depth", [1, 3])
def test_git_finds_its_repository_from_below(ground: Ground, depth: int) -> None:
    script_folder = ground.project.joinpath(*["inner"] * depth)
    script_folder.mkdir(parents=True)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", f"safe.directory={ground.project}"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *words], cwd=ground.project, check=True)
    for path in (ground.project, *ground.project.rglob("*")):
        if ground.user is not None:
            os.chown(path, ground.user, ground.user, follow_symlinks=False)
    before = fingerprint(ground.project)
    say = """
def git(*words):
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout.strip()
result = git("rev-parse", "HEAD"), git("rev-parse", "--show-toplevel"), git("status", "--short")[:2]
"""
    head, top, _ = ground.run(say, cwd=script_folder, folders=[str(script_folder)])
    assert (len(head), top) == (40, str(ground.project))
    assert fingerprint(ground.project) == before


def test_starting_takes_no_longer_for_large_files(ground: Ground) -> None:
    """Nothing is copied before it is written: a file of 8 GiB, of which the disk holds nothing."""
    with open(ground.home / "large", "wb") as file:
        file.truncate(2**33)
    began = time.monotonic()
    assert ground.run("result = os.path.getsize(Path.home() / 'large')") == 2**33
    assert time.monotonic() - began < 30
    used = sum(path.stat().st_blocks for path in ground.layers.rglob("*") if path.is_file())
    assert used * 512 < 2**20


def test_what_was_written_is_told_by_place(ground: Ground) -> None:
    told = json.loads(ground.start("Path.home().joinpath('made').touch(); result = protection.uppers").stdout)
    written = [
        os.path.join(place, path.relative_to(upper))
        for place, upper in told.items()
        for path in Path(upper).rglob("made")
    ]
    assert written == [str(ground.home / "made")]
