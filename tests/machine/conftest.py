"""Machines on paper: the kernel's files, written below a folder that stands for the root."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

Record = Callable[[Mapping[str, str]], Path]
Programs = Callable[[str, str], None]


@pytest.fixture(autouse=True)
def no_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on paper is not asked for the GPUs of this one."""
    monkeypatch.setitem(sys.modules, "pynvml", None)


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Write a machine given as {path below the root: text}; returns its root. Call again to add to it."""

    def write(files: Mapping[str, str]) -> Path:
        for name, text in files.items():
            file = tmp_path / "root" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return tmp_path / "root"

    return write


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """An empty PATH; call to put a shell script on it, by name."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def install(name: str, script: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    return install
