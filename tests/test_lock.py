"""Two at once: one measures, the other says who does, or waits."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hasten.errors import InUse, Refusal, UsageError
from hasten.lock import alone, beside_nobody
from hasten.plans.own import prepare
from hasten.scripts.workspace import Script, Workspace
from hasten.tuning.journal import Journal

from .tuning.test_journal import rows

pytestmark = [pytest.mark.attack("together")]

HERE = Workspace(Script(Path("train.py"), ()))
HOLDER = """
import sys
from pathlib import Path
from hasten.lock import alone
from hasten.scripts.workspace import Script, Workspace
sys.argv = ["hasten", *sys.argv[1:]]
with alone(Workspace(Script(Path("train.py"), ())), True, lambda text: print(text, flush=True)):
    print("held", flush=True)
    sys.stdin.read()
"""


def nothing(text: str) -> None:
    pass


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    prepare(HERE)
    return tmp_path


@contextmanager
def another(*words: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock until its standard input ends."""
    command = [sys.executable, "-c", HOLDER, *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def refusal() -> str:
    with pytest.raises(InUse) as raised, alone(HERE, False, nothing):
        pass
    return str(raised.value)


def test_the_message_says_who_holds_it_and_since_when(folder: Path) -> None:
    with another("tune", "train.py", "--epochs", "5") as process:
        message = refusal()
    assert message.startswith(f"process {process.pid} (hasten tune train.py --epochs 5), since 20")
    assert message.endswith(
        f", is measuring in {folder}, and two at once would disturb each other: wait for its end (with "
        "--wait hasten does), or end it"
    )
    assert "\n" not in message


def test_it_is_a_refusal() -> None:
    """Exit code 3, and --json has it."""
    assert issubclass(InUse, Refusal)


def test_within_one_process_it_holds_too() -> None:
    with alone(HERE, False, nothing):
        assert f"process {os.getpid()} " in refusal()


def test_afterwards_it_is_free_and_says_nothing() -> None:
    for _ in range(2):
        with alone(HERE, False, nothing) as held:
            assert held
    assert HERE.lock_path.read_bytes() == b""


def test_after_an_error_it_is_free() -> None:
    with pytest.raises(ZeroDivisionError), alone(HERE, False, nothing):
        raise ZeroDivisionError
    with alone(HERE, False, nothing):
        pass


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT]
)
def test_however_it_ends_it_is_free(number: signal.Signals) -> None:
    with another() as process:
        process.send_signal(number)
        process.wait()
        with alone(HERE, False, nothing) as held:
            assert held


def test_one_that_stands_still_holds_it() -> None:
    with another() as process:
        process.send_signal(signal.SIGSTOP)
        assert f"process {process.pid} " in refusal()


def test_waiting_ends_with_the_others_end() -> None:
    said: list[str] = []
    with another("verify", "train.py") as process:
        assert process.stdin is not None
        waiting = threading.Event()

        def say(text: str) -> None:
            said.append(text)
            waiting.set()

        def let_go() -> None:
            waiting.wait()
            process.communicate("")

        thread = threading.Thread(target=let_go)
        thread.start()
        with alone(HERE, True, say) as held:
            assert held
            assert process.poll() is not None or process.stdin.closed
        thread.join()
    (text,) = said
    assert text.startswith(f"waiting for process {process.pid} (hasten verify train.py), since ")


def test_who_waited_for_a_folder_that_was_removed_takes_the_new_one() -> None:
    """Otherwise it would hold a file that nobody else can see."""
    with another() as first:
        command = [sys.executable, "-c", HOLDER]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as second:
            assert second.stdout is not None
            assert second.stdout.readline().startswith("waiting for process ")
            shutil.rmtree(HERE.root)
            prepare(HERE)
            first.communicate("")
            assert second.stdout.readline() == "held\n"
            assert f"process {second.pid} " in refusal()
            second.kill()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\0" * 5000,
        b"[" * 100_000,
        b"{}",
        b"[]",
        b'{"pid": "x", "command": "hasten", "since": 1}',
        b'{"pid": 1, "command": "hasten", "since": 1e300}',
        b'{"pid": 1, "command": "hasten", "since": NaN}',
        b'{"pid": 1e999, "command": "hasten", "since": 1}',
    ],
)
def test_a_text_that_says_nothing(text: bytes) -> None:
    with HERE.lock_path.open("wb") as file:
        file.write(text)
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        assert refusal().startswith("another hasten is measuring in ")


def test_a_terminal_is_told_nothing_by_another() -> None:
    with HERE.lock_path.open("wb") as file:
        file.write(b'{"pid": 1, "command": "\\u001b[2J\\u202e\\n", "since": 1}')
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        assert refusal().startswith("process 1 (?[2J??), since ")


def test_a_long_command_is_cut() -> None:
    with another("tune", "train.py", "x" * 100_000):
        assert "x" * 150 in (message := refusal())
        assert len(message) < 600


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_no_reason_to_stop(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refused)
    with alone(HERE, False, nothing) as held:
        assert not held


def test_a_folder_that_is_gone(folder: Path) -> None:
    shutil.rmtree(HERE.root)
    with (
        pytest.raises(UsageError, match=r"\.hasten/\.lock cannot be used: No such file or directory"),
        alone(HERE, False, nothing),
    ):
        pass


def test_a_profile_makes_no_folder(folder: Path) -> None:
    shutil.rmtree(HERE.root)
    with beside_nobody(HERE, False, nothing):
        assert list(folder.iterdir()) == []


def test_a_profile_stops_during_a_tune() -> None:
    with another(), pytest.raises(InUse), beside_nobody(HERE, False, nothing):
        pass


def test_a_tune_stops_during_a_profile() -> None:
    with beside_nobody(HERE, False, nothing):
        assert "is measuring in" in refusal()


# ---- trials
MAKES_TRIALS = """
import sys
from pathlib import Path
from hasten.scripts.workspace import Script, Workspace
for _ in range(100):
    print(Workspace(Script(Path("train.py"), ())).new_trial(), flush=True)
"""


def test_no_two_take_the_same_trial() -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", MAKES_TRIALS], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    made = [line for process in processes for line in process.communicate()[0].split()]
    assert [process.returncode for process in processes] == [0] * 4
    assert len(set(made)) == len(made) == 400


# ---- the journal
def states() -> list[str]:
    return [state for (state,) in rows(HERE.journal_path, "SELECT state FROM tunes ORDER BY id")]


def test_a_tune_that_was_killed_is_told_so_by_the_next() -> None:
    Journal(HERE.journal_path, {}, alone=True).close("finished")
    killed = Journal(HERE.journal_path, {}, alone=True)  # and no more
    last = Journal(HERE.journal_path, {}, alone=True)
    assert states() == ["finished", "killed", "open"]
    last.close("failed")
    assert states() == ["finished", "killed", "failed"]
    killed.close("failed")


def test_a_tune_that_goes_on_stays_open() -> None:
    first = Journal(HERE.journal_path, {})
    Journal(HERE.journal_path, {}).close("finished")
    assert states() == ["open", "finished"]
    first.close("interrupted")
    assert states() == ["interrupted", "finished"]
