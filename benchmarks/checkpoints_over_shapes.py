"""Which of the shapes in tests/scripts/shapes are restarted exactly, and why the others are refused.

Each script is trained to its end with a checkpoint every few steps; then all but older checkpoints are moved
away, and it is started again. It was restarted exactly if it says that it went on from there, if what it
prints from there on, all losses in full precision, is to the byte what the first run printed, and if the
checkpoints that it writes have the same tensors as those that were moved away. Prints one row of a Markdown
table for each.

    python benchmarks/checkpoints_over_shapes.py [NAME ...]
    python benchmarks/checkpoints_over_shapes.py --libraries [NAME ...]   # tests/scripts/libraries
    python benchmarks/checkpoints_over_shapes.py --use bf16 --use threads:count=1 [NAME ...]   # under a plan
    python benchmarks/checkpoints_over_shapes.py --nproc-per-node 2 [NAME ...]   # in ranks

Both runs are under the plan, and what of it does not apply to a script is left out in both. Times in what a
library prints are not compared.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch._dynamo  # before processes are forked, which each need it

from hasten.inside.checkpoints import store
from hasten.inside.checkpoints.image import Restoring
from hasten.inside.job import Job
from hasten.inside.worker.start_times import StartTimes
from hasten.inside.worker.worker import Worker
from hasten.machine import this_machine
from hasten.plans.files import SavedPlan, changed
from hasten.records.plan import BASELINE, Plan
from hasten.records.run_checkpoints import RunCheckpoints

SCRIPTS = Path(__file__).resolve().parent.parent / "tests" / "scripts"
TIMES = re.compile(rb"'\w+(_runtime|_per_second)': '[^']*'")
EVERY = 33  # steps
SECONDS, SECONDS_OF_RANKS = 20.0, 90.0  # of one run; of ranks, which are rehearsed first
OF_RANKS = ("rehearsing", "differs from one process", "compared with one process", "ranks, each", "ranks as")
MACHINE = this_machine()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--libraries", action="store_true")
    parser.add_argument("--use", action="append", default=[], metavar="TECHNIQUE[:KEY=VALUE,...]")
    parser.add_argument("--nproc-per-node", type=int, default=1, metavar="N")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    gc.freeze()  # a child's collections would copy all of this process
    how = How(tuple(arguments.use), arguments.nproc_per_node)
    for path in sorted((SCRIPTS / ("libraries" if arguments.libraries else "shapes")).glob("*.py")):
        if not arguments.names or path.stem in arguments.names:
            print(f"| `{path.stem}` | {outcome(path, how)} |", flush=True)


@dataclass(frozen=True)
class How:
    """``use``: techniques, as on the command line."""

    use: tuple[str, ...] = ()
    ranks: int = 1

    @property
    def plan(self) -> Plan:
        return changed(SavedPlan(BASELINE), self.use, []).plan

    def folders(self, name: str) -> list[str]:
        """Of all ranks' checkpoints, below one of that name."""
        return [name] if self.ranks == 1 else [f"{name}/rank-{rank}" for rank in range(self.ranks)]

    def steps(self, name: str) -> list[int]:
        there = [one for one in self.folders(name) if os.path.isdir(one)]
        return store.steps_in_all(there) if len(there) == self.ranks else []


def outcome(script: Path, how: How = How()) -> str:
    folder = tempfile.mkdtemp()
    try:
        return tried(script, folder, how)
    finally:
        shutil.rmtree(folder)


def tried(script: Path, folder: str, how: How) -> str:
    first = trained(script, folder, "first", how)
    steps = how.steps(f"{folder}/kept")
    why = said(folder, "first")
    if not steps:
        return f"not kept: {why or f'no checkpoint came (it ended with {first})'}"
    middle = steps[len(steps) // 2]
    for kept, away in zip(how.folders(f"{folder}/kept"), how.folders(f"{folder}/away"), strict=True):
        os.makedirs(away)
        for step in store.steps_in(kept):
            if step > middle:
                os.rename(store.path_of(kept, step), store.path_of(away, step))
    second = trained(script, folder, "second", how)
    if second == 2 and "at step" not in said(folder, "second"):
        return f"refused: {said(folder, 'second')}"
    outputs = (Path(folder, name).read_bytes() for name in ("first.out", "second.out"))
    whole, rest = (TIMES.sub(b"", output) for output in outputs)
    went_on = f"at step {middle:,} again" in said(folder, "second")
    same = (second, whole[-len(rest) :]) == (first, rest) and rest
    pairs = zip(how.folders(f"{folder}/away"), how.folders(f"{folder}/kept"), strict=True)
    if not (went_on and same and all(same_tensors(*pair) for pair in pairs)):
        return f"**WRONG** from step {middle} of {steps[0]} ({second}): {said(folder, 'second')}"
    return f"exact, from step {middle} on"


def same_tensors(away: str, again: str) -> bool:
    """In all checkpoints that both runs have written, from the step on at which the second one began."""
    common = set(store.steps_in(away)) & set(store.steps_in(again))
    return all(kept(away, step) == kept(again, step) for step in common)


def kept(folder: str, step: int) -> list[bytes]:
    """The values of each tensor that is in a checkpoint; large ones that training leaves alone are not."""
    checkpoint = store.read(folder, step)
    restoring = Restoring(torch, checkpoint.header, checkpoint.body)
    storages = checkpoint.header["storages"]
    about = [one for part in ("tensors", "optimizers") for one in descriptions(checkpoint.header[part])]
    made = [restoring.made(one) for one in about if storages[one["storage"]]["crc"] is None]
    return [tensor.reshape(-1).contiguous().view(torch.uint8).numpy().tobytes() for tensor in made]


def descriptions(value: object) -> Iterator[dict[str, Any]]:
    """Of tensors, wherever they are below."""
    if isinstance(value, dict) and "storage" in value and "dtype" in value:
        yield value
    elif isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from descriptions(part)


def trained(script: Path, folder: str, name: str, how: How) -> int | str:
    """The exit code; what it printed is in files of that name."""
    child = os.fork()
    if not child:
        run(script, folder, name, how)
    until = time.monotonic() + (SECONDS if how.ranks == 1 else SECONDS_OF_RANKS)
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return f"more than {SECONDS:.0f} s"


def run(script: Path, folder: str, name: str, how: How) -> None:
    os.setsid()
    os.chdir(folder)
    for descriptor, kind in ((0, "in"), (1, "out"), (2, "err")):
        flags = os.O_WRONLY | os.O_CREAT if descriptor else os.O_RDONLY
        os.dup2(os.open(f"{name}.{kind}" if descriptor else os.devnull, flags), descriptor)
    if how.ranks > 1:
        words = ["--checkpoint", "kept", "--every", f"{EVERY}steps", "--keep", "1000"]
        words += [word for one in how.use for word in ("--use", one)] or ["--no-plan"]
        words += ["--nproc-per-node", str(how.ranks), str(script)]
        os.execv(sys.executable, [sys.executable, "-m", "hasten.cli.main", "run", *words])
    asked = RunCheckpoints(f"{folder}/kept", every_steps=EVERY, keep=1000, seed=1)
    code = 1
    try:
        Worker(Job((str(script),), MACHINE, plan=how.plan, checkpoints=asked), StartTimes(time.time())).run()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    sys.stdout.flush()
    os._exit(code)


def said(folder: str, name: str) -> str:
    text = Path(folder, f"{name}.err").read_text(errors="replace")
    lines = [
        line
        for line in text.splitlines()
        if line.startswith("hasten: ") and not any(words in line for words in ("going on after", *OF_RANKS))
    ]
    words = " ".join(line.removeprefix("hasten: ") for line in lines) or text[-200:].replace("\n", " ")
    return re.sub(r"/tmp/\S+", "FOLDER", words).replace("|", "/")


if __name__ == "__main__":
    main()
