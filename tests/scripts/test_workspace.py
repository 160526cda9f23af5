"""Finding the script, and the folder where its results are kept."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from hasten.errors import UsageError
from hasten.scripts.workspace import (
    Script,
    Workspace,
    find_module,
    find_script,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path.resolve()


def made(path: Path, content: bytes = b"print('trains')\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


# ---- the script
def test_a_script_and_its_arguments(folder: Path) -> None:
    made(folder / "train.py")
    script = find_script("train.py", ["--lr", "0.1", "--name", "my run"])
    assert script.argv == ("train.py", "--lr", "0.1", "--name", "my run")
    assert (script.label, script.command) == ("train.py", "train.py --lr 0.1 --name 'my run'")
    made(folder / "my train.py")
    assert find_script("my train.py", ["2"]).command == "'my train.py' 2"


def test_a_script_need_not_end_in_py(folder: Path) -> None:
    made(folder / "train")
    assert find_script("train", []).path == Path("train")


@pytest.mark.parametrize(
    "content",
    [
        b"# -*- coding: latin-1 -*-\nname = '\xe9'\n",
        b"\xef\xbb\xbfprint('with a byte order mark')\n",
        b"#!/usr/bin/env python\r\nprint('from Windows')\r\n",
        b"",
    ],
)
def test_what_python_runs_is_a_script(folder: Path, content: bytes) -> None:
    made(folder / "train.py", content)
    assert find_script("train.py", []).path == Path("train.py")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"def f(:\n", r"line 1"),
        (b"x = 1\n  y = 2\n", r"line 2"),
        (b"name = '\xe9'\n", r"utf-8"),
        (b"x = '\0'\n", r"null bytes"),
        (b"\x7fELF\x02\x01\x01\x00", r"null bytes"),
    ],
)
def test_what_python_cannot_compile_is_none(folder: Path, content: bytes, message: str) -> None:
    made(folder / "train.py", content)
    with pytest.raises(UsageError, match=rf"train\.py is not a Python script: .*{message}"):
        find_script("train.py", [])


def test_a_script_is_not_run_to_look_at_it(folder: Path) -> None:
    made(folder / "train.py", b"raise SystemExit('it ran')")
    find_script("train.py", [])


def test_a_missing_script(folder: Path) -> None:
    with pytest.raises(UsageError, match=rf"no script at lost\.py \(looked from {re.escape(str(folder))}\)"):
        find_script("lost.py", [])


def test_a_link_that_leads_nowhere(folder: Path) -> None:
    (folder / "train.py").symlink_to("gone.py")
    with pytest.raises(UsageError, match=r"no script at train\.py"):
        find_script("train.py", [])


def test_a_folder(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"^\. is a folder: name the Python script"):
        find_script(".", [])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_script_that_may_not_be_read(folder: Path) -> None:
    made(folder / "train.py").chmod(0)
    with pytest.raises(UsageError, match=r"train\.py cannot be read: Permission denied"):
        find_script("train.py", [])


def test_what_must_not_be_touched_is_named_once(folder: Path) -> None:
    made(folder / "train.py")
    assert find_script("train.py", []).folders == (str(folder),)


def test_what_must_not_be_touched_is_named_without_links(folder: Path) -> None:
    made(folder / "real" / "train.py")
    (folder / "link").symlink_to("real")
    assert find_script("link/train.py", []).folders == (str(folder), str(folder / "real"))


def test_the_digest_tells_contents_apart_and_nothing_else(folder: Path) -> None:
    one, same, other = made(folder / "a.py"), made(folder / "b.py"), made(folder / "c.py", b"pass\n")
    digests = [Script(path, ()).digest() for path in (one, same, other)]
    assert digests[0] == digests[1] != digests[2]


# ---- a notebook
def test_a_notebook(folder: Path) -> None:
    made(folder / "train.ipynb", b'{"cells": [{"cell_type": "code", "source": "%time\\nx = 1"}]}')
    script = find_script("train.ipynb", [])
    assert script.is_notebook
    assert script.label == "train.ipynb"


@pytest.mark.parametrize(
    "content", [b"x = 1\n", b"{}", b'{"cells": [{"cell_type": "code", "source": "x ="}]}']
)
def test_what_is_no_notebook(folder: Path, content: bytes) -> None:
    made(folder / "train.ipynb", content)
    with pytest.raises(UsageError, match=r"^train\.ipynb is not a notebook: "):
        find_script("train.ipynb", [])


# ---- a module
@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("solo", "solo.py"),
        ("package", "package/__main__.py"),
        ("package.train", "package/train.py"),
        ("package.inner", "package/inner/__main__.py"),
        ("package.inner.deep", "package/inner/deep.py"),
        ("namespace.train", "namespace/train.py"),
    ],
)
def test_a_module_is_found_as_python_finds_it(folder: Path, name: str, path: str) -> None:
    made(folder / "package" / "__init__.py", b"raise SystemExit('it was imported')")
    made(folder / path)
    script = find_module(name, ["--lr", "0.1"])
    assert script.path.samefile(folder / path)
    assert script.argv == (name, "--lr", "0.1")
    assert (script.label, script.command) == (f"-m {name}", f"-m {name} --lr 0.1")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lost", "there is no module named lost"),
        ("package.lost", r"package\.lost has no module that can be run"),
        ("package", r"package has no module that can be run \(a package needs a __main__\.py\)"),
        ("solo.train", r"solo\.train has no module that can be run"),
        ("solo.py", r"solo\.py has no module that can be run"),
        ("../solo", r"there is no module named \.\./solo"),
        ("", "there is no module named "),
        ("sys", "there is no module named sys"),  # it has no file
    ],
)
def test_what_is_no_module(folder: Path, name: str, message: str) -> None:
    made(folder / "package" / "__init__.py")
    made(folder / "solo.py")
    with pytest.raises(UsageError, match=message):
        find_module(name, [])


def test_a_module_that_is_installed_needs_no_protection(folder: Path) -> None:
    assert find_module("pytest", []).folders == (str(folder),)


def test_a_module_of_ones_own_does(folder: Path) -> None:
    made(folder / "package" / "train.py")
    assert find_module("package.train", []).folders == (str(folder), str(folder / "package"))


# ---- its folder
def test_everything_is_below_one_folder_here(folder: Path) -> None:
    workspace = Workspace(Script(made(folder / "elsewhere" / "train.py"), ()))
    workspace.make()
    assert workspace.plan_path == Path(".hasten/elsewhere.train/plan.toml")
    assert workspace.journal_path == Path(".hasten/journal.db")
    assert workspace.new_trial() == Path(".hasten/elsewhere.train/trials/000")
    assert sorted(
        str(p.relative_to(folder))
        for p in folder.rglob("*")
        if p.parent.name != "elsewhere" and p.name != "elsewhere"
    ) == [
        ".hasten",
        ".hasten/.gitignore",
        ".hasten/elsewhere.train",
        ".hasten/elsewhere.train/trials",
        ".hasten/elsewhere.train/trials/000",
    ]


def test_it_may_be_there_already(folder: Path) -> None:
    workspace = Workspace(Script(Path("train.py"), ()))
    workspace.make()
    made(workspace.plan_path)
    workspace.make()
    assert workspace.plan_path.read_bytes()


def test_trials_are_numbered_on_across_tunes(folder: Path) -> None:
    script = Script(Path("train.py"), ())
    taken = [Workspace(script).new_trial().name for _ in range(3)]
    made(folder / ".hasten/train/trials/0notes")
    (folder / ".hasten/train/trials/001").rmdir()
    assert taken == ["000", "001", "002"]
    assert Workspace(script).new_trial().name == "003"


def test_the_thousandth_trial_does_not_take_the_place_of_another(folder: Path) -> None:
    (folder / ".hasten/train/trials/1000").mkdir(parents=True)
    (folder / ".hasten/train/trials/999").mkdir()
    assert Workspace(Script(Path("train.py"), ())).new_trial().name == "1001"


@pytest.mark.parametrize("in_the_way", [".hasten", ".hasten/train"])
def test_a_file_in_the_way(folder: Path, in_the_way: str) -> None:
    made(folder / in_the_way)
    where = re.escape(str(folder / ".hasten/train"))
    with pytest.raises(UsageError, match=rf"keeps its plan and trials in {where}, which cannot be made: "):
        Workspace(Script(Path("train.py"), ())).make()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere; see test_a_file_in_the_way")
def test_a_working_directory_that_may_not_be_written(folder: Path) -> None:
    folder.chmod(0o555)
    with pytest.raises(UsageError, match="cannot be made: Permission denied"):
        Workspace(Script(Path("train.py"), ())).make()
