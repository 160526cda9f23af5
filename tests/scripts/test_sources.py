"""The files of a script and its modules: what they were when a measurement began, and whether they still
are.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hasten.errors import Refusal
from hasten.scripts import sources as sources_module
from hasten.scripts.sources import (
    GONE,
    Sources,
    changed_since,
    digest_of,
)
from hasten.scripts.workspace import Script

Edit = Callable[[Path], None]


def rewritten(path: Path) -> None:
    path.write_text("changed = True\n")


def of_equal_length_and_age(path: Path) -> None:
    """As a hasty editor on a coarse clock might leave it, or somebody who hides a change."""
    before = path.stat()
    path.write_text("X" * before.st_size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def put_in_place(path: Path) -> None:
    """As most editors save: a new file takes the old one's name."""
    new = path.with_name("new")
    new.write_text("changed = True\n")
    shutil.copystat(path, new)
    new.replace(path)


def linked_elsewhere(path: Path) -> None:
    other = path.with_name("other.py")
    other.write_text("changed = True\n")
    path.unlink()
    path.symlink_to(other)


def removed(path: Path) -> None:
    path.unlink()


def emptied(path: Path) -> None:
    path.write_text("")


def made_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def made_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


EDITS = [
    rewritten,
    of_equal_length_and_age,
    put_in_place,
    linked_elsewhere,
    removed,
    emptied,
    made_a_folder,
    made_a_pipe,
]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a script, a module next to it and one in a package."""
    monkeypatch.chdir(tmp_path)
    for name in ("small.py", "losses.py", "nets/cnn.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"# {name}\n" * 3)
    return tmp_path


def begun(*imported: Path, script: str = "small.py") -> Sources:
    made = Sources(Script(Path(script), ()), "tuned")
    made.imported(map(str, imported))
    return made


def test_what_stays_as_it_was_is_not_complained_of(project: Path) -> None:
    sources = begun(project / "losses.py")
    sources.check()
    assert sources.digests().script == digest_of("small.py")
    assert sources.digests().modules == {"losses.py": digest_of("losses.py")}


@pytest.mark.attack("truth")
@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_script(project: Path, edit: Edit) -> None:
    sources = begun()
    edit(project / "small.py")
    with pytest.raises(
        Refusal, match=r"^small\.py changed while it was tuned: nothing is claimed; start again$"
    ):
        sources.check()


@pytest.mark.attack("truth")
@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("name", ["losses.py", "nets/cnn.py"])
def test_an_edited_module(project: Path, edit: Edit, name: str) -> None:
    sources = begun(project / name)
    edit(project / name)
    with pytest.raises(Refusal, match=rf"^{name} changed while small\.py was tuned: nothing is claimed"):
        sources.check()


@pytest.mark.attack("truth")
@pytest.mark.parametrize("edit", EDITS)
def test_a_module_edited_before_anybody_told_of_it(project: Path, edit: Edit) -> None:
    """A worker read the old one, and tells of it when the new one is there."""
    sources = begun()
    edit(project / "losses.py")
    sources.imported([str(project / "losses.py")])
    with pytest.raises(Refusal, match=r"^losses\.py changed while small\.py was tuned"):
        sources.check()


@pytest.mark.attack("truth")
def test_a_change_is_not_forgotten_when_it_is_taken_back(project: Path) -> None:
    """Between two looks a worker may have trained the other version."""
    sources, before = begun(), Path("small.py").read_text()
    rewritten(project / "small.py")
    with pytest.raises(Refusal):
        sources.check()
    Path("small.py").write_text(before)
    with pytest.raises(Refusal, match=r"small\.py changed"):
        sources.check()


@pytest.mark.attack("truth")
def test_all_that_changed_are_named(project: Path) -> None:
    sources = begun(project / "losses.py")
    rewritten(project / "small.py")
    rewritten(project / "losses.py")
    with pytest.raises(Refusal, match=r"^small\.py and losses\.py changed while small\.py was tuned"):
        sources.check()


@pytest.mark.attack("truth")
def test_a_script_behind_a_link_that_is_led_elsewhere(project: Path) -> None:
    link = project / "train.py"
    link.symlink_to("small.py")
    sources = begun(script="train.py")
    link.unlink()
    link.symlink_to("losses.py")
    with pytest.raises(Refusal, match=r"^train\.py changed while it was tuned"):
        sources.check()


@pytest.mark.attack("truth")
def test_a_module_elsewhere_is_called_by_its_whole_path(project: Path, tmp_path_factory: object) -> None:
    elsewhere = project.parent / f"{project.name}-elsewhere"
    elsewhere.mkdir()
    module = elsewhere / "shared.py"
    module.write_text("pass\n")
    sources = begun(module)
    assert sources.digests().modules == {str(module): digest_of(module)}
    rewritten(module)
    with pytest.raises(Refusal, match=rf"^{module} changed"):
        sources.check()


def test_saving_it_again_as_it_was_is_no_change(project: Path) -> None:
    sources = begun()
    Path("small.py").write_text(Path("small.py").read_text())
    os.utime("small.py", (0, 0))
    sources.check()
    rewritten(project / "small.py")
    with pytest.raises(Refusal):
        sources.check()


def test_a_module_that_is_not_imported_may_change(project: Path) -> None:
    sources = begun()
    rewritten(project / "losses.py")
    sources.check()


def test_what_the_script_makes_itself_while_it_trains_is_one_of_its_modules_from_then_on(
    project: Path,
) -> None:
    """It was not there at the beginning, so there is no older version that anybody trained."""
    sources = begun()
    made = project / "generated.py"
    made.write_text("x = 1\n")
    sources.imported([str(made)])
    sources.check()
    rewritten(made)
    with pytest.raises(Refusal, match=r"generated\.py changed"):
        sources.check()


def test_a_folder_without_end_is_not_looked_through(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too far away to be found counts from when a worker first reports it."""
    monkeypatch.setattr(sources_module, "_MOST_ENTRIES", 1)
    sources = begun()
    rewritten(project / "nets" / "cnn.py")
    sources.imported([str(project / "nets" / "cnn.py")])
    sources.check()


# ---- a notebook
def notebook(path: Path, *cells: str, **output: object) -> None:
    content = [{"cell_type": "code", "source": cell, "outputs": [output]} for cell in cells]
    path.write_text(json.dumps({"cells": content, "metadata": {}}))


def test_a_notebook_that_is_saved_with_other_output_is_the_same(project: Path) -> None:
    """Jupyter saves an open notebook every two minutes."""
    notebook(project / "train.ipynb", "x = 1", "y = 2")
    sources = begun(script="train.ipynb")
    notebook(project / "train.ipynb", "x = 1", "y = 2", text="2")
    sources.check()


@pytest.mark.attack("truth")
@pytest.mark.parametrize("cells", [("x = 1", "y = 3"), ("x = 1",), ("y = 2", "x = 1"), ("x = 1\ny = 2",)])
def test_a_notebook_with_other_code(project: Path, cells: tuple[str, ...]) -> None:
    notebook(project / "train.ipynb", "x = 1", "y = 2")
    sources = begun(script="train.ipynb")
    notebook(project / "train.ipynb", *cells)
    with pytest.raises(Refusal, match=r"^train\.ipynb changed"):
        sources.check()


# ---- since a plan was made
@pytest.mark.attack("truth")
@pytest.mark.parametrize("edit", EDITS)
def test_what_has_changed_since(project: Path, edit: Edit) -> None:
    made_of = begun(project / "losses.py", project / "nets" / "cnn.py").digests().modules
    script = Script(Path("small.py"), ())
    assert changed_since(script, made_of) == []
    edit(project / "losses.py")
    assert changed_since(script, made_of) == ["losses.py"]


def test_it_is_the_same_from_wherever_the_script_is_started(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_of = begun(project / "nets" / "cnn.py").digests().modules
    monkeypatch.chdir(project / "nets")
    assert changed_since(Script(Path("../small.py"), ()), made_of) == []


def test_a_module_is_found_from_the_working_directory(project: Path) -> None:
    script = Script(project / "nets" / "cnn.py", (), "nets.cnn")
    sources = Sources(script, "tuned")
    sources.imported([str(project / "losses.py"), str(script.path)])
    made_of = sources.digests().modules
    assert list(made_of) == ["losses.py"]
    assert changed_since(script, made_of) == []


@pytest.mark.attack("intruders")
@pytest.mark.parametrize(
    "name", ["/dev/zero", "/dev/tty", "/proc/kmsg", "pipe", "gone.py", "a\0b", ".", "x" * 5000, "../" * 2000]
)
def test_a_plan_that_names_what_is_no_file_holds_nothing_up(project: Path, name: str) -> None:
    os.mkfifo("pipe")
    began = time.monotonic()
    assert changed_since(Script(Path("small.py"), ()), {name: "c0ffee"}) == [name]
    assert time.monotonic() - began < 30


@pytest.mark.attack("intruders")
@pytest.mark.parametrize("digest", [None, 1, True, [], {}, "", "c0ffee"])
def test_a_plan_with_a_digest_that_is_none(project: Path, digest: object) -> None:
    assert changed_since(Script(Path("small.py"), ()), {"losses.py": digest}) == ["losses.py"]


@pytest.mark.attack("intruders")
def test_a_file_without_end_is_read_only_so_far(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources_module, "_MOST_BYTES", 1000)
    with open("huge.py", "wb") as file:
        file.truncate(2**40)
    digest = digest_of("huge.py")
    assert digest != GONE
    with open("huge.py", "ab") as file:
        file.truncate(2**40 + 1)
    assert digest_of("huge.py") != digest
