"""Ranks of a launcher that does not tell what becomes of them: here, of a process that starts some."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import hasten

from ..patience import PATIENCE_SECONDS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="by proc(5)")
LAUNCHER = """
import os, signal, subprocess, sys, time
from hasten.launch.host_watch import HostWatch
HostWatch(0.4).begin()
ranks = [
    subprocess.Popen([sys.executable, "-c", text], env={**os.environ, "RANK": number}, stdout=subprocess.PIPE)
    for number, text in zip("0123", sys.argv[1:])
]
for rank in ranks:
    rank.stdout.readline()
time.sleep(1.5)  # in which they are found
for rank in ranks:
    os.kill(rank.pid, signal.SIGUSR1)
while not all(os.waitid(os.P_PID, rank.pid, os.WEXITED | os.WNOWAIT) for rank in ranks):
    pass
time.sleep(1.5)  # torchrun looks now and then
print([rank.wait() for rank in ranks])
"""
RANK = """
import os, signal, time
from hasten.inside.process.stacks import answer
answer()
def fails(*_): {}
signal.signal(signal.SIGUSR1, fails)
print("ready", flush=True)
def stands():
    while True:
        time.sleep(0.05)
stands()
"""


def launched(*failing: str) -> subprocess.CompletedProcess[str]:
    """What comes of ranks that do so in the middle."""
    return subprocess.run(
        [sys.executable, "-c", LAUNCHER, *(RANK.format(one) for one in failing)],
        env={"PYTHONPATH": str(Path(hasten.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )


def test_how_each_has_failed_is_told_though_another_waits_for_it() -> None:
    done = launched("os._exit(7)", "os.kill(os.getpid(), 9)", "os._exit(0)", "os.kill(os.getpid(), 15)")
    assert done.stdout == "[7, -9, 0, -15]\n"
    first, second = sorted(done.stderr.splitlines())
    assert first.startswith("hasten: rank 0 on host ")
    assert first.endswith(" ended with exit code 7")
    assert second.startswith("hasten: rank 1 on host ")
    assert " was killed by SIGKILL" in second


def test_one_that_stands_stopped_tells_where_and_is_killed() -> None:
    done = launched("os.kill(os.getpid(), 19)", "os._exit(0)")
    assert done.stdout == "[-9, 0]\n"
    first, second, *stack = done.stderr.splitlines()
    assert "rank 0 on host" in first
    assert "was stopped, and after 0.4 s nobody had continued it; it is killed" in first
    assert second.startswith("hasten: where rank 0 on host ")
    assert any("in stands" in line for line in stack)
    assert not any("was killed by" in line for line in stack)
