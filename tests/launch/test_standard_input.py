"""What a worker reads, and what becomes of the user's own standard input."""

from __future__ import annotations

import fcntl
import gc
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hasten.bench.workers.ending import ScriptOver
from hasten.errors import Refusal
from hasten.launch import standard_input as module
from hasten.launch.standard_input import File, Nothing, StandardInput, Stream, Terminal, standard_input
from tests.bench.real_workers import trials_for

from ..patience import PATIENCE_SECONDS

pytestmark = pytest.mark.attack("files")


def as_our_own(descriptor: int) -> Iterator[None]:
    """While it lasts, ``descriptor`` is this process's standard input."""
    before = os.dup(0)
    os.dup2(descriptor, 0)
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)


@pytest.fixture
def terminal() -> Iterator[int]:
    """We have one of 33 lines and 101 columns; the user's side of it."""
    user, ours = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 101, 0, 0))
    for _ in as_our_own(ours):
        yield user
    os.close(ours)
    os.close(user)


@pytest.fixture
def pipe() -> Iterator[int]:
    """Our standard input is a pipe; the user's side of it, which may be closed."""
    ours, user = os.pipe()
    for _ in as_our_own(ours):
        yield user
        with suppress(OSError):
            os.close(user)
    os.close(ours)


def run(source: StandardInput, *command: str) -> str:
    """What a program prints that reads what the next worker would."""
    given = source.give()
    where: Any = subprocess.DEVNULL if given is None else given.descriptor
    process = subprocess.Popen(
        command, stdin=where, stdout=subprocess.PIPE, start_new_session=True, text=True
    )
    if given is not None:
        given.serve()
    said, _ = process.communicate(timeout=PATIENCE_SECONDS)
    return said


def python(source: StandardInput, text: str) -> str:
    return run(source, sys.executable, "-c", text)


# ---- a terminal
def test_a_terminal_is_given_of_the_same_size(terminal: int, tmp_path: Path) -> None:
    source = standard_input(str(tmp_path))
    assert isinstance(source, Terminal)
    assert run(source, "stty", "size") == "33 101\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import os; print(os.get_terminal_size(0).columns)", "101\n"),
        ("import sys; print(sys.stdin.isatty())", "True\n"),
        ("import os; print(*os.popen('stty size').read().split())", "33 101\n"),
        ("import os; print(os.ttyname(0) != '')", "True\n"),
        ("import sys; print(repr(sys.stdin.read()))", "''\n"),
        ("import sys; print([sys.stdin.readline() for _ in range(50)].count(''))", "50\n"),
        ("import os; print([os.read(0, 9) for _ in range(3)])", "[b'', b'', b'']\n"),
        ("import sys; print(list(sys.stdin))", "[]\n"),
        ("import select; print(select.select([0], [], [], 20)[0])", "[0]\n"),
        ("import subprocess as s; print(s.run(['cat'], stdout=s.PIPE).stdout)", "b''\n"),
        ("import os; print(os.write(0, b'x' * 200_000))", "200000\n"),
        ("import termios, os; termios.tcflush(0, termios.TCIFLUSH); print(os.read(0, 9))", "b''\n"),
        ("try:\n input()\nexcept EOFError: print('end')", "end\n"),
        (
            "import getpass as g\ntry:\n g.getpass(stream=open('/dev/null', 'w'))\nexcept EOFError: print(1)",
            "1\n",
        ),
    ],
    ids=lambda value: value if value.startswith(("import", "try")) else "",
)
def test_whoever_asks_a_terminal_gets_an_answer_and_none_waits_for_ever(
    terminal: int, tmp_path: Path, text: str, said: str
) -> None:
    assert python(standard_input(str(tmp_path)), text) == said


def test_the_users_terminal_stays_as_it_was_whatever_a_worker_does_to_its_own(
    terminal: int, tmp_path: Path
) -> None:
    before = termios.tcgetattr(0)
    python(standard_input(str(tmp_path)), "import tty; tty.setraw(0); print(1)")
    assert termios.tcgetattr(0) == before


def test_what_the_user_types_is_not_taken(terminal: int, tmp_path: Path) -> None:
    os.write(terminal, b"next command\n")
    assert python(standard_input(str(tmp_path)), "import sys; print(repr(sys.stdin.read()))") == "''\n"
    assert os.read(0, 100) == b"next command\n"


def test_each_worker_has_a_terminal_of_its_own(terminal: int, tmp_path: Path) -> None:
    source = standard_input(str(tmp_path))
    python(source, "import tty, os; tty.setraw(0); os.read(0, 4000)")
    assert python(source, "import termios; print(termios.tcgetattr(0)[3] & termios.ICANON != 0)") == "True\n"


def test_a_terminal_goes_with_its_worker(terminal: int, tmp_path: Path) -> None:
    source = standard_input(str(tmp_path))
    gc.collect()  # files that a test before this one left open
    before = set(os.listdir("/proc/self/fd"))
    for _ in range(3):
        run(source, "true")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (more := set(os.listdir("/proc/self/fd")) - before) or _attending():
        assert time.monotonic() < deadline, f"open since: {more}, attending: {_attending()}"


def test_without_a_terminal_left_there_is_none_and_that_is_said(
    terminal: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise OSError("out of pty devices")

    monkeypatch.setattr(os, "openpty", refuse)
    source = standard_input(str(tmp_path))
    assert python(source, "import sys; print(repr(sys.stdin.read()))") == "''\n"
    assert source.stands_in == "none, as there is no terminal left to give"


# ---- a pipe
READ_ALL = "import sys; print(repr(sys.stdin.read()))"


def test_what_is_piped_is_read_by_each_worker_from_its_beginning(pipe: int, tmp_path: Path) -> None:
    os.write(pipe, b"yes\nno\n")
    os.close(pipe)
    source = standard_input(str(tmp_path))
    assert isinstance(source, Stream)
    assert [python(source, READ_ALL) for _ in range(3)] == ["'yes\\nno\\n'\n"] * 3


def test_a_pipe_that_nobody_closes_lets_a_worker_go_that_reads_one_line(pipe: int, tmp_path: Path) -> None:
    os.write(pipe, b"yes\n")
    source = standard_input(str(tmp_path))
    assert [python(source, "print(input())") for _ in range(2)] == ["yes\n", "yes\n"]


def test_a_pipe_that_nobody_writes_lets_a_worker_go_that_reads_nothing(pipe: int, tmp_path: Path) -> None:
    source = standard_input(str(tmp_path))
    assert [python(source, "print(1)") for _ in range(2)] == ["1\n", "1\n"]


def test_what_comes_late_is_waited_for(pipe: int, tmp_path: Path) -> None:
    source = standard_input(str(tmp_path))
    given = source.give()
    assert given is not None
    text = "import sys; print('reading', flush=True); print(repr(sys.stdin.read()))"
    process = subprocess.Popen(
        [sys.executable, "-c", text], stdin=given.descriptor, stdout=subprocess.PIPE, text=True
    )
    given.serve()
    assert process.stdout is not None
    assert process.stdout.readline() == "reading\n"
    os.write(pipe, b"late")
    os.close(pipe)
    assert process.communicate(timeout=PATIENCE_SECONDS)[0] == "'late'\n"


def test_two_workers_at_once_read_the_same(pipe: int, tmp_path: Path) -> None:
    sent = bytes(range(256)) * 2000  # more than pipes hold
    threading.Thread(target=_write_all, args=(pipe, sent)).start()
    source = standard_input(str(tmp_path))
    count = "import sys, hashlib; print(hashlib.md5(sys.stdin.buffer.read()).hexdigest())"
    said: list[str] = []
    readers = [threading.Thread(target=lambda: said.append(python(source, count))) for _ in range(3)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert len(said) == 3
    assert len(set(said)) == 1


def test_a_pipe_without_end_is_no_reason_to_keep_all_of_it(
    pipe: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of ``yes | hasten tune train.py``."""
    monkeypatch.setattr(Stream, "most_bytes", 2**20)
    threading.Thread(target=_write_for_ever, args=(pipe,), daemon=True).start()
    source = standard_input(str(tmp_path))
    assert [python(source, "print(input())") for _ in range(2)] == ["y\n", "y\n"]
    source.check()
    python(source, "import sys; sys.stdin.read()")
    with pytest.raises(Refusal, match=r"more than 1 MB of what is piped to it.*SCRIPT < FILE"):
        source.check()


# ---- a file
def test_a_file_is_opened_anew_for_each_worker_and_can_be_sought_in(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    path.write_text("one\ntwo\n")
    with path.open() as file:
        for _ in as_our_own(file.fileno()):
            source = standard_input(str(tmp_path))
            assert isinstance(source, File)
            text = "import sys; a = sys.stdin.read(); sys.stdin.seek(0); print(repr(a), input())"
            assert [python(source, text) for _ in range(2)] == ["'one\\ntwo\\n' one\n"] * 2


def test_a_shells_loop_over_a_file_loses_no_line(tmp_path: Path) -> None:
    """``while read line; do hasten tune train.py; done < lines``: what is left of the file is the loop's."""
    path = tmp_path / "lines"
    path.write_text("one\ntwo\nthree\n")
    with path.open("rb", buffering=0) as file:
        assert file.read(4) == b"one\n"
        for _ in as_our_own(file.fileno()):
            assert python(standard_input(str(tmp_path)), READ_ALL) == "'two\\nthree\\n'\n"
        assert file.read() == b"two\nthree\n"


def test_a_file_that_is_removed_meanwhile_can_be_read_still(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    path.write_text("here")
    with path.open() as file:
        path.unlink()
        for _ in as_our_own(file.fileno()):
            assert python(standard_input(str(tmp_path)), READ_ALL) == "'here'\n"


def test_where_a_file_cannot_be_opened_again_it_is_read_as_a_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_AGAIN", str(tmp_path / "none"))
    path = tmp_path / "answers"
    path.write_text("here")
    with path.open() as file:
        for _ in as_our_own(file.fileno()):
            source = standard_input(str(tmp_path))
            assert isinstance(source, Stream)
            assert [python(source, READ_ALL) for _ in range(2)] == ["'here'\n"] * 2


# ---- neither
@pytest.mark.parametrize("path", [os.devnull, "/"])
def test_nothing_to_read_is_nothing_for_all(tmp_path: Path, path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    for _ in as_our_own(descriptor):
        source = standard_input(str(tmp_path))
        assert isinstance(source, Nothing)
        assert python(source, READ_ALL) == "''\n"
        assert source.stands_in == ""
    os.close(descriptor)


def test_a_closed_one_is_nothing(tmp_path: Path) -> None:
    before = os.dup(0)
    os.close(0)
    try:
        assert isinstance(standard_input(str(tmp_path)), Nothing)
    finally:
        os.dup2(before, 0)
        os.close(before)


def test_nothing_is_left_in_the_folder(pipe: int, tmp_path: Path) -> None:
    os.write(pipe, b"yes\n")
    os.close(pipe)
    python(standard_input(str(tmp_path)), READ_ALL)
    assert list(tmp_path.iterdir()) == []


def _attending() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "standard input"]


def _write_all(descriptor: int, data: bytes) -> None:
    with os.fdopen(os.dup(descriptor), "wb") as file:
        os.close(descriptor)
        file.write(data)


def _write_for_ever(descriptor: int) -> None:
    own = os.dup(descriptor)
    os.close(descriptor)
    with suppress(OSError):
        while True:
            os.write(own, b"y\n" * 1000)
    os.close(own)


def test_every_worker_of_a_stage_reads_what_is_piped(pipe: int, tmp_path: Path) -> None:
    os.write(pipe, b"one\ntwo\n")
    os.close(pipe)
    with trials_for(tmp_path, "import sys\nprint(repr(sys.stdin.read()))") as trials:
        for _ in range(3):
            with trials.worker() as worker, pytest.raises(ScriptOver):
                worker.wait_started()
    said = [path.read_text() for path in sorted((tmp_path / "output").glob("*.stdout"))]
    assert said == ["'one\\ntwo\\n'\n"] * 3
