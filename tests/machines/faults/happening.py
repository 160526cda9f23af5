"""What happens to a training: a function for each fault, which starts it, lets that happen in its middle and
returns what was seen.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ..cluster import until
from .bed import OWN, Bed, Seen, Training

PATIENCE_SECONDS = 10  # of ranks for each other
DEADLINE = ("--group-timeout", str(PATIENCE_SECONDS))
_BEGINS_ANEW = ("--max-restarts", "1")
_CUT_SECONDS = 3.0
_SLOW_MBIT = 1.0
_BEATS_SECONDS = 12.0  # in which torchruns on two hosts tell each other twice that they are alive
_LOST = 0.05  # of all packets
_ROOM_BYTES = 2**26  # that a rank may allocate besides


def by_a_word(bed: Bed, word: str, *asked: str) -> Seen:
    """The script does it itself."""
    training = bed.start(word, asked=(*DEADLINE, *asked))
    bed.to_the_middle(training)
    return training.ended(bed.go_on())


def raises(bed: Bed) -> Seen:
    return by_a_word(bed, "raises")


def raises_and_begins_anew(bed: Bed) -> Seen:
    return by_a_word(bed, "raises", *_BEGINS_ANEW)


def hangs(bed: Bed) -> Seen:
    return by_a_word(bed, "hangs")


def dawdles(bed: Bed) -> Seen:
    return by_a_word(bed, "dawdles")


def nan(bed: Bed) -> Seen:
    return by_a_word(bed, "nan")


def _signalled(bed: Bed, what: signal.Signals, *asked: str) -> Seen:
    training = bed.start(asked=(*DEADLINE, *asked))
    bed.to_the_middle(training)
    bed.signal(1, 2, what)
    return training.ended(bed.go_on())


def killed(bed: Bed) -> Seen:
    return _signalled(bed, signal.SIGKILL)


def killed_and_begins_anew(bed: Bed) -> Seen:
    return _signalled(bed, signal.SIGKILL, *_BEGINS_ANEW)


def stopped(bed: Bed) -> Seen:
    return _signalled(bed, signal.SIGSTOP)


def stopped_and_begins_anew(bed: Bed) -> Seen:
    return _signalled(bed, signal.SIGSTOP, *_BEGINS_ANEW)


def out_of_memory(bed: Bed) -> Seen:
    """In a control group of its own; the kernel kills it."""
    training = bed.start("allocates", asked=DEADLINE)
    bed.to_the_middle(training)
    with _little_memory(bed.rank(1, 2)):
        return training.ended(bed.go_on())


def launcher_killed(bed: Bed) -> Seen:
    """It has ended where nothing of it is left on any host."""
    training = bed.start(asked=DEADLINE)
    bed.to_the_middle(training)
    training.process.kill()
    happened = bed.go_on()
    until(lambda: not bed.ranks())
    return training.ended(happened)


def _host_lost(bed: Bed, lost: int, typed: str, *asked: str) -> Seen:
    """Without a word: nothing of it reaches the others any more, then all that ran there is gone."""
    training = bed.start(asked=asked, host=typed)
    bed.to_the_middle(training)
    with _cut(bed, lost):
        for word in ("remote_entry.py", "torchrun_entry.py"):
            bed.network.end_all(lost, word)
        return training.ended(bed.go_on())


def host_lost(bed: Bed) -> Seen:
    return _host_lost(bed, 2, "h1", *DEADLINE)


def host_lost_and_goes_on(bed: Bed) -> Seen:
    return _host_lost(bed, 2, "h1", *DEADLINE, "--nnodes", "1:2", "--max-restarts", "2")


def meeting_host_lost(bed: Bed) -> Seen:
    """That with rank 0 and where ranks meet. The command is typed at the other."""
    return _host_lost(bed, 1, "h2", *DEADLINE)


def link_cut(bed: Bed) -> Seen:
    """For good."""
    training = bed.start(asked=DEADLINE)
    bed.to_the_middle(training)
    with _cut(bed, 2):
        return training.ended(bed.go_on())


def link_cut_and_restored(bed: Bed) -> Seen:
    training = bed.start(asked=DEADLINE)
    bed.to_the_middle(training)
    with _cut(bed, 2):
        happened = bed.go_on()
        bed.stand(_CUT_SECONDS)
    return training.ended(happened)


def slow_link(bed: Bed) -> Seen:
    training = bed.start(asked=DEADLINE)
    bed.to_the_middle(training)
    bed.network.limit(_SLOW_MBIT, 2, burst="8kb")
    try:
        return training.ended(bed.go_on())
    finally:
        bed.network.unlimited()


def packet_loss(bed: Bed) -> Seen:
    training = bed.start(asked=DEADLINE)
    bed.to_the_middle(training)
    with bed.network.losing(_LOST):
        return training.ended(bed.go_on())


def disk_full(bed: Bed) -> Seen:
    """On the second host, where its rank keeps its part of a checkpoint."""
    with bed.small_folder("parts", 2, kilobytes=256):
        training = bed.start("parts", asked=DEADLINE)
        bed.to_the_middle(training)
        bed.fill("parts", 2)
        return training.ended(bed.go_on())


def data_missing(bed: Bed) -> Seen:
    """On the second host."""
    bed.cluster.write("data/labels", "cat dog")
    with bed.small_folder("data", 2, kilobytes=16):
        training = bed.start("reads", asked=DEADLINE)
        if bed.script == OWN:
            bed.to_the_middle(training)
        return training.ended(bed.go_on())


def clock_step(bed: Bed) -> Seen:
    """An hour ahead on the second host."""
    library, file = bed.folder / "clock_step.so", bed.folder / "stepped"
    if shutil.which("gcc") is None:
        pytest.skip("a clock is stepped by a library, and there is no gcc here: apt install gcc")
    source = Path(__file__).with_name("clock_step.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    bed.cluster.environment |= {"LD_PRELOAD": str(library)}
    told = ("--env", f"CLOCK_STEP_FILE={file}", "--env", "CLOCK_STEP_HOST=h2")
    training = bed.start(asked=("--group-timeout", "60", *told))
    bed.to_the_middle(training)
    file.touch()
    bed.stand(_BEATS_SECONDS)
    return training.ended(bed.go_on())


def two_jobs_on_one_port(bed: Bed) -> Seen:
    """Both are to meet at the same place, at the same time. The second is seen; the first must not notice."""
    other = bed.beside("other")
    place = ("--rdzv-endpoint", "h1:29555")
    first = other.start(asked=("--group-timeout", "60", *place))  # its ranks stand while the second ends
    other.to_the_middle(first)
    happened = bed.go_on()
    second = bed.start(asked=(*DEADLINE, *place)).ended(happened)
    ended = first.ended(other.go_on())
    assert not ended.code, ended.text
    return second


# ---- checkpoints
def _interrupted(bed: Bed, *words: str, hosts: str = "h1,h2") -> None:
    """A training that was killed in its middle, and left its checkpoints."""
    ranks = len(hosts.split(","))
    training = bed.start(*words, asked=DEADLINE, hosts=hosts)
    bed.to_the_middle(training, ranks)
    training.process.kill()
    until(lambda: not bed.ranks())
    training.ended(bed.now())
    bed.forget_the_middle()


def _resumed(bed: Bed, *words: str) -> Seen:
    happened = bed.go_on()
    return bed.start(*words, asked=DEADLINE).ended(happened)


def other_number_of_ranks(bed: Bed) -> Seen:
    """The checkpoint is one rank's, and two go on from it."""
    _interrupted(bed, hosts="h1")
    return _resumed(bed)


def half_written(bed: Bed) -> Seen:
    _interrupted(bed)
    path = bed.folder / "checkpoint.pt"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return _resumed(bed)


def stale(bed: Bed) -> Seen:
    """The second host has an older one than the first."""
    return _stale(bed, "parts")


def stale_and_not_named(bed: Bed) -> Seen:
    """The command line, whose files are compared before anything starts, does not name it."""
    return _stale(bed, "unnamed")


def _stale(bed: Bed, word: str) -> Seen:
    with bed.small_folder("parts", 2, kilobytes=4096):
        _interrupted(bed, word, "older")
        return _resumed(bed, word)


# ---- asked to end
def ctrl_c(bed: Bed) -> Seen:
    return _asked_to_end(bed, signal.SIGINT)[0]


def _asked_to_end(bed: Bed, what: signal.Signals, *words: str) -> tuple[Seen, Training]:
    training = bed.start(*words, asked=DEADLINE)
    bed.to_the_middle(training)
    happened = bed.now()
    training.process.send_signal(what)
    seen = training.ended(happened)
    until(lambda: not bed.ranks())
    return seen, training


def preempted(bed: Bed) -> Seen:
    """The script saves when it is asked to end. What is seen is the training that goes on from there."""
    words = ("saves",) if bed.script == OWN else ()
    first, _ = _asked_to_end(bed, signal.SIGTERM, *words)
    assert first.code == 128 + signal.SIGTERM, first.text
    bed.forget_the_middle()
    seen = _resumed(bed, *words)
    seen.lines = [*first.lines, *seen.lines]
    seen.end_seconds = first.end_seconds
    return seen


# ---- means
@contextmanager
def _cut(bed: Bed, host: int) -> Iterator[None]:
    bed.network.cut(host)
    try:
        yield
    finally:
        bed.network.join(host)


@contextmanager
def _little_memory(process: int) -> Iterator[None]:
    """A control group (version 1 or 2) that holds little more than the process has by now."""
    group = _new_group()
    try:
        (group / "cgroup.procs").write_text(str(process))
        resident = int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        name = "memory.limit_in_bytes" if (group / "memory.limit_in_bytes").exists() else "memory.max"
        (group / name).write_text(str(max(_ROOM_BYTES, resident // 4)))  # what it had is charged elsewhere
        yield
    finally:
        until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


def _new_group() -> Path:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        above = Path("/sys/fs/cgroup", controllers and "memory", path.lstrip("/"))
        if controllers in ("memory", "") and (above / "cgroup.procs").exists():
            made = above / f"faults-{os.getpid()}"
            try:
                made.mkdir()
                if list(made.glob("memory.*")):
                    return made
                made.rmdir()
            except OSError:
                continue
    pytest.skip("no control group for memory can be made here")
