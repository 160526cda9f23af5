"""What a script wrote outside its folders is named, by the path it would have had."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasten.bench.workers.outside_writes import outside_caution, written_outside
from hasten.records.caution import Caution

pytestmark = pytest.mark.attack("files")


@pytest.fixture
def upper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What went into an overlay over everything."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", "/tmp")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    (tmp_path / "home/.cache").mkdir(parents=True)
    (tmp_path / "upper").mkdir()
    return tmp_path / "upper"


def put(upper: Path, path: str) -> None:
    made = upper / path.lstrip("/")
    made.parent.mkdir(parents=True, exist_ok=True)
    made.touch()


NAMED = ["/data/last.pt", "/home/me/up.txt", "/tmp/results.csv", "/var/tmp/run/log.txt", "/project-2/last.pt"]
PASSED_OVER = [
    "/project/last.pt",
    "/project/runs/1/log",
    "/usr/lib/python3/__pycache__/os.cpython-311.pyc",
    "/tmp/torchinductor_me/ab/code.py",
    "/tmp/tmpab12cd/file",
    "/tmp/pymp-xyz/listener",
]


@pytest.mark.parametrize("path", NAMED)
def test_named(upper: Path, path: str) -> None:
    put(upper, path)
    assert written_outside([{"/": str(upper)}], ["/project"]) == [path]


@pytest.mark.parametrize("path", PASSED_OVER)
def test_passed_over(upper: Path, path: str) -> None:
    put(upper, path)
    assert written_outside([{"/": str(upper)}], ["/project"]) == []


def test_caches_are_passed_over(upper: Path, tmp_path: Path) -> None:
    put(upper, f"{tmp_path}/home/.cache/weights/model.bin")
    assert written_outside([{"/": str(upper)}], ["/project"]) == []


def test_each_file_is_named_once_for_all_workers_and_places(upper: Path) -> None:
    put(upper, "/last.pt")
    (upper / "empty folder").mkdir()
    (upper / "link").symlink_to("/etc")
    workers = [{"/data": str(upper)}, {"/data": str(upper), "/other": str(upper)}]
    assert written_outside(workers, []) == ["/data/last.pt", "/data/link", "/other/last.pt", "/other/link"]


def test_a_link_to_a_folder_is_not_looked_into(upper: Path, tmp_path: Path) -> None:
    (tmp_path / "large").mkdir()
    (tmp_path / "large" / "file").touch()
    (upper / "link").symlink_to(tmp_path / "large")
    assert written_outside([{"/": str(upper)}], []) == ["/link"]


def test_a_layer_that_has_gone_is_no_error() -> None:
    assert written_outside([{"/": "/nowhere"}], []) == []


def test_where_something_was_written_there_is_one_warning_of_all_of_it() -> None:
    assert outside_caution([]) == []
    assert outside_caution(["/data/0", "/data/1"]) == [Caution("wrote outside", paths=("/data/0", "/data/1"))]
