"""``hasten run --checkpoint DIR --every T``: what is asked, and where it cannot be."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING

import click

from .values import YEAR_SECONDS, file_name, shortened, whole_number

if TYPE_CHECKING:
    from ..records.diagnosis import Distribution
    from ..records.plan import Plan
    from ..records.run_checkpoints import RunCheckpoints
    from ..scripts.workspace import Script

_EVERY = re.compile(r"(?P<number>[0-9]{1,9}(?:[.][0-9]{1,3})?) ?(?P<unit>s|m|min|h|steps?)?")
_SECONDS = {None: 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_RESUME = re.compile(
    r"--?(resume|continue)([-_](from|training|path|run).*)?|--ckpt[-_]path|--from[-_]checkpoint"
)
_RUN = "run.json"  # in the folder: what the first run drew


@dataclass(frozen=True)
class Every:
    """One of them is zero."""

    seconds: float = 0.0
    steps: int = 0

    def __str__(self) -> str:
        return f"{self.steps}steps" if self.steps else f"{self.seconds:.12g}s"


_USUALLY, _KEPT = Every(600.0), 2


def every(text: str) -> Every:
    """An option's type."""
    found = _EVERY.fullmatch(text.strip())
    number = float(found["number"]) if found is not None else 0.0
    if found is not None and found["unit"] in ("step", "steps") and number >= 1 and number == int(number):
        return Every(steps=int(number))
    seconds = number * _SECONDS.get(found["unit"], 0.0) if found is not None else 0.0
    if not 0 < seconds <= YEAR_SECONDS:
        raise click.BadParameter(f"expected a time (10m, 600s) or steps (500steps), found {shortened(text)}")
    return Every(seconds)


OPTIONS = (
    click.Option(
        ["--checkpoint"],
        metavar="DIR",
        type=file_name,
        help="keep checkpoints in this folder, and go on from the newest: started again, an unmodified "
        "script ends with the weights that it would have had",
    ),
    click.Option(
        ["--every"],
        type=every,
        metavar="T",
        help="how often: 10m, 600s or 500steps (default: 10m)",
    ),
    click.Option(["--keep"], type=whole_number(1, 1000), metavar="N", help="how many stay (default: 2)"),
)


def checkpoints_of(
    arguments: SimpleNamespace, script: Script, distribution: Distribution, plan: Plan
) -> RunCheckpoints | None:
    """None where none are asked for. Raises UsageError where they cannot be kept."""
    from ..errors import UsageError
    from ..records.run_checkpoints import RunCheckpoints

    if not arguments.checkpoint:
        if arguments.every or arguments.keep:
            raise UsageError(
                "--every and --keep say how checkpoints are kept: name a folder by --checkpoint DIR"
            )
        return None
    why = _why_not(arguments, script, distribution)
    if why:
        raise UsageError(f"--checkpoint: {why}")
    folder = os.path.abspath(arguments.checkpoint)
    due, keep = arguments.every or _USUALLY, arguments.keep or _KEPT
    try:
        rank, ranks = _place(arguments, plan)
        ours = arguments.ranks == "ours" or not distribution.kind
        seed = _seed_of(folder, ranks, ours)
        return RunCheckpoints(folder, due.seconds, due.steps, keep, seed, rank, ranks)
    except OSError as error:
        raise UsageError(f"{folder} cannot be used for checkpoints: {error.strerror}") from error


def _resumes_itself(script: Script) -> str:
    """Its own option for that, as it was given; "" if it was not."""
    given = [word.partition("=")[0] for word in script.arguments]
    return next((word for word in given if _RESUME.fullmatch(word)), "")


def _why_not(arguments: SimpleNamespace, script: Script, distribution: Distribution) -> str:
    from ..launch.launched_rank import launched_rank
    from .across_hosts import shares

    if distribution.kind == "spawns" and arguments.ranks != "ours":
        return (
            f"{distribution.sign} starts the script's own processes, which cannot be continued yet: leave "
            "--checkpoint out, or let the script train in the process that it is started in"
        )
    launched = launched_rank(os.environ)
    apart = launched is not None and launched.size > 1 and not distribution.kind
    if launched is not None and apart and not shares(launched, distribution, arguments):
        return (
            f"each of {launched.launcher}'s {launched.size} ranks trains all of the script by itself: start "
            "one, or have them share it by --ranks ours"
        )
    if script.is_notebook:
        return "a notebook cannot be continued yet: export it as a script"
    if _resumes_itself(script):
        return (
            f"{_resumes_itself(script)} is the script's own way to go on, and is left to it: leave one of "
            "the two out"
        )
    if arguments.tune or arguments.retune_every:
        return "a run that tries techniques as it trains cannot be played back: leave out --tune"
    return ""


def part_that_restarts(arguments: SimpleNamespace, plan: Plan) -> tuple[Plan, list[str]]:
    """The part of the plan under which a run can go on from a checkpoint, and a remark about the rest. All of
    it where no checkpoints are asked for.
    """
    from ..inside.techniques.catalog import CATALOG

    rest = [name for name in plan.techniques if not CATALOG[name].restarts]
    if not (arguments.checkpoint and rest):
        return plan, []
    remark = f"a run under {', '.join(rest)} cannot be continued from a checkpoint yet: left out of the plan"
    return plan.only(set(plan.techniques) - set(rest)), [remark]


def _place(arguments: SimpleNamespace, plan: Plan) -> tuple[int, int]:
    """This process's rank, and how many there are; 0 where it will start all of them."""
    from ..launch.launched_rank import launched_rank
    from ..launch.ranks_of_plan import wish_of

    launched = launched_rank(os.environ)
    if launched is not None and launched.size > 1:
        return launched.rank, launched.size
    wish = wish_of(plan)
    return 0, arguments.nproc_per_node or (wish.count if wish is not None else 1)


def _seed_of(folder: str, ranks: int, ours: bool) -> int:
    """Of the first run with this folder. Raises UsageError if that trained in another number of processes,
    and ranks of its kind cannot go on then. ``ours``: they train as one process.
    """
    import secrets

    from ..errors import UsageError

    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, _RUN)
    if not os.path.exists(path):
        beside = f"{path}.{secrets.token_hex(4)}"
        with open(beside, "x") as file:
            json.dump({"seed": secrets.randbits(62), "processes": ranks}, file)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # of ranks that begin at once, one draws
            os.link(beside, path)
        os.unlink(beside)
    try:
        with open(path) as file:
            first = json.load(file)
        seed, before = int(first["seed"]), int(first.get("processes", 1))
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(0, f"{path} is damaged; move it away") from error
    if before != ranks and not (ours and before > 1 and ranks > 1):
        also = " (from one process to several, or back, none can go on)" if ours else ""
        raise UsageError(
            f"the checkpoints in {folder} are of a training in {before} processes, and this one is in "
            f"{ranks}: start as many, or name another folder{also}"
        )
    return seed


def hashing_as_before(checkpoints: RunCheckpoints) -> None:
    """Sets are to be in the same order in each run."""
    os.environ.setdefault("PYTHONHASHSEED", str(checkpoints.seed % 2**32))
