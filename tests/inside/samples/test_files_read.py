"""Files that samples are made from are marked wherever they lie."""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from hasten.inside.samples import files_read
from hasten.inside.samples.files_read import FilesRead


@pytest.mark.parametrize(
    "path",
    [
        "/usr/src/app/data/1.png",
        "/usr/local/data/1.png",
        "/dev/shm/data/1.png",
        "/librispeech/1.flac",
        "/library/1.png",
        "/home/one/data/1.png",
        f"{sys.prefix}-data/1.png",
        f"{sys.prefix}/data/1.png",
    ],
)
def test_a_file_of_samples_is_told_from_the_systems(path: str) -> None:
    assert not files_read.is_of_no_sample(path)


@pytest.mark.parametrize(
    "path",
    [
        "/usr/lib/locale/C.utf8",
        "/lib64/libm.so",
        "/dev/urandom",
        "/dev/shm/torch_1_2",
        f"{sysconfig.get_path('stdlib')}/json/decoder.py",
        f"{sysconfig.get_path('purelib')}/torch/version.py",
    ],
)
def test_what_python_and_the_system_read_is_left_out(path: str) -> None:
    assert files_read.is_of_no_sample(path)


def test_a_folder_in_the_place_of_shared_memory_is_heard() -> None:
    heard = files_read.FilesRead("/none")
    heard._hear("open", ("/dev/shm/hasten-no-such-file", "r", 0))
    heard._hear("open", ("/usr/src/app/hasten-no-such-file", "r", 0))
    heard._hear("open", ("/usr/share/hasten-no-such-file", "r", 0))
    assert [path for path, _, _ in heard.since()] == [
        "/dev/shm/hasten-no-such-file",
        "/usr/src/app/hasten-no-such-file",
    ]


# ---- what is not seen
def in_a_child(look: Callable[[FilesRead], object]) -> str:
    """What ``look`` gives in a separate process: an audit hook cannot be removed again."""
    out, into = os.pipe()
    child = os.fork()
    if not child:
        said: object = "it raised"
        try:
            said = look(FilesRead("/none"))
        finally:
            os.write(into, str(said).encode())
            os._exit(0)
    os.waitpid(child, 0)
    said = os.read(out, 10_000).decode()
    os.close(out)
    os.close(into)
    return said


def read_past_python(path: Path) -> None:
    file = ctypes.CDLL(None).open(str(path).encode(), os.O_RDONLY)
    assert os.read(file, 2**20)
    os.close(file)


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")


def test_what_is_read_past_python_is_noticed(tmp_path: Path) -> None:
    picture, label = tmp_path / "1.png", tmp_path / "1.txt"
    picture.write_bytes(bytes(50_000))
    label.write_text("7")

    def look(heard: FilesRead) -> object:
        file = os.open(picture, os.O_RDONLY)
        heard.since(look=True)
        label.read_text()
        label.read_text()
        heard.since(look=True)
        os.read(file, 20_000)
        heard.since(look=True)
        by_python = heard.unseen
        label.read_text()
        read_past_python(picture)
        heard.since(look=True)
        return by_python, heard.unseen

    assert in_a_child(look) == "(False, True)"


def test_looking_at_many_open_files_is_not_taken_for_reading(tmp_path: Path) -> None:
    label = tmp_path / "1.txt"
    label.write_text("7")

    def look(heard: FilesRead) -> object:
        opened = [os.open(label, os.O_RDONLY) for _ in range(300)]
        for _ in range(3):
            label.read_text()
            heard.since(look=True)
        return len(opened), heard.unseen

    assert in_a_child(look) == "(300, False)"


def test_many_open_files_hide_none(tmp_path: Path) -> None:
    """What is read at an offset is told from what was read past Python, however many files are open."""
    picture = tmp_path / "1.png"
    picture.write_bytes(bytes(50_000))

    def look(heard: FilesRead) -> object:
        kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(300)]
        file = os.open(picture, os.O_RDONLY)
        heard.since(look=True)
        os.read(file, 20_000)
        heard.since(look=True)
        return len(kept), heard.unseen

    assert in_a_child(look) == "(300, False)"


def test_what_another_program_reads_is_noticed() -> None:
    def look(heard: FilesRead) -> object:
        subprocess.run(["true"], check=True)
        return heard.unseen

    assert in_a_child(look) == "True"


def test_a_network_is_noticed(tmp_path: Path) -> None:
    def connect(address: object, kind: int) -> None:
        with socket.socket(kind) as one:
            one.settimeout(0.1)
            one.connect_ex(address)  # type: ignore[arg-type]

    def look(heard: FilesRead) -> object:
        connect(str(tmp_path / "none"), socket.AF_UNIX)
        local = heard.network
        connect(("127.0.0.1", 9), socket.AF_INET)
        return local, heard.network

    assert in_a_child(look) == "(False, True)"


def test_what_is_read_once_for_all_samples_is_of_all(tmp_path: Path) -> None:
    for name in ("index", "sample", "other"):
        (tmp_path / name).write_text(name)
    read: list[str] = []

    def make(name: str) -> None:
        if not read:
            read.append((tmp_path / "index").read_text())
        (tmp_path / name).read_text()

    def look(heard: FilesRead) -> object:
        heard.settle(lambda: make("sample"))
        make("other")
        return sorted(os.path.basename(path) for path, _, _ in heard.since())

    assert in_a_child(look) == "['index', 'other']"


def test_what_is_mapped_on_first_use_is_of_all_samples(tmp_path: Path) -> None:
    """As lmdb does it: in C, once; its lock file does not count."""
    for name in ("data.mdb", "lock.mdb", "read"):
        (tmp_path / name).write_bytes(bytes(5000))
    kept: list[mmap.mmap] = []

    def make() -> None:
        for name in ("data.mdb", "lock.mdb") if not kept else ():
            file = ctypes.CDLL(None).open(str(tmp_path / name).encode(), os.O_RDONLY)
            kept.append(mmap.mmap(file, 0, access=mmap.ACCESS_READ))
            os.close(file)

    def look(heard: FilesRead) -> object:
        heard.settle(make)
        (tmp_path / "read").read_bytes()
        return sorted(os.path.basename(path) for path, _, _ in heard.since())

    assert in_a_child(look) == "['data.mdb', 'read']"
