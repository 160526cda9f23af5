"""What the system makes of the argument of sys.exit."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hasten.inside.worker.exits import exit_of


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError


CODES = {
    "None": ("completed", ""),
    "0": ("completed", ""),
    "False": ("completed", ""),
    "256": ("completed", ""),
    "3": ("exit", "3"),
    "True": ("exit", "1"),
    "-1": ("exit", "255"),
    "259": ("exit", "3"),
    "2**70": ("exit", "255"),
    "'need a dataset'": ("said", "need a dataset"),
    "'3'": ("said", "3"),
    "''": ("exit", "1"),
    "'  '": ("exit", "1"),
    "[]": ("said", "[]"),
    "0.0": ("said", "0.0"),
    "(1, 2)": ("said", "(1, 2)"),
    "'two\\nlines'": ("said", "two\nlines"),
}


@pytest.mark.attack("messages")
@pytest.mark.parametrize("code", CODES)
def test_an_exit_is_what_the_system_sees(code: str) -> None:
    assert exit_of(eval(code)) == CODES[code]


@pytest.mark.attack("messages")
def test_an_exit_with_what_cannot_be_printed() -> None:
    assert exit_of(Unspeakable()) == ("exit", "1")


def test_the_table_is_true() -> None:
    """One process for all: each code ends a fork of it."""
    source = """
import os, sys
for code in CODES:
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.exit(eval(code))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
    text = source.replace("CODES", repr(list(CODES)))
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    expected = {"completed": "0", "said": "1"}
    assert done.stdout.split() == [expected.get(how, number) for how, number in CODES.values()]
