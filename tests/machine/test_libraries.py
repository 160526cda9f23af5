"""Libraries by kind: from the usual folders, from what ld.so knows, from an installed package."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasten.machine import libraries

from .conftest import Programs, Record

CACHE = """\
2 libs found in cache `/etc/ld.so.cache'
\tlibjemalloc.so.2 (libc6) => /usr/lib/i386-linux-gnu/libjemalloc.so.2
\tlibjemalloc.so.2 (libc6,x86-64) => /lib/x86_64-linux-gnu/libjemalloc.so.2
\tlibtcmalloc.so.4 (libc6,x86-64) => /lib/x86_64-linux-gnu/libtcmalloc.so.4
\tlibtcmalloc_minimal_debug.so.4 (libc6,x86-64) => /lib/x86_64-linux-gnu/libtcmalloc_minimal_debug.so.4
"""


def test_they_are_found_in_the_usual_folders(record: Record) -> None:
    root = record({"usr/lib/x86_64-linux-gnu/libjemalloc.so.2": "", "usr/local/lib/libmimalloc.so.2": ""})
    found = libraries.libraries(root)
    assert found["jemalloc"] == str(root / "usr/lib/x86_64-linux-gnu/libjemalloc.so.2")
    assert found["mimalloc"] == str(root / "usr/local/lib/libmimalloc.so.2")
    assert "tcmalloc" not in found


def test_what_the_loader_knows_is_taken_with_its_word_size(programs: Programs) -> None:
    programs("ldconfig", f"printf '%s' '{CACHE.replace(chr(39), '')}'")
    found = libraries._cache()
    assert found["libjemalloc.so.2"] == "/lib/x86_64-linux-gnu/libjemalloc.so.2"
    assert found["libtcmalloc.so.4"] == "/lib/x86_64-linux-gnu/libtcmalloc.so.4"


def test_a_file_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wheels put it next to the site-packages folder, so that the record leads out of it."""
    info = tmp_path / "site-packages/intel_openmp-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: intel-openmp\nVersion: 1.0\n")
    (info / "RECORD").write_text("../libiomp5_db.so,,\n../libiomp5.so,,\n")
    (tmp_path / "libiomp5.so").touch()
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    assert libraries._of_package("intel-openmp", "libiomp5.so") == str(tmp_path / "libiomp5.so")
    assert libraries._of_package("intel-openmp", "libother.so") == ""


def test_a_package_that_is_not_there() -> None:
    assert libraries._of_package("no-such-package", "libiomp5.so") == ""


def test_a_path_that_the_loader_would_take_apart_is_left_out(record: Record) -> None:
    root = record({"proc/uptime": ""}) / "two words"
    (root / "usr/lib").mkdir(parents=True)
    (root / "usr/lib/libjemalloc.so.2").touch()
    assert "jemalloc" not in libraries.libraries(root)
