"""A tune that is stopped from outside leaves nothing running and loses no finished trial."""

from __future__ import annotations

import fcntl
import os
import random
import re
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import Mock

import pytest

from hasten.cli import interruption
from hasten.plans.files import read_plan

from ..patience import PATIENCE_SECONDS
from ..quickly import quickly
from ..thorough import cases
from .conftest import Project, wait_until

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found by /proc"),
    pytest.mark.attack("signals"),
]

ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]

TRAINS_FOR_LONG = quickly("""
import torch
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self):
        return 10**7

    def __getitem__(self, index):
        return torch.full((3, 8, 8), index % 7.0), index % 2

torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(144, 2))
optimizer = torch.optim.Adam(model.parameters())
for step, (inputs, labels) in enumerate(DataLoader(Numbers(), batch_size=8, num_workers=1)):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs), labels).backward()
    optimizer.step()
    print(step, flush=True)
""")


class Tune:
    """A tune in the background that has come to a moment worth interrupting."""

    def __init__(
        self, project: Project, script: str = TRAINS_FOR_LONG, before: Callable[[], object] | None = None
    ) -> None:
        """``before``: what is done in its process before it is hasten's."""
        self.project = project
        project.write("train.py", script)
        words = ("tune", "--allow-writes", "--budget", "600", "train.py")
        self.process = project.start(*words, before=before)
        self.said: list[str] = []

    def hear(self, text: str, times: int = 1) -> None:
        """Read standard error until lines with ``text`` have come ``times`` times."""
        assert self.process.stderr is not None
        while sum(text in line for line in self.said) < times:
            line = self.process.stderr.readline()
            assert line, f"it ended too soon: {''.join(self.said)}"
            self.said.append(line)

    def until_it_starts(self) -> None:
        self.hear("observing")

    def until_its_worker_prints(self) -> None:
        printed = self.project.folder / ".hasten/train/trials/000/worker-001.stdout"
        wait_until(lambda: printed.exists() and printed.stat().st_size > 0)

    def until_its_second_trial(self) -> None:
        self.hear("trying ", times=2)

    def end(self, number: signal.Signals) -> int:
        """Send a signal; the exit code."""
        self.process.send_signal(number)
        _, rest = self.process.communicate(timeout=PATIENCE_SECONDS)
        self.said += rest.splitlines(keepends=True)
        return self.process.returncode


MOMENTS: dict[str, Callable[[Tune], None]] = {
    "at the start": Tune.until_it_starts,
    "during observation": Tune.until_its_worker_prints,
    "during a trial": Tune.until_its_second_trial,
}


def journal_rows(project: Project, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(project.folder / ".hasten" / "journal.db")) as database:
        return database.execute(query).fetchall()


@dataclass
class Interrupted:
    tune: Tune
    number: signal.Signals
    exit_code: int
    left_over: list[str]

    @property
    def trials_told(self) -> int:
        """Results that were said before the end: what can be counted on."""
        return sum(re.match(r" +\w+: ", line) is not None for line in self.tune.said)


@pytest.fixture(
    scope="module",
    params=[
        (signal.SIGINT, "at the start"),
        pytest.param((signal.SIGINT, "during observation"), marks=pytest.mark.thorough),
        (signal.SIGHUP, "during observation"),
        pytest.param((signal.SIGQUIT, "during observation"), marks=pytest.mark.thorough),
        pytest.param((signal.SIGINT, "during a trial"), marks=pytest.mark.thorough),
        pytest.param((signal.SIGTERM, "during a trial"), marks=pytest.mark.thorough),
    ],
    ids=lambda param: f"{param[0].name} {param[1]}",
)
def interrupted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Interrupted]:
    number, moment = request.param
    project = Project(tmp_path_factory.mktemp("interrupted"))
    try:
        tune = Tune(project)
        MOMENTS[moment](tune)
        code = tune.end(number)
        yield Interrupted(tune, number, code, project.left_over())
    finally:
        project.end_all()


def test_the_exit_code_names_the_signal(interrupted: Interrupted) -> None:
    assert interrupted.exit_code == 128 + interrupted.number


def test_no_process_and_no_folder_is_left_over(interrupted: Interrupted) -> None:
    assert interrupted.left_over == []


def test_the_journal_has_every_finished_trial(interrupted: Interrupted) -> None:
    (count,) = journal_rows(interrupted.tune.project, "SELECT COUNT(*) FROM trials")[0]
    assert count == interrupted.trials_told


def test_the_journal_says_that_it_was_interrupted(interrupted: Interrupted) -> None:
    assert journal_rows(interrupted.tune.project, "SELECT state FROM tunes") == [("interrupted",)]


def test_no_plan_is_written(interrupted: Interrupted) -> None:
    assert not (interrupted.tune.project.folder / ".hasten/train/plan.toml").exists()


def test_no_traceback_is_shown(interrupted: Interrupted) -> None:
    assert "Traceback" not in "".join(interrupted.tune.said)


def test_nohup_is_heeded(project: Project) -> None:
    """Whoever ignores SIGHUP when hasten starts wants it to go on."""
    tune = Tune(project, PREPARES_FOR_LONG, before=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    tune.until_its_worker_prints()
    tune.process.send_signal(signal.SIGHUP)
    assert tune.end(signal.SIGTERM) == 128 + signal.SIGTERM


def test_before_anything_was_measured(project: Project) -> None:
    tune = Tune(project)
    wait_until((project.folder / ".hasten" / "train").exists)
    assert tune.end(signal.SIGINT) == 130
    assert "".join(tune.said) == "hasten: interrupted; finished trials are in the journal\n"
    assert project.left_over() == []


INTERRUPTED_IN_A_FINALIZER = """
import os, signal, sys, time
from hasten.cli import main, profile

class Finalized:
    def __del__(self):
        os.kill(os.getpid(), signal.{signal})
        time.sleep(0.001)

def execute(arguments):
    Finalized()
    time.sleep(60)
    return 0

profile.execute = execute
sys.exit(main.main(["profile", "train.py"]))
"""


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_inside_a_finalizer_is_not_lost(project: Project, number: signal.Signals) -> None:
    done = project.python("-c", INTERRUPTED_IN_A_FINALIZER.format(signal=number.name))
    assert done.returncode == 128 + number
    assert "Exception ignored" not in done.stderr


def test_it_comes_again_when_python_is_done_with_it_however_busy_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = threading.Thread.start

    def slowly(thread: threading.Thread) -> None:
        start(thread)
        time.sleep(10 * interruption._AGAIN_SECONDS)

    monkeypatch.setattr(threading.Thread, "start", slowly)
    interruption._unraisable(Mock(exc_type=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        time.sleep(PATIENCE_SECONDS)


STARTS_ALL_SORTS = """
import signal, subprocess
from multiprocessing.shared_memory import SharedMemory
shared = SharedMemory(create=True, size=10_000)
subprocess.Popen(["sleep", "600"])
subprocess.Popen(["sleep", "600"], start_new_session=True)
subprocess.Popen(["sleep", "600"]).send_signal(signal.SIGSTOP)
"""
AT_ONCE, LONGEST_SECONDS = 5, 1.0  # at most so long from one's end to the next's


def everywhere() -> set[str]:
    """What a killed tune might leave behind besides processes: shared memory and mounts."""
    return {*os.listdir("/dev/shm"), *Path("/proc/self/mountinfo").read_text().splitlines()}


@pytest.mark.parametrize("rounds", [1, pytest.param(10, marks=pytest.mark.thorough)])
def test_killed_at_any_moment_it_leaves_nothing(
    rounds: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Programs that the script started, stopped ones and loaders' workers included."""
    moments, before = random.Random(0), everywhere()
    folder = tmp_path_factory.mktemp("killed")
    for number in range(rounds):
        projects = [Project(folder / f"{number}-{one}") for one in range(AT_ONCE)]
        tunes = [Tune(project, STARTS_ALL_SORTS + TRAINS_FOR_LONG) for project in projects]
        early, late = tunes[:2], tunes[2:]
        for tune in early:
            time.sleep(moments.uniform(0, LONGEST_SECONDS))
            assert tune.end(signal.SIGKILL) == -signal.SIGKILL
        for tune in late:  # they train when their end comes
            tune.until_its_worker_prints()
        for tune in late:
            time.sleep(moments.uniform(0, LONGEST_SECONDS))
            assert tune.end(signal.SIGKILL) == -signal.SIGKILL
        for project in projects:
            wait_until(lambda project=project: project.left_over() == [])  # type: ignore[misc]
    wait_until(lambda: everywhere() <= before)  # what other programs put there goes away again


def test_the_next_tune_removes_what_is_left_where_everything_was_killed(project: Project) -> None:
    tune = Tune(project, PREPARES_FOR_LONG)
    tune.until_its_worker_prints()
    for number in sorted(project.processes(), key=lambda number: not is_clearing(number)):
        with suppress(ProcessLookupError):  # it ended with the one it belongs to
            os.kill(number, signal.SIGKILL)
    tune.process.communicate(timeout=PATIENCE_SECONDS)
    wait_until(lambda: project.processes() == [])
    (left,) = project.left_over()
    wait_until(lambda: not is_locked(project.temporary / left / ".in-use"))  # by a process that is ending
    next_tune = Tune(project)
    next_tune.until_it_starts()
    wait_until(lambda: left not in project.layers())
    assert next_tune.end(signal.SIGINT) == 130, "".join(next_tune.said)
    assert project.left_over() == []


def is_clearing(number: int) -> bool:
    with suppress(OSError):  # it has ended
        return b"clearing.py" in Path(f"/proc/{number}/cmdline").read_bytes()
    return False


def is_locked(path: Path) -> bool:
    with path.open("r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


PREPARES_FOR_LONG = """
import os, time
if os.fork() == 0:
    time.sleep(600)
print("preparing", flush=True)
time.sleep(600)
"""


def test_a_killed_tune_takes_everything_with_it(project: Project) -> None:
    """Nothing of ours can run any more, and the worker cannot ask anyone: the kernel must end it."""
    tune = Tune(project, PREPARES_FOR_LONG)
    tune.until_its_worker_prints()
    assert len(project.processes()) == 6  # the tune, its clearing, its worker in three, the worker's child
    assert tune.end(signal.SIGKILL) == -signal.SIGKILL
    wait_until(lambda: project.processes() == [])
    assert journal_rows(project, "SELECT state FROM tunes") == [("open",)]


@pytest.mark.parametrize("name", cases([number.name for number in ENDING], {"SIGINT", "SIGTERM"}))
def test_an_interruption_does_not_wait_for_the_script(project: Project, name: str) -> None:
    number = signal.Signals[name]
    tune = Tune(project, PREPARES_FOR_LONG)
    tune.until_its_worker_prints()
    assert tune.end(number) == 128 + number
    assert project.left_over() == []


@pytest.mark.parametrize("calls", [8, pytest.param(300, marks=pytest.mark.thorough)])
def test_at_any_moment_of_its_start_it_is_an_interruption(project: Project, calls: int) -> None:
    """Not an error of whatever it came in the midst of."""
    project.write("train.py", "import time\ntime.sleep(600)\n")
    done = project.python(str(Path(__file__).with_name("interrupted_starts.py")), str(calls))
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
    assert project.left_over() == []


NOT_CONFIRMED = """
format = 1
[measured]
outcome = "not-confirmed"
accuracy = "not checked"
[techniques.bf16]
"""
LEFT = (
    "finished trials are in the journal. The best plan so far (bf16) is in "
    ".hasten/train/plan.unconfirmed.toml, not confirmed: the tune that found it ended before that. Its gain "
    "is a guess, and its accuracy was not checked. Train under it: hasten run --plan "
    ".hasten/train/plan.unconfirmed.toml train.py. To resume and confirm it, repeat the "
    "same command\n"
)


@pytest.mark.parametrize(
    ("number", "said"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "ended by SIGTERM")]
)
def test_the_best_plan_so_far_is_named_with_what_to_do(
    project: Project, number: signal.Signals, said: str
) -> None:
    project.write(".hasten/train/plan.unconfirmed.toml", NOT_CONFIRMED)
    tune = Tune(project)
    wait_until((project.folder / ".hasten" / "journal.db").exists)
    assert tune.end(number) == 128 + number
    assert tune.said[-1] == f"hasten: {said}; {LEFT}"


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
def test_killed_while_it_measures_it_loses_no_finished_trial(project: Project, seed: int) -> None:
    """On a real training: the journal opens, with all that was told, and the next tune takes it up."""
    moments = random.Random(seed)
    told = 0
    for killed in range(1, 3):
        tune = Tune(project)
        tune.hear("trying ", times=moments.randint(2, 4))
        time.sleep(moments.uniform(0, LONGEST_SECONDS))
        assert tune.end(signal.SIGKILL) == -signal.SIGKILL
        told += Interrupted(tune, signal.SIGKILL, 0, []).trials_told
        assert journal_rows(project, "PRAGMA integrity_check") == [("ok",)]
        ((found,),) = journal_rows(project, "SELECT COUNT(*) FROM trials")
        assert isinstance(found, int)
        assert found >= told
        told = found
        wait_until(lambda: project.left_over() == [])
        states = journal_rows(project, "SELECT state FROM tunes ORDER BY id")
        assert states == [("killed",)] * (killed - 1) + [("open",)]
        for path in (project.folder / ".hasten/train").glob("plan*.toml"):
            assert read_plan(path).measured["outcome"] == "not-confirmed"
