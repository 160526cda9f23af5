"""One folder a script, by where it lies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hasten.scripts.folder_names import folder_name, named_by, old_folder_name

pytestmark = pytest.mark.attack("truth")

PLAIN = {
    "train.py": "train",
    "./train.py": "train",
    "a/../train.py": "train",
    "a/train.py": "a.train",
    "a/b/my-train_2.py": "a.b.my-train_2",
    "train.ipynb": "train.ipynb",
    "a/train.ipynb": "a.train.ipynb",
    "lock.py": "lock",
    "module.py": "module",
    "ipynb.py": "ipynb",
    "journal.py": "journal",
}
DIGESTED = {  # what is readable of it
    "../train.py": "train",
    "/nowhere/train.py": "nowhere.train",
    "train": "train",
    "train.pyw": "train",
    "a.train.py": "a_train",
    "journal.db.py": "journal_db",
    "journal/db.py": "journal.db",
    "journal/db-wal.py": "journal.db-wal",
    "a/module.py": "a.module",
    "a/ipynb.py": "a.ipynb",
    "-train.py": "train",
    ".train.py": "_train",
    ".gitignore": "_gitignore",
    "träin.py": "tr_in",
    "訓練.py": "__",
    "my train.py": "my_train",
    "train\n.py": "train_",
    "\x1b[2J.py": "__2J",
    "@.py": "_",
    "a@0123456789ab.py": "a_0123456789ab",
    "\udcff.py": "_",
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("path", PLAIN)
def test_a_plain_name_is_read_as_it_is(path: str) -> None:
    assert folder_name(Path(path)) == PLAIN[path]


@pytest.mark.parametrize("path", DIGESTED)
def test_another_name_stays_readable(path: str) -> None:
    readable, digest = folder_name(Path(path)).rsplit("@", 1)
    assert readable.endswith(DIGESTED[path])
    assert len(digest) == 12


@pytest.mark.parametrize(
    ("module", "name"),
    [("train", "train.module"), ("package.train", "package.train.module"), ("module", "module.module")],
)
def test_a_module_is_not_the_file_of_that_name(module: str, name: str) -> None:
    assert folder_name(Path("package/train.py"), module) == name


def test_all_of_these_differ() -> None:
    paths = [*list(PLAIN)[3:], "train.py", *DIGESTED]
    modules = ["train", "a.train", "module", "a.module", "träin", "train.ipynb", "journal.db", "a", "a.b"]
    names = [folder_name(Path(path)) for path in paths] + [folder_name(Path(), name) for name in modules]
    assert len(set(names)) == len(names)


WORDS = st.text(st.sampled_from("ab.-_@ é/"), min_size=1, max_size=6)
ENDINGS = st.sampled_from(["", ".py", ".ipynb", "/module.py", "/ipynb.py", "@0.py"])
SCRIPTS = st.tuples(st.sampled_from(["", "../", "journal/", "journal.db"]), WORDS, ENDINGS).map("".join)


@given(one=SCRIPTS, other=SCRIPTS, module=st.booleans())
def test_no_two_scripts_share_a_name(one: str, other: str, module: bool) -> None:
    names = folder_name(Path(one)), folder_name(Path(), other) if module else folder_name(Path(other))
    same = not module and os.path.abspath(one) == os.path.abspath(other)
    assert (names[0] == names[1]) == same


@given(one=SCRIPTS)
def test_a_name_is_one_folder_next_to_our_files(one: str) -> None:
    for name in (folder_name(Path(one)), folder_name(Path(), one)):
        assert "/" not in name
        assert name[0] not in ".-"
        assert len(name) <= 100
        assert not name.startswith("journal.db") or "@" in name


def test_a_long_name_is_cut_and_still_ones_own() -> None:
    names = {folder_name(Path("a" * 200, "b" * 200 + letter + ".py")) for letter in "cd"}
    assert len(names) == 2
    assert max(map(len, names)) <= 100


def test_a_link_to_a_script_is_that_script(here: Path) -> None:
    (here / "a").mkdir()
    (here / "a/train.py").touch()
    (here / "latest.py").symlink_to("a/train.py")
    assert folder_name(Path("latest.py")) == "a.train"


def test_a_link_to_a_folder_is_that_folder(here: Path) -> None:
    (here / "a").mkdir()
    (here / "b").symlink_to("a")
    assert folder_name(Path("b/train.py")) == "a.train"


def test_it_stays_when_the_project_is_moved(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "run").mkdir()
    os.chdir("run")
    before = folder_name(Path("../träin.py")), folder_name(Path("träin.py"))
    here.rename(here.with_name("moved"))
    monkeypatch.chdir(here.with_name("moved") / "run")
    assert (folder_name(Path("../träin.py")), folder_name(Path("träin.py"))) == before


@pytest.mark.parametrize("typed", ["a/train.py", "./a/train.py", "a//train.py", "a/../a/train.py"])
def test_however_it_is_typed(here: Path, typed: str) -> None:
    assert folder_name(Path(typed)) == folder_name(here / "a/train.py") == "a.train"


@pytest.mark.parametrize(
    ("label", "old"),
    [
        ("a/train.py", "train"),
        ("train.ipynb", "train"),
        ("-m a.train", "a.train"),
        ("a.train.py", "a.train"),
        ("", ""),
    ],
)
def test_a_label_tells_what_an_older_version_called_it(label: str, old: str) -> None:
    assert old_folder_name(*named_by(label)) == old
