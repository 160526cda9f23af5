"""An error that comes of a denied write is told from others, with the file's name and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasten.bench.workers.denied import (
    ADVICE,
    denied_file,
    denied_words,
    is_denied_write,
)
from hasten.bench.workers.ending import ScriptEnded, ScriptOver, script_error

WHY = "the kernel refused unshare: Operation not permitted"
DENIED = {  # an error's last line, and the file it names
    "PermissionError: [Errno 13] Permission denied: 'log.txt'": "'log.txt'",
    "PermissionError: [Errno 13] Permission denied: b'log.txt'": "b'log.txt'",
    "PermissionError: [Errno 13] Permission denied: 'a' -> 'b'": "'a' -> 'b'",
    "OSError: [Errno 18] Invalid cross-device link: 'a' -> '/tmp/b'": "'a' -> '/tmp/b'",
    "RuntimeError: open file failed with strerror: Permission denied: 'last.pt'": "'last.pt'",
    "RuntimeError: File runs/last.pt cannot be opened.": "'runs/last.pt'",
    'SafetensorError: I/O error: Permission denied (os error 13) at path "/x/m"': "'/x/m'",
    "PermissionError: [Errno 13] Unable to open file (name = 'd.h5', errno = 13, ...)": "'d.h5'",
    "sqlite3.OperationalError: attempt to write a readonly database": "a file",
    "sqlite3.OperationalError: unable to open database file": "a file",
}


@pytest.mark.parametrize("line", DENIED)
def test_a_denied_write_and_its_file(line: str) -> None:
    detail = f"Traceback (most recent call last):\n  ...\n{line}\n"
    assert is_denied_write(detail)
    assert denied_file(detail) == DENIED[line]


@pytest.mark.parametrize(
    "line", ["ValueError: wrong shape", "FileNotFoundError: [Errno 2] No such file: 'a'"]
)
def test_another_error(line: str) -> None:
    assert not is_denied_write(line)


def test_the_last_of_several_is_the_one() -> None:
    lines = ["PermissionError: [Errno 13] Permission denied: 'first'", "", "During handling ..."]
    assert denied_file("\n".join([*lines, lines[0].replace("first", "second")])) == "'second'"


def test_what_to_do_is_said() -> None:
    words = denied_words("Permission denied: 'log.txt'", WHY)
    assert words.startswith("Writing 'log.txt' was denied: a trial may only change temporary files")
    assert f"({WHY}). Run again with --allow-writes if the script may write while it is measured; " in words


RAISED = "Traceback ...\nPermissionError: [Errno 13] Permission denied: 'log.txt'\n"


def test_the_user_is_told_only_where_hasten_denied_it() -> None:
    denied, own = (ScriptEnded("raised", RAISED, (), (), denied=why) for why in (WHY, ""))
    told = f"train.py failed where trials may not write:\n{RAISED}{denied_words(RAISED, WHY)}"
    assert str(script_error(denied, "train.py", Path("trials"))) == told
    assert "Traceback" not in str(script_error(denied, "train.py"))  # which was seen
    assert str(ScriptOver(denied)).endswith(f"'log.txt'; writing is denied here: {ADVICE}")
    for told in (str(script_error(own, "train.py")), str(ScriptOver(own))):
        assert told.endswith("Permission denied: 'log.txt'")


def test_an_error_of_another_kind_is_the_scripts_own_also_where_writes_are_denied() -> None:
    ended = ScriptEnded("raised", "ValueError: wrong shape\n", (), (), denied=WHY)
    assert "raised an error of its own" in str(script_error(ended, "train.py"))
    assert str(ScriptOver(ended)) == "the script raised ValueError: wrong shape"


def test_an_exit_with_such_a_message_is_explained_too() -> None:
    ended = ScriptEnded("said", "[Errno 13] Permission denied: 'log.txt'", (), (), denied=WHY)
    assert "--allow-writes" in str(script_error(ended, "train.py"))
