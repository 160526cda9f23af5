"""How a worker and its script can end, and what to tell the user about it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ...errors import Refusal, ScriptError, WorkerError
from ...records.observation import Observation, Step
from ...records.plan import BASELINE, Plan
from ...records.quality import RunSummary
from ...records.trace import StepTrace
from ...records.trial import Proof
from ...units import counted
from .denied import ADVICE, denied_words, is_denied_write

LEAST_STEPS = 10  # of the whole script: fewer do not show how it trains
LEAST_TO_CHECK = 20  # fewer show nothing about accuracy, so that a tune could claim nothing
_NO_GPU_SIGNS = (
    "Torch not compiled with CUDA enabled",
    "Found no NVIDIA driver",
    "No CUDA GPUs are available",
)
_NO_GPU_ADVICE = (
    "The script asks for a GPU, and torch finds none here. A device that follows the machine: "
    'device = "cuda" if torch.cuda.is_available() else "cpu"'
)
_OF_A_LAUNCHER = r"(RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|MASTER_ADDR|MASTER_PORT)"
_RANKS_ADVICE = (
    "is distributed itself: it reads its rank from the variables that torchrun sets, but was started alone. "
    "Say how many ranks are to be started by --nproc-per-node N, before the script"
)
_FRAME = re.compile(r'  File ".*", line [0-9]+')  # of a traceback, and not of one that an error quotes
_READING_SIGNS = ("EOFError", "stdin", "input(", "getpass", "termios", "Inappropriate ioctl")
_READING_ADVICE = (
    "What the script asks for can come from a file, which each of its trials reads: hasten tune SCRIPT < FILE"
)
WATCHING_FAILED = (
    "hasten's own watching failed, which is a bug in hasten and not in the script: the script trains as "
    "usual without hasten, or with hasten run --no-plan. Please report this:\n"
)


@dataclass(frozen=True)
class ScriptEnded:
    """The script ended before all requested steps were done. ``how``: "completed", "exit" (with a code),
    "said" (by sys.exit with a text) or "raised". ``rest``: what came after the last step, as a step, up
    to the process's end if the script reached its own; None if it never trained.
    """

    how: str
    detail: str
    steps: tuple[Step, ...]
    trace: tuple[StepTrace, ...]
    steps_in_all: int = 0
    observation: Observation | None = None  # None if it never trained
    denied: str = ""  # its writes were denied: why they could not be redirected
    stands_in: str = ""  # what replaced the user's standard input; "" if nothing did
    summary: RunSummary | None = None  # of a whole training
    rest: Step | None = None
    plan: Plan = BASELINE  # the plan in force
    proofs: tuple[Proof, ...] = ()  # of its techniques


class ScriptOver(Exception):
    """A worker's script ended, normally or by its own error: its text says how."""

    def __init__(self, ended: ScriptEnded) -> None:
        super().__init__(in_one_line(ended))
        self.ended = ended


class Silence(WorkerError):
    """A worker was silent for longer than its script can have needed."""


class BudgetOver(WorkerError):
    """The budget ended while waiting for a worker: it says nothing about the worker or its plan."""


class Killed(WorkerError):
    """A worker was killed by a signal: for example by the kernel, for lack of memory."""


class PlanRefused(Exception):
    """A technique of the plan that a worker started under does not apply to its training."""

    def __init__(self, technique: str, reason: str) -> None:
        super().__init__(f"{technique}: {reason}")
        self.technique = technique


def in_one_line(ended: ScriptEnded) -> str:
    """How the script ended, for a message."""
    if ended.how == "completed":
        return "the script reached its end"
    if ended.how == "exit":
        return f"the script ended with exit code {ended.detail}"
    if ended.how == "said":
        return f"the script stopped by itself: {_first_line(ended.detail)}"
    advice = f"; writing is denied here: {ADVICE}" if ended.denied and is_denied_write(ended.detail) else ""
    return f"the script raised {raised(ended.detail)}{advice}"


def raised(detail: str) -> str:
    """What was raised, by its traceback: the first line of the error that follows the last frame."""
    lines = detail.strip().splitlines() or ["nothing that tells what it is"]
    frames = [number for number, line in enumerate(lines) if _FRAME.match(line)]
    error = [line for line in lines[frames[-1] + 1 if frames else -1 :] if line.strip()]
    while error and error[0].startswith(" "):  # the line of the frame, and marks below it
        del error[0]
    if not error:
        return lines[-1]
    if error[0].endswith(":") and len(error) > 1:
        return f"{error[0]} {error[1].strip()}"
    return error[0]


def _first_line(text: str) -> str:
    first, *more = text.strip().splitlines() or [""]
    return f"{first} ..." if more else first


def script_error(ended: ScriptEnded, script: str, printed: Path | None = None) -> ScriptError:
    """What to tell the user when their script failed by itself, or because it may not write here.

    ``printed``: the folder with its output; None if the user has seen that, including the traceback.
    """
    error = f" {raised(ended.detail)}" if printed is None else f"\n{ended.detail.rstrip()}"
    if ended.denied and is_denied_write(ended.detail):
        advice = denied_words(ended.detail, ended.denied)
        return ScriptError(f"{script} failed where trials may not write:{error}\n{advice}")
    if ended.how == "said":
        note = f" ({_about_input(ended)})" if ended.stands_in else ""
        return ScriptError(f"{script} stopped by itself: {ended.detail}{note}")
    if ended.how == "exit":
        more = [f"what it printed is in {printed}"] if printed is not None else []
        more += [_about_input(ended)] if ended.stands_in else []
        where = f" ({'; '.join(more)})" if more else ""
        return ScriptError(
            f"{script} stopped by itself with exit code {ended.detail}, before it had trained long enough to "
            f"be measured{where}"
        )
    if _wants_ranks(ended.detail):
        shown = f":\n{ended.detail.rstrip()}" if printed is not None else f" ({raised(ended.detail)})"
        return ScriptError(f"{script} {_RANKS_ADVICE}{shown}")
    advice = f"\n{_NO_GPU_ADVICE}" if any(sign in ended.detail for sign in _NO_GPU_SIGNS) else ""
    if any(sign in ended.detail for sign in _READING_SIGNS) and ended.stands_in:
        advice += f"\n{_READING_ADVICE}"
    changed = (
        f"nothing in this run but that {_about_input(ended)}" if ended.stands_in else "nothing in this run"
    )
    return ScriptError(f"{script} raised an error of its own (hasten changed {changed}):{error}{advice}")


def _wants_ranks(detail: str) -> bool:
    """Whether a script failed because a launcher's variables for ranks are missing. If we start its ranks, it
    has them.
    """
    last = raised(detail)
    if re.search(rf"KeyError: '{_OF_A_LAUNCHER}'|environment variable {_OF_A_LAUNCHER} expected", last):
        return True
    line = "\n".join(detail.strip().splitlines()[-3:])  # int(os.environ.get("RANK"))
    return "NoneType" in last and re.search(rf"""["']{_OF_A_LAUNCHER}["']""", line) is not None


def _about_input(ended: ScriptEnded) -> str:
    return f"its standard input was {ended.stands_in}"


def trains_elsewhere(child: str) -> str:
    """What to tell users whose script trains in its own child processes."""
    return (
        f"the script started a process of its own ({child}), and no training step was seen in its main "
        "process: hasten cannot follow a training into the script's own processes. Name a script that trains "
        "in the process it is started in (without multiprocessing.spawn, a launcher or a subprocess)."
    )


def too_short(ended: ScriptEnded, child: str, script: str, printed: Path | None = None) -> Exception:
    """What to tell users whose script ended before it had trained enough. ``printed`` as in
    ``script_error``.
    """
    if ended.how != "completed":
        return script_error(ended, script, printed)
    if ended.steps_in_all == 0 and child:
        return Refusal(trains_elsewhere(child))
    if ended.steps_in_all == 0:
        return Refusal(
            f"{script} ended without training: hasten saw no optimizer step and no backward pass in its "
            "process. Name the script that trains, with the arguments that make it train: if it resumes "
            "from a checkpoint, nothing may be left to train. (If it trains by other means, such as "
            "torch.func, it can mark the end of a step by hasten.step(). Training in processes that the "
            "script starts itself cannot be followed.)"
        )
    return Refusal(
        f"{script} ended after {counted(ended.steps_in_all, 'training step')}: hasten profile needs at least "
        f"{LEAST_STEPS}, hasten tune {LEAST_TO_CHECK}. Give it more epochs or more data (only the first "
        "steps are used)."
    )
