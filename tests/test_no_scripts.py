"""Something that is not a script is refused in one line, at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hasten.errors import UsageError
from hasten.scripts.workspace import find_script


def write(content: bytes) -> Callable[[Path], str]:
    def make(folder: Path) -> str:
        (folder / "x.py").write_bytes(content)
        return str(folder / "x.py")

    return make


def large(folder: Path) -> str:
    """Three gigabytes of nothing, which take no room."""
    with open(folder / "large.py", "wb") as file:
        file.truncate(3 * 2**30)
    return str(folder / "large.py")


def loop_of_links(folder: Path) -> str:
    (folder / "a.py").symlink_to("b.py")
    (folder / "b.py").symlink_to("a.py")
    return str(folder / "a.py")


def pipe(folder: Path) -> str:
    os.mkfifo(folder / "pipe.py")
    return str(folder / "pipe.py")


def notebook(text: str) -> Callable[[Path], str]:
    def make(folder: Path) -> str:
        (folder / "x.ipynb").write_text(text)
        return str(folder / "x.ipynb")

    return make


NONE: dict[str, tuple[Callable[[Path], str], str]] = {
    "/dev/zero": (lambda _: "/dev/zero", "is not a file"),
    "/dev/random": (lambda _: "/dev/random", "is not a file"),
    "/dev/null": (lambda _: "/dev/null", "is not a file"),
    "a pipe": (pipe, "is not a file"),
    "a folder": (str, "is a folder"),
    "nothing": (lambda folder: str(folder / "lost.py"), "there is no script at"),
    "no name": (lambda _: "", "is a folder"),
    "a long name": (lambda _: "x" * 300, "File name too long"),
    "a name with a null byte": (lambda _: "x\0.py", "there is no script at"),
    "links in a circle": (loop_of_links, "Too many levels of symbolic links"),
    "a file of 3 GB": (large, "has 3,072 MB"),
    "invalid UTF-8": (write(b"x = '\xff\xfe'\n"), "is not a Python script"),
    "UTF-16": (write("x = 1\n".encode("utf-16")), "is not a Python script"),
    "null bytes": (write(b"x = 1\0\n"), "null bytes"),
    "an unknown encoding": (write(b"# coding: klingon\nx = 1\n"), "klingon"),
    "an archive": (write(b"PK\3\4\0\0\0"), "is not a Python script"),
    "a shell script": (write(b"#!/bin/sh\necho hello\n"), "is not a Python script"),
    "deep brackets": (write(b"(" * 5000 + b")" * 5000), "is not a Python script"),
    "deep operators": (write(b"-" * 200_000 + b"1\n"), "is not a Python script"),
    "no JSON": (notebook("{"), "is not a notebook: not JSON"),
    "no notebook": (notebook("[]"), "is not a notebook"),
    "another notebook": (notebook('{"cells": 3}'), "is not a notebook"),
    "cells of nothing": (notebook('{"cells": [1, null, "x"]}'), "is not a notebook"),
    "metadata of nothing": (notebook('{"cells": [], "metadata": 3}'), "is not a notebook"),
    "deep JSON": (notebook("[" * 100_000), "is not a notebook"),
}


@pytest.mark.attack("messages")
@pytest.mark.parametrize("what", NONE)
def test_it_is_told(what: str, tmp_path: Path) -> None:
    make, said = NONE[what]
    with pytest.raises(UsageError) as told:
        find_script(make(tmp_path), [])
    assert said in str(told.value)
    assert len(str(told.value)) < 1000
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("name", ["-t.py", "--help.py", "-"])
def test_a_name_like_an_option_is_none(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text("")
    script = find_script(name, ["-x"])
    assert script.argv == (f"./{name}", "-x")
    assert script.label == f"./{name}"
