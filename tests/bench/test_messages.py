"""What is said of a script, or of a rank, that ended before its time: what happened, to whom, when."""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hasten.bench.workers.ending import (
    Killed,
    ScriptEnded,
    in_one_line,
    script_error,
)
from hasten.bench.workers.process import WorkerProcess
from hasten.bench.workers.worker_output import Output
from hasten.errors import WorkerError
from hasten.inside.job import Job
from hasten.records.messages import TellShapes
from hasten.records.plan import BASELINE, Plan

from ..techniques.made_up import machine

BF16 = Plan({"bf16": {}})
TRACEBACK = (
    'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\nValueError: no data\n'
)
QUOTING = (
    'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    step()\n    ~~~~^^\n'
    '  File "torch/eval_frame.py", line 4, in f\n    raise error\n'
    "torch.Unsupported: no meta kernel for aten.op\n\nfrom user code:\n"
    '   File "train.py", line 9, in forward\n    return op(x)\n\nSee https://example.org/opcheck\n'
)
PAIR = (
    'Traceback (most recent call last):\n  File "a.py", line 1, in f\nKeyError: 0\n\n'
    "During handling of the above exception, another exception occurred:\n\n"
    'Traceback (most recent call last):\n  File "a.py", line 3, in g\nValueError:\n  two sizes\n'
)
OWN = "train.py raised an error of its own (hasten changed nothing in this run):"
SOON = "before it had trained long enough to be measured"
TRIALS = Path(".hasten/train/trials/000")


@pytest.mark.attack("messages")
@pytest.mark.parametrize(
    ("how", "detail", "seen", "kept"),
    [
        ("said", "need a dataset", "train.py stopped by itself: need a dataset", None),
        ("exit", "7", f"train.py stopped by itself with exit code 7, {SOON}",
         f"train.py stopped by itself with exit code 7, {SOON} (what it printed is in {TRIALS})"),
        ("raised", TRACEBACK, f"{OWN} ValueError: no data", f"{OWN}\n{TRACEBACK.rstrip()}"),
        ("raised", "", f"{OWN} nothing that tells what it is", None),
    ],
)  # fmt: skip
def test_a_script_that_failed(how: str, detail: str, seen: str, kept: str | None) -> None:
    """Its traceback is told once: by itself where the user saw that, else by us."""
    ended = ScriptEnded(how, detail, (), ())
    assert str(script_error(ended, "train.py")) == seen
    if kept is not None:
        assert str(script_error(ended, "train.py", TRIALS)) == kept


ALONE = "train.py is distributed itself: it reads its rank"
FRAME = 'Traceback (most recent call last):\n  File "train.py", line 3, in main\n    {line}\n{error}\n'
OF_NONE = "TypeError: int() argument must be a string, a bytes-like object or a real number, not 'NoneType'"
RENDEZVOUS = (
    "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable RANK "
    "expected, but not set"
)


@pytest.mark.attack("messages")
@pytest.mark.parametrize(
    ("line", "error", "alone"),
    [
        ('rank = int(os.environ["RANK"])', "KeyError: 'RANK'", True),
        ('device = int(os.environ["LOCAL_RANK"])', "KeyError: 'LOCAL_RANK'", True),
        ('world = int(os.environ["WORLD_SIZE"])', "KeyError: 'WORLD_SIZE'", True),
        ('dist.init_process_group("gloo")', RENDEZVOUS, True),
        ('rank = int(os.environ.get("RANK"))', OF_NONE, True),
        ("rank = int(os.getenv('LOCAL_RANK'))\n           ^^^^^^^^^^^", OF_NONE, True),
        ('row = table["RANKING"]', "KeyError: 'RANKING'", False),
        ('name = names["rank"]', "KeyError: 'rank'", False),
        ('port = int(options.get("port"))', OF_NONE, False),
        ('print(os.environ["RANK"]); 1 / 0', "ZeroDivisionError: division by zero", False),
    ],
)
def test_a_script_that_wants_to_be_a_rank_is_told_how_to_be_started(
    line: str, error: str, alone: bool
) -> None:
    detail = FRAME.format(line=line, error=error)
    ended = ScriptEnded("raised", detail, (), ())
    said, kept = (str(script_error(ended, "train.py", folder)) for folder in (None, TRIALS))
    assert said.startswith(ALONE) == kept.startswith(ALONE) == alone
    assert ("by --nproc-per-node N" in said) == alone
    assert error in said
    assert detail.rstrip() in kept


@pytest.mark.attack("messages")
@pytest.mark.parametrize(
    ("how", "detail", "said"),
    [
        ("completed", "", "the script reached its end"),
        ("exit", "3", "the script ended with exit code 3"),
        ("said", "need a dataset", "the script stopped by itself: need a dataset"),
        ("said", "need a dataset\nsee README", "the script stopped by itself: need a dataset ..."),
        ("raised", TRACEBACK, "the script raised ValueError: no data"),
        ("raised", "\n", "the script raised nothing that tells what it is"),
        ("raised", QUOTING, "the script raised torch.Unsupported: no meta kernel for aten.op"),
        ("raised", PAIR, "the script raised ValueError: two sizes"),
    ],
)
def test_in_one_line(how: str, detail: str, said: str) -> None:
    assert in_one_line(ScriptEnded(how, detail, (), ())) == said


@contextmanager
def gone(plan: Plan, code: int) -> Iterator[WorkerProcess]:
    """A worker whose process has ended with ``code`` unnoticed."""
    ours, theirs = socket.socketpair()
    theirs.close()
    process = SimpleNamespace(pid=0, stdout=None, wait=lambda timeout=None: code, poll=lambda: code)
    worker = object.__new__(WorkerProcess)
    job = Job(argv=("train.py",), machine=machine(), plan=plan)
    worker.begin(job, ours, cast("subprocess.Popen[bytes]", process), Output(), print)
    with ours:
        yield worker


ASKED: dict[str, tuple[Callable[[WorkerProcess], Any], Plan, str]] = {
    "to train": (lambda worker: worker.steps(5), BASELINE, "while training 5 steps"),
    "to train under a plan": (lambda worker: worker.steps(5), BF16, "while training 5 steps under bf16"),
    "to switch it on": (lambda worker: worker.switch(BF16), BASELINE, "while bf16 was switched on"),
    "to switch it off": (lambda worker: worker.switch(BASELINE), BF16, "while bf16 was switched off"),
    "for proofs": (lambda worker: worker.proofs(), BF16, "while bf16 was tried"),
    "for proofs of nothing": (lambda worker: worker.proofs(), BASELINE, "while it was watched"),
    "what was seen": (lambda worker: worker.observation(), BASELINE, "while it was watched"),
    "what was recorded": (lambda worker: worker.trace(), BASELINE, "while its training was compared"),
    "for numbers": (lambda worker: worker.numerics(TellShapes()), BF16, "while single steps were compared"),
    "to start": (lambda worker: worker.wait_started(), BASELINE, "while reaching its first training step"),
}
ENDS = {
    -signal.SIGKILL: "was killed by SIGKILL (out of memory?)",
    -signal.SIGSEGV: "was killed by SIGSEGV",
    -(signal.SIGRTMIN + 3): f"was killed by signal {signal.SIGRTMIN + 3}",
    7: "ended with exit code 7",
}


@pytest.mark.attack("messages")
@pytest.mark.parametrize("asked", ASKED)
def test_what_was_going_on_is_named(asked: str) -> None:
    ask, plan, said = ASKED[asked]
    with gone(plan, -signal.SIGKILL) as worker, pytest.raises(Killed) as told:
        ask(worker)
    assert str(told.value) == f"the script was killed by SIGKILL (out of memory?) {said}"


@pytest.mark.attack("messages")
@pytest.mark.parametrize("code", ENDS)
def test_how_it_ended_is_named(code: int) -> None:
    with gone(BASELINE, code) as worker:
        worker.who, worker.occasion = "rank 1", "the rehearsal"
        with pytest.raises(WorkerError) as told:
            worker.steps(5)
    assert str(told.value) == f"rank 1 {ENDS[code]} during the rehearsal"


@contextmanager
def saying(body: bytes) -> Iterator[WorkerProcess]:
    """A worker from which ``body`` comes."""
    ours, theirs = socket.socketpair()
    process = SimpleNamespace(pid=0, stdout=None, wait=lambda timeout=None: 0, poll=lambda: None)
    worker = object.__new__(WorkerProcess)
    job = Job(argv=("train.py",), machine=machine())
    worker.begin(job, ours, cast("subprocess.Popen[bytes]", process), Output(), print)
    theirs.sendall(struct.pack("!I", len(body)) + body)
    with ours, theirs:
        yield worker


@pytest.mark.attack("messages")
@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"epoch 1", "it is not JSON: Expecting value: line 1 column 1 (char 0)"),
        (b'{"message": "Fire"}', "KeyError: 'Fire'"),
        (b'{"message": "StepsDone"}', "TypeError: "),
        (b'{"message": "Written"}', "Written"),
        (b'{"message": "TrainSteps", "count": 1}', "TrainSteps"),
    ],
)
def test_what_only_a_script_can_have_sent_is_named(body: bytes, what: str) -> None:
    """It may write to any descriptor that it finds open."""
    with saying(body) as worker, pytest.raises(WorkerError) as told:
        worker.steps(5)
    assert str(told.value).startswith(
        f"the script sent what hasten does not expect while training 5 steps: {what}"
    )
