"""Replacements and their undo, and waiting for an import."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import inspect
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hasten.inside.seams import ImportSeam, Seams

Write = Callable[[str, str], None]


def loudly(original: Callable[..., str]) -> Callable[..., str]:
    def louder(*args: Any) -> str:
        return original(*args) + "!"

    return louder


@pytest.fixture
def owner() -> type[Any]:
    class Owner:
        def greet(self) -> str:
            return "hello"

        @staticmethod
        def name(first: str) -> str:
            return first

    return Owner


def test_a_replacement_is_made_from_the_original(owner: type[Any]) -> None:
    Seams().replace(owner, "greet", loudly)
    assert owner().greet() == "hello!"


def test_undo_brings_the_same_object_back(owner: type[Any]) -> None:
    before = vars(owner)["greet"]
    seams = Seams()
    seams.replace(owner, "greet", loudly)
    seams.undo_all()
    assert vars(owner)["greet"] is before


def test_it_has_the_name_and_the_signature_of_the_original(owner: type[Any]) -> None:
    before = inspect.signature(owner.name)
    Seams().replace(owner, "name", loudly)
    assert owner.name("x") == "x!"
    assert inspect.signature(owner.name) == before
    assert owner.name.__name__ == "name"
    assert owner.name.__wrapped__("x") == "x"


def test_what_is_no_wrapper_stays_as_it_is(owner: type[Any]) -> None:
    """One function in the place of another."""

    def other(first: str, second: str = "") -> str:
        return first + second

    Seams().replace(owner, "name", lambda _: other)
    assert not hasattr(other, "__wrapped__")
    Seams().replace(owner, "greet", lambda _: len)


def test_replacements_of_one_name_are_undone_in_reverse(owner: type[Any]) -> None:
    before = vars(owner)["greet"]
    seams = Seams()
    seams.replace(owner, "greet", loudly)
    seams.replace(owner, "greet", loudly)
    assert owner().greet() == "hello!!"
    seams.undo_all()
    assert vars(owner)["greet"] is before


def test_all_undos_run_in_reverse_whatever_they_take_back(owner: type[Any]) -> None:
    order: list[str] = []
    seams = Seams()
    seams.on_undo(lambda: order.append("first"))
    seams.replace(owner, "greet", loudly)
    seams.on_undo(lambda: order.append(owner().greet()))
    seams.undo_all()
    assert order == ["hello!", "first"]


def test_what_was_undone_early_is_not_undone_again() -> None:
    calls: list[int] = []
    seams = Seams()
    undo = seams.on_undo(lambda: calls.append(1))
    undo()
    undo()
    seams.undo_all()
    assert calls == [1]


def test_what_was_undone_early_is_let_go() -> None:
    class Undo:
        def __call__(self) -> None:
            pass

    undo, seams = Undo(), Seams()
    ref, early = weakref.ref(undo), seams.on_undo(undo)
    early()
    del undo, early
    gc.collect()
    assert ref() is None


def test_a_static_method_stays_one(owner: type[Any]) -> None:
    before = vars(owner)["name"]
    seams = Seams()
    seams.replace(owner, "name", loudly)
    assert owner.name("Ada") == owner().name("Ada") == "Ada!"
    seams.undo_all()
    assert vars(owner)["name"] is before


def test_an_inherited_attribute_is_replaced_for_the_heir_alone(owner: type[Any]) -> None:
    heir: type[Any] = type("Heir", (owner,), {})
    seams = Seams()
    seams.replace(heir, "greet", loudly)
    assert (heir().greet(), owner().greet()) == ("hello!", "hello")
    seams.undo_all()
    assert "greet" not in vars(heir)
    assert heir().greet() == "hello"


def test_a_function_of_a_module_is_replaced() -> None:
    module: Any = ModuleType("made_up")
    module.say = lambda: "hello"
    before = module.say
    seams = Seams()
    seams.replace(module, "say", loudly)
    assert module.say() == "hello!"
    seams.undo_all()
    assert module.say is before


@pytest.fixture
def write_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write importable modules; they and their seams are gone after the test."""
    finders = list(sys.meta_path)
    monkeypatch.syspath_prepend(tmp_path)
    names: list[str] = []

    def write(name: str, source: str) -> None:
        names.append(name)
        (tmp_path / f"{name}.py").write_text(source)
        importlib.invalidate_caches()

    yield write
    sys.meta_path[:] = finders
    for name in names:
        sys.modules.pop(name, None)


def test_an_import_seam_is_told_after_the_module_has_executed(write_module: Write) -> None:
    write_module("hasten_seam_a", "value = 1\nvalue += 1")
    seen: list[int] = []
    ImportSeam("hasten_seam_a", lambda module: seen.append(module.value)).install()
    assert not seen
    importlib.import_module("hasten_seam_a")
    importlib.import_module("hasten_seam_a")
    assert seen == [2]


def test_an_import_seam_leaves_nothing_behind(write_module: Write) -> None:
    write_module("hasten_seam_b", "")
    seam = ImportSeam("hasten_seam_b", lambda module: None)
    seam.install()
    module = importlib.import_module("hasten_seam_b")
    assert seam not in sys.meta_path
    assert "exec_module" not in vars(module.__loader__)


def test_asking_for_the_spec_first_does_not_use_the_seam_up(write_module: Write) -> None:
    write_module("hasten_seam_c", "")
    seen: list[str] = []
    ImportSeam("hasten_seam_c", lambda module: seen.append(module.__name__)).install()
    for _ in range(2):
        spec = importlib.util.find_spec("hasten_seam_c")
        assert spec is not None
        assert not seen
    importlib.import_module("hasten_seam_c")
    assert seen == ["hasten_seam_c"]


def test_a_module_that_is_there_already_is_told_at_once(write_module: Write) -> None:
    write_module("hasten_seam_d", "")
    module = importlib.import_module("hasten_seam_d")
    seen: list[ModuleType] = []
    seam = ImportSeam("hasten_seam_d", seen.append)
    seam.install()
    assert seen == [module]
    assert seam not in sys.meta_path


def test_an_import_that_fails_is_waited_for_again(write_module: Write) -> None:
    write_module("hasten_seam_e", "import hasten_seam_e_needs")
    seen: list[str] = []
    ImportSeam("hasten_seam_e", lambda module: seen.append(module.__name__)).install()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("hasten_seam_e")
    assert not seen
    write_module("hasten_seam_e_needs", "")
    importlib.import_module("hasten_seam_e")
    assert seen == ["hasten_seam_e"]


def test_a_missing_module_is_missing_as_before(write_module: Write) -> None:
    ImportSeam("hasten_seam_f", lambda module: pytest.fail("there is none")).install()
    assert importlib.util.find_spec("hasten_seam_f") is None
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("hasten_seam_f")


def test_two_seams_wait_for_one_module(write_module: Write) -> None:
    write_module("hasten_seam_i", "value = 3")
    seen: list[int] = []
    ImportSeam("hasten_seam_i", lambda module: seen.append(module.value)).install()
    ImportSeam("hasten_seam_i", lambda module: seen.append(10 * module.value)).install()
    module = importlib.import_module("hasten_seam_i")
    assert sorted(seen) == [3, 30]
    assert "exec_module" not in vars(module.__loader__)


def test_two_seams_follow_modules_that_import_each_other(write_module: Write) -> None:
    write_module("hasten_seam_g", "import hasten_seam_h")
    write_module("hasten_seam_h", "")
    seen: list[str] = []
    for name in ("hasten_seam_g", "hasten_seam_h"):
        ImportSeam(name, lambda module: seen.append(module.__name__)).install()
    importlib.import_module("hasten_seam_g")
    assert seen == ["hasten_seam_h", "hasten_seam_g"]
