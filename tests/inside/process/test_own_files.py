"""What is loaded can run code, so it must not belong to another user."""

from __future__ import annotations

import ctypes
import os
import pickle
import random
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from hasten.inside.distributed.backends.kernel import _SOURCE
from hasten.inside.process import native_code, own_files
from tests.attack.planted import NO_FILE, SECRET

pytestmark = pytest.mark.attack("intruders")
_FLAGS = ("-std=c11",)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A file of ours, next to one of the user's."""
    (tmp_path / ".bashrc").write_bytes(SECRET)
    made = tmp_path / "project"
    made.mkdir(mode=0o700)
    return made


class Ran:
    """As a pickle: runs code when it is loaded."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return os.mkdir, (str(self._path),)


STATES: dict[str, Callable[[], Any]] = {
    "tensors": lambda: {"a": torch.arange(3.0), "b": [torch.zeros(2, dtype=torch.bfloat16), None]},
    "LBFGS": lambda: {"al": [None, torch.ones(1)], "func_evals": 3, "prev_loss": 0.5},
    "torch's stream": torch.get_rng_state,
    "Python's stream": random.getstate,
    "numpy's stream": numpy.random.get_state,
    "an ordered dict": lambda: OrderedDict(a=torch.ones(1)),
    "a parameter": lambda: torch.nn.Parameter(torch.ones(2)),
    "findings": lambda: {"passes": [{0: torch.ones(2)}], "digests": ["c0ffee"], "augments": False},
}


@pytest.mark.parametrize("what", STATES)
def test_what_is_plain_is_loaded_without_running_anything(
    folder: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain: list[bool] = []
    original = torch.load

    def noted(*args: Any, weights_only: bool, **more: Any) -> Any:
        plain.append(weights_only)
        return original(*args, weights_only=weights_only, **more)

    monkeypatch.setattr(torch, "load", noted)
    torch.save(STATES[what](), folder / "state")
    found = own_files.load(torch, folder / "state", map_location="cpu", mmap=True)
    assert plain == [True]
    assert type(found) is type(STATES[what]())
    assert str(found) == str(STATES[what]())


def test_an_object_of_an_optimizers_own_is_loaded_too(folder: Path) -> None:
    """From a file of ours: the guard must be able to follow such an optimizer."""
    torch.save({"made": Ran(folder / "ran")}, folder / "state")
    with pytest.raises(pickle.UnpicklingError):
        torch.load(folder / "state", weights_only=True)
    own_files.load(torch, folder / "state")
    assert (folder / "ran").is_dir()


def test_a_file_that_others_may_write_is_not_loaded(folder: Path) -> None:
    torch.save(Ran(folder / "ran"), folder / "state")
    (folder / "state").chmod(0o666)
    with pytest.raises(PermissionError, match="may be another user's"):
        own_files.load(torch, folder / "state")
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
def test_a_file_in_a_folder_that_others_may_write_into_is_not_loaded(folder: Path, mode: int) -> None:
    torch.save(Ran(folder / "ran"), folder / "state")
    folder.chmod(mode)
    with pytest.raises(PermissionError, match="may be another user's"):
        own_files.load(torch, folder / "state")
    assert not (folder / "ran").exists()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", NO_FILE)
def test_what_is_no_file_of_ours_is_not_loaded(folder: Path, kind: str) -> None:
    NO_FILE[kind](folder / "state")
    assert not own_files.is_ours(folder / "state")
    with pytest.raises(PermissionError):
        own_files.load(torch, folder / "state")


# ---- the compiled kernel, which is loaded from the user's cache
@pytest.fixture
def cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the kernel is kept; in place of compiling, a text is written."""

    def compiled(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        Path(command[-1]).write_text("ours")
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    monkeypatch.setattr(subprocess, "run", compiled)
    monkeypatch.setattr(ctypes, "CDLL", lambda path: (Path(path), Path(path).read_text()))
    return folder / "hasten"


def loaded() -> Any:
    """A library is a pair here: its path and what was in the file."""
    return native_code.library(_SOURCE, sys.executable, _FLAGS)  # any program will do


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", [kind for kind in NO_FILE if kind != "a folder"])
def test_a_planted_kernel_is_replaced(cache: Path, kind: str) -> None:
    cache.mkdir()
    path = cache / f"kernel-{native_code._fingerprint(_SOURCE, sys.executable, _FLAGS)}.so"
    NO_FILE[kind](path)
    assert loaded() == (path, "ours")
    assert (cache.parent.parent / ".bashrc").read_bytes() == SECRET


def test_a_kernel_that_others_may_write_is_compiled_again(cache: Path) -> None:
    cache.mkdir()
    path = cache / f"kernel-{native_code._fingerprint(_SOURCE, sys.executable, _FLAGS)}.so"
    path.write_text("theirs")
    path.chmod(0o777)
    assert loaded() == (path, "ours")
    assert path.stat().st_mode & 0o777 == 0o700


def test_a_kernel_of_ours_is_kept(cache: Path) -> None:
    cache.mkdir(mode=0o700)
    path = cache / f"kernel-{native_code._fingerprint(_SOURCE, sys.executable, _FLAGS)}.so"
    path.write_text("compiled before")
    path.chmod(0o700)
    assert loaded() == (path, "compiled before")


def test_a_cache_that_others_may_write_into_is_closed_to_them(cache: Path) -> None:
    cache.mkdir()
    cache.chmod(0o777)
    path, _ = loaded()
    assert path.parent == cache
    assert cache.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("kind", ["a link to a folder", "a folder of another's"])
def test_a_cache_of_somebody_elses_is_not_used(
    cache: Path, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.attack.planted import NO_FOLDER

    NO_FOLDER[kind](cache)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "project"))
    path, content = loaded()
    assert content == "ours"
    assert cache not in path.parents
