"""A signal at any moment, to any of the processes of a command: afterwards nothing is left of it.

Each case is drawn from its number, so that it comes again. A random delay follows on what the training has
reached, which on a busy machine lies elsewhere in time.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ..cli.conftest import Project, wait_until
from ..quickly import quickly
from .terminal import AtTerminal, at_terminal

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="processes are found by /proc"),
    pytest.mark.attack("signals"),
]

CASES = 200
ORDINARY = (0, 6, 8, 44, 61)  # run every time
LONGEST_DELAY_SECONDS = 0.4

ALONE = quickly("""
import sys
print("begins", flush=True)
import torch
from torch.utils.data import DataLoader, TensorDataset
print("has torch", flush=True)
torch.set_num_threads(1)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
data = TensorDataset(torch.randn(4096, 4))
for epoch in range(10**6):
    for inputs, in DataLoader(data, batch_size=8, num_workers=int(sys.argv[1])):
        optimizer.zero_grad()
        model(inputs).mean().backward()
        optimizer.step()
        print("trains", flush=True)
""")
RANKS = quickly("""
import os
print("begins", flush=True)
import torch
import torch.distributed as dist
print("has torch", flush=True)
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
while True:
    optimizer.zero_grad()
    model(torch.randn(8, 4)).mean().backward()
    optimizer.step()
    print("trains", flush=True)
""")
COMMANDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "profile": (ALONE, ("profile", "--steps", "1000000")),
    "tune": (ALONE, ("tune", "--budget", "600")),
    "verify": (ALONE, ("verify", "--use", "zero_grad_to_none")),
    "run": (ALONE, ("run", "--use", "zero_grad_to_none")),
    "run of 2 processes": (ALONE, ("run", "--nproc-per-node", "2")),
    "run of 2 ranks": (RANKS, ("run", "--nproc-per-node", "2", "--no-plan")),
    "tune of 2 ranks": (RANKS, ("tune", "--nproc-per-node", "2", "--budget", "600")),
}
SIGNALS = ("KILL", "TERM", "INT", "HUP", "QUIT", "STOP")
KEYS = {"Ctrl-C": b"\x03", "Ctrl-\\": b"\x1c"}
MOMENTS = ("it starts", "it has started others", "begins", "has torch", "trains")


@dataclass(frozen=True)
class Case:
    command: str
    event: str  # one of SIGNALS or KEYS, or that the terminal is closed
    target: str  # "the command" or "another": one of those that it has started
    moment: str
    delay_seconds: float
    draw: float  # which of the others: from 0 to 1
    loaders: int  # worker processes of the script's own loader

    def __str__(self) -> str:
        to = self.target if self.event in SIGNALS else "the terminal"
        return f"{self.command}: {self.event} to {to} when {self.moment}"


def drawn(number: int) -> Case:
    """In turn what matters most, and the rest by chance."""
    chance = random.Random(number)
    events = [*SIGNALS, *SIGNALS, *KEYS, "hang-up"]
    return Case(
        command=list(COMMANDS)[number % len(COMMANDS)],
        event=events[number % len(events)],
        target=chance.choice(("the command", "another")),
        moment=chance.choice(MOMENTS),
        delay_seconds=chance.uniform(0, LONGEST_DELAY_SECONDS),
        draw=chance.random(),
        loaders=chance.choice((0, 1)),
    )


def cases() -> list[Any]:
    return [
        pytest.param(
            drawn(number),
            id=f"{number:03} {drawn(number)}",
            marks=() if number in ORDINARY else pytest.mark.thorough,
        )
        for number in range(CASES)
    ]


class Attacked:
    """A command at a terminal, and what is there before it."""

    def __init__(self, project: Project, case: Case) -> None:
        self.project, self.case = project, case
        self.before = elsewhere()
        source, words = COMMANDS[case.command]
        project.write("train.py", source)
        self.hasten: AtTerminal = at_terminal(project, *words, "train.py", str(case.loaders))

    def wait_for_its_moment(self) -> None:
        reached = {
            "it starts": lambda: True,
            "it has started others": lambda: bool(self.others()) or self.has_said("trains"),  # missed
        }
        self.hasten.until(reached.get(self.case.moment, lambda: self.has_said(self.case.moment)))
        time.sleep(self.case.delay_seconds)  # the moment itself is what is random

    def has_said(self, text: str) -> bool:
        """Whether the script has printed that, at the terminal or into a trial's file."""
        printed = (self.project.folder / ".hasten").rglob("worker-*.stdout")
        return text in self.hasten.said or any(text in path.read_text() for path in printed)

    def temporary_files(self) -> list[str]:
        """Those that are left of hasten; in a trial the script's are hasten's to remove, too."""
        in_trials = not self.case.command.startswith("run")
        return os.listdir(self.project.temporary) if in_trials else self.project.layers()

    def others(self) -> list[int]:
        return sorted(set(self.project.processes()) - {self.hasten.process.pid})

    def strike(self) -> None:
        if self.case.event == "hang-up":
            self.hasten.hang_up()
        elif self.case.event in KEYS:
            self.hasten.type(KEYS[self.case.event])
        else:
            self._send(signal.Signals[f"SIG{self.case.event}"])

    def _send(self, number: signal.Signals) -> None:
        others = self.others() if self.case.target == "another" else []
        target = others[int(self.case.draw * len(others))] if others else self.hasten.process.pid
        with suppress(ProcessLookupError):  # it ended meanwhile
            os.kill(target, number)
            if number == signal.SIGSTOP:
                time.sleep(self.case.delay_seconds)
                os.kill(target, signal.SIGCONT)

    def end(self) -> None:
        """What has no reason to end by itself is asked to."""
        if self.case.target == "another" or self.case.event == "STOP":
            time.sleep(self.case.delay_seconds)
            self.hasten.process.terminate()
        self.hasten.end()


def elsewhere() -> set[str]:
    """What might be left behind besides processes and files: shared memory and mounts."""
    return {
        *(f"/dev/shm/{name}" for name in os.listdir("/dev/shm")),
        *Path("/proc/self/mountinfo").read_text().splitlines(),
    }


def of_nobody(found: set[str]) -> set[str]:
    """Without the shared memory that other programs of this machine use now."""
    used = ""
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):
            used += maps.read_text()
    return {name for name in found if name not in used}


@pytest.fixture
def attacked(project: Project, request: pytest.FixtureRequest) -> Iterator[Attacked]:
    made = Attacked(project, request.param)
    with made.hasten:
        yield made


@pytest.mark.parametrize("attacked", cases(), indirect=True)
def test_nothing_is_left(attacked: Attacked) -> None:
    project, hasten = attacked.project, attacked.hasten
    attacked.wait_for_its_moment()
    attacked.strike()
    attacked.end()
    wait_until(lambda: project.processes() == [])
    wait_until(lambda: attacked.temporary_files() == [])
    new = elsewhere() - attacked.before
    wait_until(lambda: not of_nobody(new & elsewhere()))
    if hasten.ours >= 0:
        assert hasten.settings_now() == hasten.settings
    assert {path.name for path in project.folder.iterdir()} <= {"train.py", ".hasten"}
    assert damage_of(project.folder / ".hasten" / "journal.db") == []


def damage_of(journal: Path) -> list[str]:
    if not journal.exists():
        return []
    with closing(sqlite3.connect(journal)) as database:
        found = [row[0] for row in database.execute("PRAGMA integrity_check")]
    return [] if found == ["ok"] else found


def test_the_cases_that_are_drawn_cover_what_there_is() -> None:
    drawn_ones = [drawn(number) for number in range(CASES)]
    seen = {(case.command, case.event) for case in drawn_ones}
    assert seen == {(command, event) for command in COMMANDS for event in (*SIGNALS, *KEYS, "hang-up")}
    assert {case.moment for case in drawn_ones} == set(MOMENTS)
    ordinary = [drawn(number) for number in ORDINARY]
    assert len({case.command for case in ordinary}) == len(ORDINARY)
    assert {"the command", "another"} == {case.target for case in ordinary}
