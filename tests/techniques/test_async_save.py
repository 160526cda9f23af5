"""Files written in the background: the same bytes, and there for everybody who asks."""

from __future__ import annotations

import glob
import io
import multiprocessing
import os
import pickle
import shutil
import signal
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from hasten.inside.techniques.async_save import AsyncSave
from hasten.inside.techniques.support import background_saves
from hasten.inside.techniques.support.background_saves import BackgroundSaves, Save
from hasten.records.plan import BASELINE, Plan
from hasten.records.whole_run import Part, WatchedRun
from hasten.testing.workbench import Workbench, workbench
from hasten.tuning.candidates import choose

from ..cli.conftest import Project
from ..quickly import quickly
from .made_up import facts

PLAN = Plan({"async_save": {}})
STATE = {"weights": torch.arange(5000.0), "step": 7, "name": "a"}
_stat, _listdir, _getsignal = os.stat, os.listdir, signal.getsignal
_PATIENCE_SECONDS = 30


class Gate:
    """The thread that writes waits for it. Whoever waits for files opens it: what is asked without waiting
    finds nothing.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened = threading.Event()
        self.before: Callable[[Save], object] = lambda _: None
        written, wait = background_saves._written, BackgroundSaves.wait

        def gated(save: Save) -> str:
            assert self.opened.wait(_PATIENCE_SECONDS)
            self.before(save)
            return written(save)

        def opening(saves: BackgroundSaves) -> None:
            self.opened.set()
            wait(saves)

        monkeypatch.setattr(background_saves, "_written", gated)
        monkeypatch.setattr(BackgroundSaves, "wait", opening)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made = Gate(monkeypatch)
    yield made
    made.opened.set()


@pytest.fixture
def bench() -> Iterator[Workbench]:
    with workbench() as made:
        made.switchboard.start(PLAN)
        made.switchboard.switch(PLAN)
        yield made


def is_there(path: Path) -> bool:
    try:
        _stat(path)
    except FileNotFoundError:
        return False
    return True


def plain_bytes(state: Any, folder: Path, name: str = "state.pt") -> bytes:
    """What torch writes under that name."""
    folder.mkdir()
    torch.save(state, folder / name)
    return (folder / name).read_bytes()


# ---- the same file
@pytest.mark.parametrize("name", ["state.pt", "zustände.pt", "no_ending"])
def test_the_file_is_the_same_to_the_byte(tmp_path: Path, name: str) -> None:
    base = torch.arange(12.0)
    state = {**STATE, "shared": [base[:4], base[4:]], "net": torch.nn.Linear(3, 2), "empty": torch.empty(0)}
    expected = plain_bytes(state, tmp_path / "plain", name)
    with workbench() as bench:
        bench.switchboard.start(PLAN)
        bench.switchboard.switch(PLAN)
        torch.save(state, tmp_path / name)
        assert (tmp_path / name).read_bytes() == expected
        assert sorted(os.listdir(tmp_path)) == sorted(["plain", name])
        (proof,) = bench.switchboard.proofs()
        assert proof.effective
        assert proof.evidence.startswith("1 files")


def test_what_changes_later_is_not_in_it(bench: Workbench, gate: Gate, tmp_path: Path) -> None:
    weights, names = torch.zeros(1000), ["first"]
    torch.save({"weights": weights, "names": names}, tmp_path / "state.pt")
    weights += 1
    names.append("second")
    assert not is_there(tmp_path / "state.pt")
    found = torch.load(tmp_path / "state.pt")
    assert not found["weights"].any()
    assert found["names"] == ["first"]


def test_an_older_file_stays_until_the_new_one_is_whole(bench: Workbench, gate: Gate, tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    path.write_bytes(b"old")
    path.chmod(0o600)
    torch.save(STATE, path)
    assert _stat(path).st_size == 3
    assert os.path.getsize(path) > 3
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_saves_to_one_path_come_in_their_order(bench: Workbench, tmp_path: Path) -> None:
    for number in range(5):
        torch.save(number, tmp_path / "last.pt")
        torch.save(number, tmp_path / f"{number}.pt")
    assert torch.load(tmp_path / "last.pt") == 4
    assert [torch.load(tmp_path / f"{number}.pt") for number in range(5)] == list(range(5))


def test_a_link_leads_to_the_file_as_usual(bench: Workbench, tmp_path: Path) -> None:
    (tmp_path / "link.pt").symlink_to(tmp_path / "state.pt")
    torch.save(STATE, tmp_path / "link.pt")
    assert torch.load(tmp_path / "state.pt")["step"] == 7
    assert (tmp_path / "link.pt").is_symlink()


# ---- whoever asks waits
def removed(path: Path) -> bool:
    os.remove(path)
    return not os.listdir(path.parent)


def listed_by_descriptor(folder: Path) -> list[str]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        return os.listdir(descriptor)
    finally:
        os.close(descriptor)


def listed_here(folder: Path) -> list[str]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        return os.listdir()
    finally:
        os.chdir(before)


ASKS: dict[str, Callable[[Path], object]] = {
    "os.path.exists": lambda path: os.path.exists(path),
    "os.path.getsize": lambda path: os.path.getsize(path) > 20_000,
    "Path.is_file": lambda path: path.is_file(),
    "os.access": lambda path: os.access(path, os.R_OK),
    "open": lambda path: len(path.read_bytes()) > 20_000,
    "a relative path": lambda path: len(Path(os.path.relpath(path)).read_bytes()) > 20_000,
    "torch.load": lambda path: torch.load(path)["step"] == 7,
    "torch.load by mmap": lambda path: torch.load(path, mmap=True)["step"] == 7,
    "os.listdir": lambda path: path.name in os.listdir(path.parent),
    "os.listdir of a descriptor": lambda path: path.name in listed_by_descriptor(path.parent),
    "os.listdir of here": lambda path: path.name in listed_here(path.parent),
    "os.walk": lambda path: (
        path.name in [name for _, _, names in os.walk(path.parent.parent) for name in names]
    ),
    "glob": lambda path: glob.glob(str(path.parent / "*.pt")) == [str(path)],
    "os.rename": lambda path: is_there(path.rename(path.parent / "other")),
    "os.remove": removed,
    "shutil.copy2": lambda path: (
        _stat(shutil.copy2(path, path.parent / "other")).st_mtime == _stat(path).st_mtime
    ),
    "shutil.copytree": lambda path: is_there(
        Path(shutil.copytree(path.parent, path.parent.parent / "copy")) / path.name
    ),
    "another program": lambda path: subprocess.run(["test", "-s", path], check=False).returncode == 0,
    "os.system": lambda path: os.system(f"test -s '{path}'") == 0,
}


@pytest.mark.parametrize("how", ASKS)
def test_whoever_asks_for_a_file_finds_it_whole(
    bench: Workbench, gate: Gate, tmp_path: Path, how: str
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    torch.save(STATE, folder / "state.pt")
    assert not is_there(folder / "state.pt")
    assert ASKS[how](folder / "state.pt")


def test_a_link_that_was_there_is_asked_for(bench: Workbench, gate: Gate, tmp_path: Path) -> None:
    link = tmp_path / "last.pt"
    link.symlink_to("state.pt")
    torch.save(STATE, tmp_path / "state.pt")
    assert link.exists()


def test_who_asks_for_another_file_does_not_wait(bench: Workbench, gate: Gate, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("text")
    torch.save(STATE, tmp_path / "state.pt")
    (tmp_path / "older").mkdir()
    assert (tmp_path / "other").read_text() == "text"
    assert (tmp_path / "other").exists()
    assert os.listdir(tmp_path / "older") == []
    assert not gate.opened.is_set()


def test_a_forked_process_waits_for_its_parents_thread(bench: Workbench, gate: Gate, tmp_path: Path) -> None:
    torch.save(STATE, tmp_path / "state.pt")
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(into, str(len((tmp_path / "state.pt").read_bytes()) > 20_000).encode())
        os._exit(0)
    assert not is_there(tmp_path / "state.pt")
    gate.opened.set()
    os.waitpid(child, 0)
    assert os.read(out, 10) == b"True"
    os.close(out)
    os.close(into)


def test_seams_are_undone_in_a_forked_child_without_waiting(
    bench: Workbench, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BackgroundSaves, "forked_child", lambda saves: None)  # it has not been called yet
    torch.save(STATE, tmp_path / "state.pt")
    child = os.fork()
    if child == 0:
        signal.alarm(_PATIENCE_SECONDS // 3)
        bench.training.seams.undo_all()
        os.kill(os.getpid(), signal.SIGUSR1)  # ends it: nothing of ours runs at its end
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGUSR1
    assert not is_there(tmp_path / "state.pt")


# ---- signals that end a process
def test_a_script_sees_its_own_signals(bench: Workbench, gate: Gate, tmp_path: Path) -> None:
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    torch.save(STATE, tmp_path / "state.pt")
    assert _getsignal(signal.SIGTERM) != signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL

    def own(*_: object) -> None:
        """The script's."""

    assert signal.signal(signal.SIGTERM, own) == signal.SIG_DFL
    try:
        assert signal.getsignal(signal.SIGTERM) is own
        gate.opened.set()
        bench.switchboard.switch(BASELINE)
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    assert _getsignal(signal.SIGHUP) == signal.SIG_DFL


def test_signals_are_given_back_when_all_is_written(bench: Workbench, gate: Gate, tmp_path: Path) -> None:
    torch.save(STATE, tmp_path / "state.pt")
    bench.training.step_ended()
    assert _getsignal(signal.SIGTERM) != signal.SIG_DFL
    assert (tmp_path / "state.pt").exists()
    bench.training.step_ended()
    assert _getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert "async_save" not in bench.training.after_steps


def test_a_forked_child_is_ended_at_once(bench: Workbench, gate: Gate, tmp_path: Path) -> None:
    torch.save(STATE, tmp_path / "state.pt")
    child = os.fork()
    if child == 0:
        signal.alarm(_PATIENCE_SECONDS // 3)
        signal.raise_signal(signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGUSR1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
    assert not is_there(tmp_path / "state.pt")


def test_a_thread_that_cannot_hold_signals_saves_as_usual(
    bench: Workbench, gate: Gate, tmp_path: Path
) -> None:
    thread = threading.Thread(target=torch.save, args=(STATE, tmp_path / "state.pt"))
    thread.start()
    thread.join()
    assert is_there(tmp_path / "state.pt")
    assert os.listdir(tmp_path) == ["state.pt"]


# ---- what fails
def test_what_could_not_be_written_is_raised_by_the_next_save(
    bench: Workbench, gate: Gate, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    gate.before = lambda save: shutil.rmtree(folder)
    torch.save(STATE, folder / "state.pt")
    bench.switchboard.switch(BASELINE)  # waits
    with pytest.raises(RuntimeError, match="nowhere does not exist"):
        torch.save(STATE, tmp_path / "nowhere" / "state.pt")
    with pytest.raises(RuntimeError, match=r"run/state\.pt could not be written"):
        torch.save(STATE, tmp_path / "next.pt")
    assert torch.load(tmp_path / "next.pt")["step"] == 7
    torch.save(STATE, tmp_path / "next.pt")


def test_where_files_cannot_be_renamed_it_is_written_in_place(
    bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(*paths: object) -> None:
        raise PermissionError("Operation not permitted")

    monkeypatch.setattr(os, "replace", cannot)
    torch.save(STATE, tmp_path / "state.pt")
    assert torch.load(tmp_path / "state.pt")["step"] == 7
    assert os.listdir(tmp_path) == ["state.pt"]
    bench.training.script_ends()


def test_or_at_the_end_of_the_script(bench: Workbench, gate: Gate, tmp_path: Path) -> None:
    gate.before = lambda save: shutil.rmtree(save.place.folder)
    torch.save(STATE, tmp_path / "state.pt")
    with pytest.raises(RuntimeError, match="could not be written"):
        bench.training.script_ends()
    bench.training.script_ends()


def test_a_failed_save_leaves_the_older_file_and_no_other(
    bench: Workbench, gate: Gate, tmp_path: Path
) -> None:
    (tmp_path / "state.pt").write_bytes(b"old")
    gate.before = lambda save: os.mkdir(save.place.written_first)
    torch.save(STATE, tmp_path / "state.pt")
    assert (tmp_path / "state.pt").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["state.pt"]
    with pytest.raises(RuntimeError):
        bench.training.script_ends()


def test_what_cannot_be_pickled_is_raised_at_once_and_leaves_the_file(
    bench: Workbench, tmp_path: Path
) -> None:
    (tmp_path / "state.pt").write_bytes(b"old")
    with pytest.raises((AttributeError, pickle.PicklingError)):
        torch.save(lambda: None, tmp_path / "state.pt")
    assert (tmp_path / "state.pt").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["state.pt"]


def test_a_folder_that_is_not_there_is_torchs_error(bench: Workbench, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="does not exist"):
        torch.save(STATE, tmp_path / "nowhere" / "state.pt")


# ---- saved as usual
def test_targets_other_than_plain_files_are_saved_as_usual(bench: Workbench, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    torch.save(STATE, buffer)
    assert buffer.getbuffer().nbytes > 20_000
    torch.save(STATE, "/dev/null")
    named, other = tmp_path / "state.pt", tmp_path / "second name"
    named.write_bytes(b"old")
    os.link(named, other)
    torch.save(STATE, named)
    assert other.read_bytes() == named.read_bytes() != b"old"
    torch.save(STATE, tmp_path / "legacy.pt", _use_new_zipfile_serialization=False)
    assert torch.load(tmp_path / "legacy.pt")["step"] == 7
    (proof,) = bench.switchboard.proofs()
    assert not proof.effective


@pytest.mark.parametrize("daemon", [False, True])
def test_where_another_process_may_be_told_of_a_file_it_is_there(
    bench: Workbench, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, daemon: bool
) -> None:
    child = multiprocessing.get_context("fork").Process(
        target=gate.opened.wait, args=(_PATIENCE_SECONDS,), daemon=daemon
    )
    child.start()
    torch.save(STATE, tmp_path / "beside a child.pt")
    assert is_there(tmp_path / "beside a child.pt")
    child.terminate()
    child.join()
    monkeypatch.setenv("WORLD_SIZE", "2")
    torch.save(STATE, tmp_path / "of a rank.pt")
    assert is_there(tmp_path / "of a rank.pt")
    monkeypatch.delenv("WORLD_SIZE")
    gate.opened.clear()  # the saves before it waited for it
    torch.save(STATE, tmp_path / "alone.pt")
    assert not is_there(tmp_path / "alone.pt")


def test_a_loaders_workers_are_told_of_no_file(bench: Workbench, gate: Gate, tmp_path: Path) -> None:
    loader: torch.utils.data.DataLoader[Any] = torch.utils.data.DataLoader(
        list(range(8)),  # type: ignore[arg-type]
        num_workers=1,
        persistent_workers=True,
        multiprocessing_context="fork",
    )
    passing = iter(loader)
    next(passing)
    assert multiprocessing.active_children()
    torch.save(STATE, tmp_path / "state.pt")
    assert not is_there(tmp_path / "state.pt")


def test_without_memory_for_a_copy_it_is_saved_as_usual(tmp_path: Path) -> None:
    expected = plain_bytes(STATE, tmp_path / "plain")
    with workbench() as bench:
        bench.training.available_bytes = 4 * 10_000
        bench.switchboard.start(PLAN)
        bench.switchboard.switch(PLAN)
        torch.save(STATE, tmp_path / "state.pt")
        assert is_there(tmp_path / "state.pt")
        assert (tmp_path / "state.pt").read_bytes() == expected
        assert sorted(os.listdir(tmp_path)) == ["plain", "state.pt"]
        (proof,) = bench.switchboard.proofs()
        assert (proof.effective, "1 saved as usual" in proof.evidence) == (False, True)


def test_without_room_on_the_disk_it_is_saved_as_usual(
    bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_saves.Place, "has_room_for", lambda place, size: False)
    torch.save(STATE, tmp_path / "state.pt")
    assert is_there(tmp_path / "state.pt")
    assert os.listdir(tmp_path) == ["state.pt"]


def test_after_removal_saves_are_as_usual(bench: Workbench, gate: Gate, tmp_path: Path) -> None:
    bench.switchboard.switch(BASELINE)
    torch.save(STATE, tmp_path / "state.pt")
    assert is_there(tmp_path / "state.pt")


def test_the_seams_are_taken_back() -> None:
    before = (os.stat, os.lstat, os.access, os._exit, torch.serialization._open_zipfile_writer)
    supported = [set(getattr(os, name)) for name in ("supports_fd", "supports_dir_fd")]
    with workbench() as bench:
        bench.switchboard.start(PLAN)
        assert os.stat is not before[0]
        assert os.stat in os.supports_fd
    assert (os.stat, os.lstat, os.access, os._exit, torch.serialization._open_zipfile_writer) == before
    assert [set(getattr(os, name)) for name in ("supports_fd", "supports_dir_fd")] == supported


def test_written_through_to_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    fsync = os.fsync

    def counted(descriptor: int) -> None:
        synced.append(descriptor)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", counted)
    with workbench() as bench:
        bench.switchboard.start(Plan({"async_save": {"sync": True}}))
        torch.save(STATE, tmp_path / "state.pt")
        assert torch.load(tmp_path / "state.pt")["step"] == 7
    assert len(synced) == 2  # the file, and its folder


# ---- whole scripts
SCRIPT = quickly("""
import os, shutil, sys
import torch
from torch import nn
model = nn.Linear(300, 300)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    model(torch.ones(2, 300)).sum().backward()
    optimizer.step()
os.mkdir("saved")
torch.save(model.state_dict(), "saved/model.pt")
""")
LOSING = """
from hasten.inside.techniques.support import background_saves
written = background_saves._written
background_saves._written = lambda save: (shutil.rmtree("saved"), written(save))[1]
"""
ENDS = {"at its end": "", "by sys.exit": "sys.exit(0)", "by os._exit": "os._exit(0)"}
SLOWLY = """
import threading, time
from hasten.inside.techniques.support import background_saves
written = background_saves._written
background_saves._written = lambda save: (time.sleep(1.0), written(save))[1]
"""
KILLED = {
    "by SIGTERM": ("signal.raise_signal(15)", -signal.SIGTERM),
    "by SIGTERM from a thread": (
        "main = threading.main_thread().ident\n"
        "threading.Thread(target=signal.pthread_kill, args=(main, 15)).start()\n"
        "time.sleep(20)",
        -signal.SIGTERM,
    ),
    "by SIGHUP": ("signal.raise_signal(1)", -signal.SIGHUP),
    "by an error": ("raise KeyError('its own')", 1),
}


@pytest.mark.parametrize(
    "end", ["at its end", *(pytest.param(end, marks=pytest.mark.thorough) for end in list(ENDS)[1:])]
)
def test_a_script_ends_with_its_files_or_fails(tmp_path: Path, end: str) -> None:
    project = Project(tmp_path)
    project.write("train.py", f"{SCRIPT}\n{ENDS[end]}")
    losing = SCRIPT.replace("import torch\n", f"import torch\n{LOSING}", 1)
    project.write("loses.py", f"{losing}\n{ENDS[end]}")
    kept = project.hasten("run", "--use", "async_save", "train.py")
    assert kept.returncode == 0, kept.stderr
    assert sorted(torch.load(project.folder / "saved" / "model.pt")) == ["bias", "weight"]
    assert os.listdir(project.folder / "saved") == ["model.pt"]
    shutil.rmtree(project.folder / "saved")
    lost = project.hasten("run", "--use", "async_save", "loses.py")
    assert lost.returncode == 1
    assert "saved/model.pt could not be written" in lost.stderr


@pytest.mark.parametrize(
    "how",
    [
        "by SIGTERM from a thread",
        *(
            pytest.param(how, marks=pytest.mark.thorough)
            for how in KILLED
            if how != "by SIGTERM from a thread"
        ),
    ],
)
def test_a_script_that_is_ended_has_written_its_files(tmp_path: Path, how: str) -> None:
    project = Project(tmp_path)
    end, status = KILLED[how]
    slow = SCRIPT.replace("import torch\n", f"import signal\nimport torch\n{SLOWLY}", 1)
    project.write("train.py", f"{slow}\n{end}")
    ended = project.hasten("run", "--use", "async_save", "train.py")
    assert ended.returncode == status, ended.stderr
    assert sorted(torch.load(project.folder / "saved" / "model.pt")) == ["bias", "weight"]
    assert os.listdir(project.folder / "saved") == ["model.pt"]


# ---- safetensors
GATED = """
import os, posix, threading
from hasten.inside.techniques.support import background_saves
from hasten.inside.techniques.support.background_saves import BackgroundSaves
opened = threading.Event()
written, wait = background_saves._written, BackgroundSaves.wait
background_saves._written = lambda save: (opened.wait(30), written(save))[1]
BackgroundSaves.wait = lambda saves: (opened.set(), wait(saves))[1]

def told(path):  # and not waited for
    try:
        posix.stat(path)
    except FileNotFoundError:
        return print("later")
    print("there")
"""
PLAIN = """
import torch
from safetensors.torch import save_file
tensors = {"a": torch.arange(5000.0), "b": torch.ones(3, dtype=torch.bfloat16), "c": torch.empty(0)}
save_file(tensors, "plain", metadata={"format": "pt"})
"""
TENSORS = """
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
tensors = {"a": torch.arange(5000.0), "b": torch.ones(3, dtype=torch.bfloat16), "c": torch.empty(0)}
os.mkdir("saved")
save_file(tensors, "saved/one.safetensors", metadata={"format": "pt"})
told("saved/one.safetensors")
open("saved/two.safetensors", "w").close()
tensors["a"] += 1
print(load_file("saved/one.safetensors")["a"][1].item())
opened.clear()
save_file(tensors, "saved/two.safetensors")
print("there" if posix.stat("saved/two.safetensors").st_size else "older")
with safe_open("saved/two.safetensors", framework="pt") as file:
    print(file.get_tensor("a")[1].item(), isinstance(file, safe_open))
try:
    save_file({"a": torch.ones(4)[::2]}, "saved/three.safetensors")
except ValueError:
    print("its own error")
opened.set()
"""
TRAINED = SCRIPT.replace('os.mkdir("saved")\ntorch.save(model.state_dict(), "saved/model.pt")\n', "")


@pytest.mark.parametrize(
    ("before", "found"),
    [
        ("", ["later", "older"]),
        pytest.param(
            "from safetensors import safe_open as reader", ["there", "there"], marks=pytest.mark.thorough
        ),
    ],
)
def test_files_of_safetensors_are_written_later_too(tmp_path: Path, before: str, found: list[str]) -> None:
    project = Project(tmp_path)
    project.write("train.py", f"{before}\n{TRAINED}\n{GATED}\n{TENSORS}")
    ran = project.hasten("run", "--use", "async_save", "train.py")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [found[0], "1.0", found[1], "2.0 True", "its own error"]
    saved = project.folder / "saved"
    assert sorted(os.listdir(saved)) == ["one.safetensors", "two.safetensors"]
    project.write("plain.py", PLAIN)
    assert project.python("plain.py").returncode == 0
    plain = project.folder / "plain"
    assert plain.read_bytes() == (saved / "one.safetensors").read_bytes()
    modes = {path.stat().st_mode for path in (plain, *saved.iterdir())}
    assert len(modes) == 1


PRETRAINED = """
from transformers import BertConfig, BertModel
config = BertConfig(
    vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
)
bert = BertModel(config)
bert.save_pretrained("saved")
told("saved/model.safetensors")
again = BertModel.from_pretrained("saved")
print(all(torch.equal(a, b) for a, b in zip(bert.parameters(), again.parameters())))
opened.set()
"""


@pytest.mark.thorough
def test_save_pretrained_writes_later(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("train.py", f"{TRAINED}\n{GATED}\n{PRETRAINED}")
    ran = project.hasten("run", "--use", "async_save", "train.py")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == ["later", "True"]


# ---- refused
@pytest.mark.parametrize(
    ("part", "reasons"),
    [
        (Part("saving", 0.3, 2), ["saving takes 0.3% of a run"]),
        (Part("saving", 5.0, 2), []),
        (Part("other", 5.0, 2), ["the script was not seen to save anything"]),
    ],
)
def test_it_is_refused_where_saving_takes_no_time(part: Part, reasons: list[str]) -> None:
    rest = Part("steps", 100.0 - part.seconds, 30)
    assert AsyncSave.refuse(facts(run=WatchedRun(100.0, True, (part, rest)))) == reasons


def test_what_was_not_watched_is_not_tried() -> None:
    assert AsyncSave.refuse(facts()) == ["where the time of a run goes was not watched"]


def test_its_settings() -> None:
    AsyncSave.check({"sync": True})
    for wrong in ({"sync": 1}, {"fsync": True}):
        with pytest.raises(ValueError, match="async_save takes sync"):
            AsyncSave.check(wrong)


def test_a_tune_tries_it_where_a_trial_saves_to_the_same_disk() -> None:
    run = WatchedRun(100.0, True, (Part("saving", 50.0, 2), Part("steps", 50.0, 30)))
    candidates, _ = choose(facts(run=run), [], "exact")
    (found,) = [one for one in candidates if one.technique is AsyncSave]
    assert (found.share, found.outside_steps) == (0.5, True)


def test_elsewhere_the_bound_is_told_and_how_to_see_it() -> None:
    parts = (Part("saving", 20.0, 2), Part("steps", 80.0, 30))
    (reason,) = AsyncSave.refuse(facts(run=WatchedRun(100.0, True, parts, saved_elsewhere="/mnt/shared")))
    assert "saved in /mnt/shared" in reason
    assert "20% of a run at most" in reason
    assert "hasten run --use async_save" in reason
