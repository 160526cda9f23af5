"""Several ranks are one program: one terminal, one end, one exit code, and nothing left behind."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..cli.conftest import Project, wait_until
from ..patience import PATIENCE_SECONDS
from ..thorough import cases

ROOT = Path(__file__).parent.parent.parent
START = """
import os, signal, subprocess, sys, time
rank, size = int(os.environ['RANK']), os.environ['WORLD_SIZE']
"""
WAIT = "open(f'up-{rank}', 'w').close()\ntime.sleep(600)\n"

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="ranks are told apart in /proc"),
]


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Project]:
    project = Project(tmp_path)
    project.environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    yield project
    project.end_all()


def words(size: int, *more: str) -> list[str]:
    return [sys.executable, "-m", "tests.launch.group", str(size), "train.py", *more]


def run(here: Project, source: str, size: int = 2, *more: str) -> subprocess.CompletedProcess[str]:
    here.write("train.py", START + source)
    return here.python(*words(size, *more)[1:], stdin="typed")


def started(here: Project, source: str, size: int = 2, *more: str) -> subprocess.Popen[str]:
    """The launcher, once all ranks wait."""
    here.write("train.py", START + source)
    process = subprocess.Popen(
        words(size, *more),
        cwd=here.folder,
        env=here.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: len(list(here.folder.glob("up-*"))) >= size)
    return process


def test_the_terminal_is_rank_0s(here: Project) -> None:
    done = run(here, "print(rank, size, repr(sys.stdin.read()))\nprint(rank, file=sys.stderr)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 2 'typed'\n", "0\n")


def test_all_speak_where_they_are_to(here: Project) -> None:
    done = run(here, "print(rank, flush=True)\nprint('e', rank, file=sys.stderr)", 3, "all")
    assert sorted(done.stdout.split()) == ["0", "1", "2"]
    assert sorted(done.stderr.splitlines()) == ["e 0", "e 1", "e 2"]


def test_the_exit_code_is_rank_0s_where_none_failed(here: Project) -> None:
    assert run(here, "sys.exit(0)").returncode == 0


def test_a_rank_that_raises_ends_the_others_and_is_named(here: Project) -> None:
    done = run(here, "if rank == 1:\n    raise ValueError('no such file: data.bin')\n" + WAIT)
    assert done.returncode == 1
    *told, last = done.stderr.splitlines()
    assert last == (
        "hasten: rank 1 of 2 ended with exit code 1; the other ranks were ended: "
        "ValueError: no such file: data.bin"
    )
    assert told[0] == "hasten: the last lines of rank 1:"
    assert told[1] == "    Traceback (most recent call last):"
    assert here.left_over() == []


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_killed_is_named_with_the_signal(here: Project, rank: int) -> None:
    done = run(here, f"if rank == {rank}:\n    os.kill(os.getpid(), signal.SIGSEGV)\n" + WAIT)
    assert done.returncode == 128 + signal.SIGSEGV
    assert done.stderr == (f"hasten: rank {rank} of 2 was killed by SIGSEGV; the other ranks were ended\n")


def test_the_exit_code_is_the_failing_ranks(here: Project) -> None:
    assert run(here, "if rank == 2:\n    sys.exit(7)\n" + WAIT, 3).returncode == 7


def test_one_that_will_not_end_is_killed(here: Project) -> None:
    """oneCCL swallows SIGTERM; a stopped process does not even hear it."""
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    stopped = "if rank == 2:\n    open('up-2', 'w').close()\n    os.kill(os.getpid(), signal.SIGSTOP)\n"
    fails = "while rank == 1 and len([n for n in os.listdir() if n.startswith('up')]) < 2:\n    pass\n"
    done = run(here, f"{deaf}{stopped}{fails}if rank == 1:\n    sys.exit(3)\n{WAIT}", 3)
    assert done.returncode == 3
    assert here.left_over() == []


def test_what_a_failed_rank_started_goes_too(here: Project) -> None:
    child = "subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
    done = run(here, f"{child}if rank == 1:\n    os.kill(os.getpid(), signal.SIGKILL)\n{WAIT}")
    assert done.returncode == 137
    assert "rank 1 of 2 was killed by SIGKILL" in done.stderr
    assert here.left_over() == []


@pytest.mark.parametrize(
    "number",
    cases([signal.SIGINT, signal.SIGTERM, signal.SIGHUP], {signal.SIGINT, signal.SIGTERM}),
    ids=lambda s: s.name,
)
def test_a_signal_reaches_all_ranks(here: Project, number: signal.Signals) -> None:
    note = f"""
def noted(number, frame):
    open(f'heard-{{rank}}', 'w').write(str(number))
    os._exit(0)
signal.signal({int(number)}, noted)
"""
    process = started(here, note + WAIT, 3)
    process.send_signal(number)
    _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, errors) == (0, "")
    heard = {path.name: path.read_text() for path in here.folder.glob("heard-*")}
    assert heard == {f"heard-{rank}": str(int(number)) for rank in range(3)}
    assert here.left_over() == []


def test_a_signal_that_ends_rank_0_is_in_the_exit_code(here: Project) -> None:
    process = started(here, WAIT)
    process.terminate()
    process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 128 + signal.SIGTERM


def test_ranks_in_a_sandbox_go_with_rank_0(here: Project) -> None:
    """No signal comes through to them."""
    deaf = "if rank:\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    process = started(here, deaf + WAIT, 2, "sandboxed")
    process.terminate()
    process.communicate(timeout=20)  # sooner than patience would end
    assert process.returncode == 128 + signal.SIGTERM
    assert here.left_over() == []


def test_a_hangup_that_is_ignored_stays_so(here: Project) -> None:
    """As under nohup."""
    inherited = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = started(here, WAIT.replace("time.sleep(600)", "sys.stdin.read()\nprint(input)"))
    finally:
        signal.signal(signal.SIGHUP, inherited)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0


COUNTING = """
def counted(number, frame):
    open(f'count-{rank}', 'a').write('x')
signal.signal(signal.SIGINT, counted)
open(f'up-{rank}', 'w').close()
while not os.path.exists('over'):
    time.sleep(0.01)
"""


def test_ctrl_c_at_the_terminal_comes_once(here: Project) -> None:
    """The terminal sends it to every rank itself."""
    here.write("train.py", START + COUNTING)
    number, terminal = pty.fork()
    if number == 0:
        os.chdir(here.folder)
        os.execve(sys.executable, words(2), here.environment)
    wait_until(lambda: len(list(here.folder.glob("up-*"))) == 2)
    os.write(terminal, b"\x03")
    counts = [here.folder / f"count-{rank}" for rank in range(2)]
    wait_until(lambda: all(count.exists() for count in counts))
    here.write("over", "")
    _, status = os.waitpid(number, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0
    assert [count.read_text() for count in counts] == ["x", "x"]


def test_ranks_die_with_a_launcher_that_is_killed(here: Project) -> None:
    process = started(here, WAIT)
    process.kill()
    process.communicate(timeout=PATIENCE_SECONDS)
    wait_until(lambda: here.processes() == [])


def test_so_do_the_processes_that_they_forked(here: Project) -> None:
    """Workers of loaders, say."""
    process = started(here, "if os.fork() == 0:\n    rank = f'{rank}-child'\n" + WAIT)
    wait_until(lambda: len(list(here.folder.glob("up-*"))) == 4)
    process.kill()
    process.communicate(timeout=PATIENCE_SECONDS)
    wait_until(lambda: here.processes() == [])


def test_output_that_is_not_read_any_more_stops_no_rank(here: Project) -> None:
    here.write("train.py", START + "print('x' * 2**20, file=sys.stderr if rank else sys.stdout)\n")
    with open(os.devnull, "wb") as null:
        done = subprocess.run(
            words(2, "all"),
            cwd=here.folder,
            env=here.environment,
            stdout=null,
            stderr=null,
            timeout=PATIENCE_SECONDS,
        )
    assert done.returncode == 0
