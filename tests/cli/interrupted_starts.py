"""Starts ``hasten tune train.py`` again and again in copies of itself, each interrupted after another call.

    python interrupted_starts.py COUNT      prints a line for each that did not end with 130

The calls are those from the beginning of the tune until it waits for its first worker, ``COUNT`` of them by
chance; 0 takes all.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from interrupting import Interrupter  # type: ignore[import-not-found]

from hasten.bench.workers.process import WorkerProcess
from hasten.cli import main, tune
from hasten.report import machine_readable, terminal
from hasten.tuning import pipeline
from hasten.tuning.budget import Budget

IMPORTED = (tune, machine_readable, terminal)  # by the first tune otherwise, which is no call of hasten's
SAID = "said.txt"


def started(number: int) -> tuple[int, Any]:
    """The exit code, and the interrupter, of a tune that is interrupted at ``number``."""
    interrupter = Interrupter(number)

    def begun(*arguments: Any) -> Any:  # as soon as the tune has its folder to itself
        interrupter.begin()
        return Budget(*arguments)

    def waits(*arguments: Any) -> NoReturn:
        interrupter.end()
        raise KeyboardInterrupt

    with patch.object(pipeline, "Budget", begun), patch.object(WorkerProcess, "wait_started", waits):
        code = main.main(["tune", "--allow-writes", "--budget", "600", "train.py"])
    return code, interrupter


def in_a_copy(number: int) -> tuple[int, int]:
    """The exit code, and how many calls there were."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = os.open(SAID, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(said, stream)
        try:
            code, interrupter = started(number)
            os.write(writing, b"%d" % interrupter.seen)
        except BaseException as error:
            sys.__excepthook__(type(error), error, error.__traceback__)
            code = 1
        sys.stderr.flush()
        os._exit(code)
    os.close(writing)
    with open(reading, "rb") as told:
        seen = told.read()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), int(seen or 0)


def chosen(count: int) -> list[int]:
    _, calls = in_a_copy(0)
    assert calls > 1000, f"there were {calls} calls only"
    every = range(1, calls + 1)
    return random.Random(0).sample(every, count) if count else list(every)


for number in chosen(int(sys.argv[1])):
    code, _ = in_a_copy(number)
    if code != 130:
        print(f"after call {number} it ended with {code}: {Path(SAID).read_text()}")
