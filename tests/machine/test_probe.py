from __future__ import annotations

from pathlib import Path

import pytest

from hasten.machine.probe import fields_in, number_in, numbers_in, output_of, text_of

from .conftest import Programs


def test_text_is_stripped(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(" 1 2\n")
    assert text_of(tmp_path / "file") == "1 2"


def test_what_cannot_be_read_is_empty(tmp_path: Path) -> None:
    assert text_of(tmp_path / "missing") == ""
    assert text_of(tmp_path) == ""


def test_bytes_that_are_no_text_do_not_raise(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"GPU \xff")
    assert text_of(tmp_path / "file").startswith("GPU")


def test_output_is_that_of_a_program_that_succeeds(programs: Programs) -> None:
    programs("good", 'echo "$1"')
    programs("bad", "echo half; exit 3")
    assert output_of("good", "value") == "value"
    assert output_of("bad") == ""
    assert output_of("missing") == ""


def test_a_program_that_hangs_is_given_up(programs: Programs) -> None:
    programs("hangs", "while :; do :; done")
    assert output_of("hangs", timeout_seconds=0.05) == ""


def test_fields_are_split_at_the_first_colon() -> None:
    assert fields_in("Bus: \t 0000:07:00.0\nempty:\n") == {"Bus": "0000:07:00.0", "empty": ""}


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("42", 42), ("max", None), ("-1", None), ("", None)])
def test_only_whole_numbers_count(text: str, number: int | None) -> None:
    assert number_in(text) == number


@pytest.mark.parametrize(
    ("text", "numbers"), [("0-2,8", (0, 1, 2, 8)), ("5", (5,)), ("", ()), ("0-1,4-5", (0, 1, 4, 5))]
)
def test_a_list_of_the_kernels(text: str, numbers: tuple[int, ...]) -> None:
    assert numbers_in(text) == numbers
