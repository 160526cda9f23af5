"""Compiling once a machine, for this user and this processor."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import pytest

from hasten.inside.process import native_code
from hasten.inside.process.native_code import CannotCompile, compiler, library

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
FLAGS = ("-std=c++17",)


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where compiled code is kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "hasten"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    written = tmp_path / "three.cpp"
    written.write_text('extern "C" int number() { return 3; }\n')
    return written


def load(source: Path, flags: tuple[str, ...] = FLAGS) -> int:
    return int(library(source, compiler("g++"), flags).number())


def test_it_is_compiled_once_and_kept_for_its_user_alone(source: Path, kept: Path) -> None:
    assert load(source) == 3
    (file,) = kept.iterdir()
    made = file.stat().st_mtime_ns
    assert load(source) == 3
    assert [one.stat().st_mtime_ns for one in kept.iterdir()] == [made]
    assert not stat.S_IMODE(file.stat().st_mode) & 0o077


def test_another_source_flag_compiler_or_processor_compiles_again(
    source: Path, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(source)
    load(source, (*FLAGS, "-DMORE"))
    monkeypatch.setattr(native_code, "_processor", lambda: ["another one"])
    load(source)
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    other = tmp_path / "g++"
    other.write_text(f'#!/bin/sh\nexec {shutil.which("g++")} "$@"\n')
    other.chmod(0o755)
    library(source, str(other), FLAGS)
    source.write_text(source.read_text().replace("3", "4"))
    assert load(source) == 4
    assert len(list(kept.iterdir())) == 5


def test_what_others_could_have_written_is_not_loaded(source: Path, kept: Path) -> None:
    load(source)
    (file,) = kept.iterdir()
    file.unlink()  # what is loaded is mapped
    file.write_bytes(b"")  # it would fail if it were loaded
    file.chmod(0o777)
    assert load(source) == 3
    assert not stat.S_IMODE(next(kept.iterdir()).stat().st_mode) & 0o022


def test_a_file_that_was_cut_short_is_made_anew(source: Path, kept: Path) -> None:
    kept.mkdir(mode=0o700)
    name = f"three-{native_code._fingerprint(source, compiler('g++'), FLAGS)}.so"
    (kept / name).write_bytes(b"\x7fELF")
    (kept / name).chmod(0o700)
    assert load(source) == 3


def test_an_error_of_the_compiler_is_told(source: Path, kept: Path) -> None:
    source.write_text("int f( { return 1; }\n")
    with pytest.raises(CannotCompile, match=r"cannot compile three.cpp: .*error"):
        load(source)
    assert not list(kept.iterdir())


def test_without_a_compiler_it_is_told() -> None:
    with pytest.raises(CannotCompile, match="there is no compiler no-cc or no-gcc"):
        compiler("no-cc", "no-gcc")
