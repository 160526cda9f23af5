"""An example tuned beside a program that keeps a core busy all the time, and its whole runs beside it.

    python -m benchmarks.beside_others [EXAMPLE ...] [--cores N] [--rounds N]

Operators wait for the last of their threads, so one busy core may cost far more than a core. Is the plan for
that found, and does its forecast hold? After the tune, whole runs alternate, plain and under the plan, in the
order A B B A, first beside the program and then alone: what was right beside it need not be right without.
Every process is in a session of its own, as those of several people are: the kernel shares cores out by
sessions. Nothing else may run on the machine meanwhile. Appends a line an example to
``benchmarks/results/beside_others.jsonl``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hasten.examples import path
from hasten.machine import this_machine
from hasten.scripts.workspace import find_script

from .disturbed import tuned
from .false_wins import commit, inside
from .results import FOLDER, now

FILE = FOLDER / "beside_others.jsonl"
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("examples", nargs="*", default=("fashion_cnn",))
    parser.add_argument("--cores", type=int, default=1, help="how many are kept busy")
    parser.add_argument("--rounds", type=int, default=2, help="of whole runs, plain and under the plan")
    arguments = parser.parse_args()
    for example in arguments.examples:
        row = of_example(example, arguments.cores, arguments.rounds)
        about = {"machine": this_machine().identity, "torch": version("torch"), "commit": commit()}
        with FILE.open("a") as file:
            file.write(json.dumps({**row, **about, "at": now()}) + "\n")
        print(words(row))


def of_example(example: str, cores: int, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, inside(folder):
        script = find_script(str(path(example)), [])
        with busy(cores):
            found = tuned(script, None, 0)
            if found["outcome"] != "gain":
                raise SystemExit(f"{example} beside {cores} busy: {found['outcome']}: {found['reason']}")
            beside = whole_runs(script.argv, rounds)
        alone = whole_runs(script.argv, rounds)
        told = json.loads(Path("tune.json").read_text())
    return {
        "example": example,
        "cores": cores,
        "tune": {**found, "forecast": told.get("forecast"), "causes": told.get("causes")},
        "beside": beside,
        "alone": alone,
    }


@contextmanager
def busy(cores: int) -> Iterator[None]:
    """So many programs that never wait; they end where we were killed."""
    with ExitStack() as stack:
        for _ in range(cores):
            program = subprocess.Popen([sys.executable, "-c", BUSY], start_new_session=True)
            stack.callback(program.wait)
            stack.callback(program.kill)
        yield


def whole_runs(argv: Sequence[str], rounds: int) -> dict[str, list[float]]:
    """Seconds of whole processes."""
    commands = {"plain": [*argv], "plan": ["-m", "hasten.cli.main", "run", *argv]}
    found: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds):
        for name in commands if number % 2 == 0 else reversed(commands):
            began = time.monotonic()
            subprocess.run(
                [sys.executable, *commands[name]],
                check=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            found[name].append(time.monotonic() - began)
    return found


def words(row: dict[str, Any]) -> str:
    tune, forecast, speedup = row["tune"], row["tune"]["forecast"], row["tune"]["speedup"]
    times = f"{speedup['value']:.2f}x ({speedup['low']:.2f} to {speedup['high']:.2f})"
    lines = [
        f"{row['example']} beside {row['cores']} busy: a step {times}, found in {tune['seconds']:.0f} s",
        f"  plan: {', '.join(tune['plan'])}",
    ]
    if forecast:
        before, after = (forecast[when]["value"] for when in ("before", "after"))
        lines.append(f"  forecast of one {forecast['of']}: {before:.1f} -> {after:.1f} s")
    for where in ("beside", "alone"):
        runs = {name: ", ".join(f"{one:.1f}" for one in each) for name, each in row[where].items()}
        lines.append(f"  {where}: {runs['plain']} -> {runs['plan']} s")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
