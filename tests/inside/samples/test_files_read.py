"""Files that samples are made from are marked wherever they lie."""

from __future__ import annotations

import sys
import sysconfig

import pytest

from hasten.inside.samples import files_read


@pytest.mark.parametrize(
    "path",
    [
        "/usr/src/app/data/1.png",
        "/usr/local/data/1.png",
        "/dev/shm/data/1.png",
        "/librispeech/1.flac",
        "/library/1.png",
        "/home/one/data/1.png",
        f"{sys.prefix}-data/1.png",
        f"{sys.prefix}/data/1.png",
    ],
)
def test_a_file_of_samples_is_told_from_the_systems(path: str) -> None:
    assert not files_read._is_of_no_sample(path)


@pytest.mark.parametrize(
    "path",
    [
        "/usr/lib/locale/C.utf8",
        "/lib64/libm.so",
        "/dev/urandom",
        "/dev/shm/torch_1_2",
        f"{sysconfig.get_path('stdlib')}/json/decoder.py",
        f"{sysconfig.get_path('purelib')}/torch/version.py",
    ],
)
def test_what_python_and_the_system_read_is_left_out(path: str) -> None:
    assert files_read._is_of_no_sample(path)


def test_a_folder_in_the_place_of_shared_memory_is_heard() -> None:
    heard = files_read.FilesRead()
    heard._hear("open", ("/dev/shm/hasten-no-such-file", "r", 0))
    heard._hear("open", ("/usr/src/app/hasten-no-such-file", "r", 0))
    heard._hear("open", ("/usr/share/hasten-no-such-file", "r", 0))
    assert [path for path, _, _ in heard.since()] == [
        "/dev/shm/hasten-no-such-file",
        "/usr/src/app/hasten-no-such-file",
    ]
