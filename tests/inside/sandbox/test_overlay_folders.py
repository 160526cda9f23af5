"""Folders in a place that others may write to: what they plant there is not followed, changed or removed."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from hasten.inside.sandbox import overlay_folders
from hasten.inside.sandbox.overlay_folders import make_layers, remove_layers

from ..ground import fingerprint
from ..users import NOBODY, identity, python_for

pytestmark = [
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="layers are for overlays, which are Linux's"
    ),
    pytest.mark.attack("intruders"),
]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder like /tmp, in which all temporary files go."""
    folder = Path(tempfile.mkdtemp()).resolve()
    folder.chmod(0o1777)
    monkeypatch.setattr(overlay_folders, "_places", lambda: [str(folder)])
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A folder of the user's, closed but for reading."""
    folder = tmp_path / "precious"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "file").write_text("keep me")
    (folder / ".in-use").write_text("")
    folder.chmod(0o750)
    (folder / "inner").chmod(0o500)
    return folder


def clean_up(shared: Path) -> None:
    """As at the start of any trial."""
    made = make_layers()
    assert Path(made).parent == shared
    remove_layers(made)
    assert not Path(made).exists()


def left_by_a_killed_process(shared: Path, name: str = "hasten-killed") -> Path:
    folder = shared / name
    folder.mkdir(mode=0o700)
    (folder / ".in-use").write_text("")
    (folder / "upper0").mkdir()
    (folder / "upper0" / "file").write_text("written in a trial")
    return folder


def test_what_a_killed_process_left_is_removed(shared: Path) -> None:
    left = left_by_a_killed_process(shared)
    clean_up(shared)
    assert not left.exists()


def test_what_is_in_use_stays(shared: Path) -> None:
    first = make_layers()
    clean_up(shared)
    assert Path(first, ".in-use").exists()
    remove_layers(first)


def test_made_by_many_at_once_none_is_taken_from_another(shared: Path) -> None:
    """Threads stand for processes: each lock is a descriptor of its own."""
    lost: list[str] = []

    def make_and_look() -> None:
        for _ in range(30):
            made = make_layers()
            if not Path(made, ".in-use").exists():
                lost.append(made)
            remove_layers(made)

    threads = [threading.Thread(target=make_and_look) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lost == []
    assert list(shared.iterdir()) == []


PLANTED = {  # code; at: the place, precious: the user's folder
    "link to a folder": "at.symlink_to(precious)",
    "link to a file": "at.symlink_to(precious / 'inner' / 'file')",
    "link to nothing": "at.symlink_to('/nowhere')",
    "link to itself": "at.symlink_to(at)",
    "file": "at.write_text('not ours')",
    "pipe": "os.mkfifo(at)",
    "empty folder": "at.mkdir(0o700)",
    "lock is a link": "at.mkdir(0o700); (at / '.in-use').symlink_to(precious / 'inner' / 'file')",
    "more than a linked lock": "at.mkdir(); (at / '.in-use').symlink_to(at); (at / 'u').symlink_to(precious)",
    "lock is a pipe": "at.mkdir(0o700); os.mkfifo(at / '.in-use')",
    "lock is a folder": "at.mkdir(0o700); (at / '.in-use').mkdir()",
    "others may write": "at.mkdir(); at.chmod(0o777); (at / '.in-use').write_text('')",
}


@pytest.mark.parametrize("planted", PLANTED)
def test_what_is_none_of_ours_stays(shared: Path, precious: Path, planted: str) -> None:
    exec(PLANTED[planted], {"os": os, "at": shared / "hasten-planted", "precious": precious})
    before = fingerprint(precious), fingerprint(shared)
    clean_up(shared)
    after = fingerprint(precious), fingerprint(shared)
    assert after[0] == before[0]
    assert after[1].keys() == before[1].keys()
    del before[1][str(shared)], after[1][str(shared)]  # its time: ours were made in it and removed
    assert after[1] == before[1]


WITHIN = {
    "link to a folder": "at.symlink_to(precious)",
    "link to a closed folder": "at.symlink_to(precious / 'inner')",
    "link to a file": "at.symlink_to(precious / 'inner' / 'file')",
    "hard link": "os.link(precious / 'inner' / 'file', at)",
    "relative link": "at.symlink_to(os.path.relpath(precious, at.parent))",
    "closed folder": "at.mkdir(); (at / 'file').touch(); at.chmod(0)",
    "closed file": "at.touch(); at.chmod(0)",
    "pipe": "os.mkfifo(at)",
    "odd name": "at.mkdir(); open(os.fsencode(at) + b'/a\\n\\xff b', 'w').close()",
}


@pytest.mark.parametrize("planted", WITHIN)
@pytest.mark.parametrize("depth", [0, 3])
def test_what_lies_in_layers_is_removed_and_never_followed(
    shared: Path, precious: Path, planted: str, depth: int
) -> None:
    left = left_by_a_killed_process(shared)
    folder = left.joinpath(*["deeper"] * depth)
    folder.mkdir(parents=True, exist_ok=True)
    exec(WITHIN[planted], {"os": os, "at": folder / "planted", "precious": precious})
    before = fingerprint(precious)
    clean_up(shared)
    assert not left.exists()
    assert fingerprint(precious) == before


def test_a_very_deep_tree_is_removed(shared: Path) -> None:
    """Deeper than Python recurses, than paths are long and than files may be open."""
    left = left_by_a_killed_process(shared)
    here = os.open(left, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    clean_up(shared)
    assert not left.exists()


def test_a_mount_in_layers_is_left_alone(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = left_by_a_killed_process(shared)
    inner = (left / "upper0").stat().st_ino
    original = os.fstat

    def elsewhere(descriptor: int) -> os.stat_result:
        found = original(descriptor)
        fields = list(found)
        fields[2] += found.st_ino == inner  # the device
        return os.stat_result(fields)

    monkeypatch.setattr("hasten.inside.sandbox.overlay_folders.os.fstat", elsewhere)
    remove_layers(str(left))
    monkeypatch.undo()
    assert (left / "upper0" / "file").exists()


def after(first: Callable[[], None], original: Callable[..., Any]) -> Callable[..., Any]:
    """``original``, with something done just before."""

    def both(*arguments: Any) -> Any:
        first()
        return original(*arguments)

    return both


# ---- another user of this machine
@needs_root
@pytest.mark.parametrize("mode", [0o700, 0o755, 0o777])
def test_another_users_folder_stays(shared: Path, mode: int) -> None:
    left = left_by_a_killed_process(shared)
    left.chmod(mode)
    for path in (left, *left.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    before = fingerprint(left)
    clean_up(shared)
    assert fingerprint(left) == before


@needs_root
def test_a_folder_swapped_for_a_link_is_not_followed(shared: Path, precious: Path) -> None:
    """Another user swaps it while root cleans up: what root would have changed the mode of is root's own."""
    if not python_for(NOBODY):
        pytest.skip("there is no Python that an unprivileged user may run")
    swapper = f"""
import os
os.chdir({str(shared)!r})
print(flush=True)
while True:
    try:
        os.mkdir("hasten-bait", 0o700)
        os.symlink({str(precious / "inner" / "file")!r}, "hasten-bait/.in-use")
        os.rename("hasten-bait", "away")
        os.symlink({str(precious)!r}, "hasten-bait")
        os.unlink("hasten-bait")
        os.unlink("away/.in-use")
        os.rmdir("away")
    except OSError:
        pass
"""
    before = fingerprint(precious)
    with subprocess.Popen(
        [python_for(NOBODY), "-c", swapper], stdout=subprocess.PIPE, cwd="/", **identity(NOBODY)
    ) as swapping:
        assert swapping.stdout is not None
        swapping.stdout.readline()
        for _ in range(300):
            overlay_folders._remove_abandoned(str(shared))
        swapping.kill()
    assert fingerprint(precious) == before


@pytest.mark.parametrize("moment", ["before it is locked", "before it is emptied"])
def test_swapped_between_a_look_and_its_use(
    shared: Path, precious: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """The folder that was looked at is not the one that has its name now."""
    left = left_by_a_killed_process(shared)

    def swap() -> None:
        with suppress(FileNotFoundError):
            left.rename(shared / "moved")
            left.symlink_to(precious)

    name = "fcntl.flock" if moment == "before it is locked" else "_remove_folder"
    monkeypatch.setattr(
        f"hasten.inside.sandbox.overlay_folders.{name}", after(swap, attrgetter(name)(overlay_folders))
    )
    before = fingerprint(precious)
    overlay_folders._remove_abandoned(str(shared))
    assert fingerprint(precious) == before
    assert left.is_symlink()


def test_another_folder_under_the_name_is_not_emptied(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = left_by_a_killed_process(shared)

    def swap() -> None:
        left.rename(shared / "moved")
        left.mkdir()
        (left / "file").write_text("of somebody's")

    monkeypatch.setattr(overlay_folders, "_remove_folder", after(swap, overlay_folders._remove_folder))
    overlay_folders._remove_abandoned(str(shared))
    assert (left / "file").read_text() == "of somebody's"


# ---- making them
def test_layers_are_closed_to_others(shared: Path) -> None:
    made = make_layers()
    found = os.lstat(made)
    assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o700, os.geteuid())
    assert stat.S_IMODE(os.lstat(os.path.join(made, ".in-use")).st_mode) == 0o600
    remove_layers(made)


def test_disks_are_taken_before_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    memory, disk = tmp_path / "memory", tmp_path / "disk"
    memory.mkdir()
    disk.mkdir()
    kinds = {str(memory): "tmpfs", str(disk): "ext4"}
    monkeypatch.setattr("hasten.inside.sandbox.mounts.kind_at", lambda path: kinds.get(path, "tmpfs"))
    monkeypatch.setattr(tempfile, "tempdir", str(memory))
    monkeypatch.setenv("HOME", str(tmp_path))
    disk.rename(tmp_path / ".cache")
    kinds[str(tmp_path / ".cache")] = "ext4"
    assert overlay_folders._places()[0] == str(tmp_path / ".cache")


def test_where_nothing_can_be_made_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlay_folders, "_places", lambda: ["/nowhere", "/proc"])
    assert make_layers() == ""


@pytest.mark.parametrize("path", ["", "/nowhere/at/all", "/proc/self/mountinfo", "a\0b"])
def test_removing_what_is_not_there_is_no_error(path: str) -> None:
    remove_layers(path)


@pytest.mark.parametrize("link", ["link", "link/"])
def test_removing_a_link_removes_nothing(shared: Path, precious: Path, link: str) -> None:
    (shared / "link").symlink_to(precious)
    before = fingerprint(precious)
    remove_layers(str(shared) + "/" + link)
    assert fingerprint(precious) == before
