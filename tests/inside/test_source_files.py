"""Which of the modules that a script imported are the user's own."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from hasten.inside.source_files import SourceFiles

NAMES = ("mine_beside", "mine_here", "mine_told", "mine_later", "mine_package", "mine_package.part")


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """What a test imports is gone after it."""
    before = dict(sys.modules)
    yield
    for name in set(sys.modules) - set(before):
        del sys.modules[name]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path.resolve() / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def imported(path: Path, name: str, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return path


def test_what_is_next_to_the_script_or_in_the_working_directory(here: Path) -> None:
    files = SourceFiles("../scripts/train.py", module=False)
    beside = imported(here.parent / "scripts" / "deep" / "losses.py", "mine_beside")
    found = imported(here / "nets.py", "mine_here")
    imported(here.parent / "elsewhere" / "other.py", "mine_later")
    assert [path for path in files.new() if "mine" in path or str(here.parent) in path] == sorted(
        map(str, (beside, found))
    )


def test_each_is_told_once_and_what_comes_later_is_told_then(here: Path) -> None:
    files = SourceFiles("train.py", module=False)
    first = imported(here / "first.py", "mine_here")
    assert str(first) in files.new()
    assert files.new() == []
    later = imported(here / "later.py", "mine_later")
    assert files.new() == [str(later)]


@pytest.mark.attack("truth")
def test_what_python_was_told_to_look_at(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By PYTHONPATH, or a package installed in place."""
    monkeypatch.syspath_prepend(here.parent / "shared")
    files = SourceFiles("train.py", module=False)
    told = imported(here.parent / "shared" / "kept.py", "mine_told")
    assert str(told) in files.new()


@pytest.mark.attack("truth")
def test_a_package_and_its_parts(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = SourceFiles("train.py", module=True)
    (here / "mine_package").mkdir()
    (here / "mine_package" / "__init__.py").write_text("")
    (here / "mine_package" / "part.py").write_text("")
    monkeypatch.syspath_prepend(here)
    importlib.import_module("mine_package.part")
    ours = [path for path in files.new() if path.startswith(str(here))]
    assert ours == [str(here / "mine_package" / name) for name in ("__init__.py", "part.py")]


@pytest.mark.parametrize("folder", [".venv/lib/python3.11/site-packages", "usr/lib/python3/dist-packages"])
def test_what_is_installed_is_not_the_users_own(here: Path, folder: str) -> None:
    files = SourceFiles("train.py", module=False)
    installed = imported(here / folder / "library.py", "mine_later")
    assert str(installed) not in files.new()


def test_neither_python_nor_we_are_the_users_own(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even from a folder above both."""
    monkeypatch.chdir("/")
    import json

    from hasten.inside.process import wire

    found = SourceFiles("/train.py", module=False).new()
    assert json.__file__ not in found
    assert wire.__file__ not in found


@pytest.mark.attack("truth")
@pytest.mark.parametrize("path", [None, 3, b"x.py", "", "gone.py", "archive.zip/inner.py"])
def test_a_module_that_is_no_file(here: Path, path: object) -> None:
    files = SourceFiles("train.py", module=False)
    files.new()
    module = types.ModuleType("mine_later")
    module.__dict__["__file__"] = path
    sys.modules["mine_later"] = module
    assert files.new() == []


@pytest.mark.attack("truth")
def test_a_module_that_imports_on_demand_is_not_asked(here: Path) -> None:
    class OnDemand(types.ModuleType):
        def __getattribute__(self, name: str) -> object:
            raise AssertionError(f"{name} was asked for")

    files = SourceFiles("train.py", module=False)
    files.new()
    sys.modules["mine_later"] = OnDemand("mine_later")
    sys.modules["mine_told"] = "no module at all"  # type: ignore[assignment]
    assert files.new() == []
    del sys.modules["mine_later"]  # or Python asks it at its end


@pytest.mark.parametrize("folder", ["site-packages/tool", "ours"])
def test_the_main_program_is_the_users_own_wherever_it_is_installed(
    here: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.setattr("hasten.inside.source_files.PACKAGE", str(here / "ours"))
    script = here / folder / "train.py"
    beside = imported(here / folder / "mine_beside.py", "mine_beside")
    assert SourceFiles(str(script), module=False).is_local(str(script))
    assert not SourceFiles(str(script), module=False).is_local(str(beside))
    monkeypatch.setattr("__main__.__file__", str(script), raising=False)
    assert SourceFiles("tool.train", module=True).is_local(str(script))
