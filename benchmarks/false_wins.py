"""Whole tunes whose techniques do nothing: every gain claimed is a false one.

    python -m benchmarks.false_wins --tunes 100
    python -m benchmarks.false_wins --tunes 50 --kind disturbed
    python -m benchmarks.false_wins --tunes 100 --kind catalogue

Appends a line a tune to a file of ``benchmarks/results``, with the raw log ratios of all its trials, until
the file has that many; so it can be stopped and gone on with. Every fourth tune of the first kind runs while
a program keeps one core busy, each of the second while one keeps all busy at random moments. The
third kind has every technique of the catalogue, asked for and judged as it is, but none does anything. Where
hasten refuses the budget as too short for an honest answer, it is doubled.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.bench import idle_catalogue, idle_technique
from tests.bench.known_techniques import known_to_workers
from tests.bench.real_workers import one_thread

from hasten.errors import HastenError
from hasten.inside.techniques.base import Risk
from hasten.machine import this_machine
from hasten.report.caution import caution_words
from hasten.report.conclusion import conclusion_words
from hasten.report.progress import Silent
from hasten.scripts.workspace import find_script
from hasten.tuning.pipeline import tune
from hasten.tuning.request import TuneRequest

from .disturber import disturber
from .results import FOLDER, now

FILES = {
    "idle": FOLDER / "false_wins.jsonl",
    "disturbed": FOLDER / "false_wins_disturbed.jsonl",
    "catalogue": FOLDER / "false_wins_catalogue.jsonl",
}
FILE = FILES["idle"]
LOADED_EVERY = 4
BUDGET = 20.0  # seconds
BUDGET_OF_CATALOGUE = 60.0
BUDGETS = 4  # tried at most, each twice the one before
SCRIPT = """\
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(192, 256), torch.nn.ReLU(), torch.nn.Linear(256, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
while True:
    pictures, labels = torch.randn(64, 192), torch.randint(0, 4, (64,))
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(pictures), labels).backward()
    optimizer.step()
"""

SCRIPT_OF_CATALOGUE = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
pictures = TensorDataset(torch.randn(2000, 3, 16, 16), torch.randint(0, 4, (2000,)))
layers = [nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()]
model = nn.Sequential(*layers, nn.Linear(64, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
while True:
    for inputs, labels in DataLoader(pictures, 32, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tunes", type=int, default=100, help="how many the file shall have")
    parser.add_argument("--kind", choices=tuple(FILES), default="idle")
    parser.add_argument("--budget", type=float, metavar="SECONDS")
    parser.add_argument("--file", type=Path)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no tune after so many")
    arguments = parser.parse_args()
    path = arguments.file or FILES[arguments.kind]
    budget = arguments.budget or budget_for(arguments.kind)
    path.parent.mkdir(exist_ok=True)
    until = time.monotonic() + arguments.seconds
    for number in range(len(rows_of(path)), arguments.tunes):
        if time.monotonic() > until:
            break
        row = answered_tune(number, budget, arguments.kind)
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{number}: {row['outcome']} in {row['seconds']:.0f} s: {row['reason']}", flush=True)
    print(summary(rows_of(path), budget))


def budget_for(kind: str) -> float:
    """That is tried first, in seconds."""
    return BUDGET_OF_CATALOGUE if kind == "catalogue" else BUDGET


def rows_of(path: Path) -> list[dict[str, Any]]:
    """What the file has; a line that was cut off in writing is an error, not left out."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def summary(rows: list[dict[str, Any]], usual: float = BUDGET) -> str:
    """``usual``: the budget that is tried first, in seconds."""
    ended = [row for row in rows if row["outcome"] in ("gain", "no-gain")]
    answered = [row for row in ended if any(trial["log_ratios"] for trial in row["trials"])]
    claims = sum(row["outcome"] == "gain" for row in answered)
    confirmed = sum(any(trial["purpose"] == "confirm" for trial in row["trials"]) for row in answered)
    loaded = sum(row["loaded"] for row in answered)
    text = (
        f"{claims} gains claimed in {len(answered)} tunes, {loaded} of them under load; "
        f"{confirmed} came as far as a confirmation; {len(rows) - len(ended)} more were refused or failed"
    )
    if len(ended) > len(answered):
        text += f"; {len(ended) - len(answered)} compared nothing, and do not count"
    longer = [row["budget"] for row in answered if row["budget"] > usual]
    if longer:
        text += (
            f"; {len(longer)} times a budget of {usual:g} s was refused as too short, and up to "
            f"{max(longer):g} s were given"
        )
    if claims == 0 and answered:
        most = 1 - 0.05 ** (1 / len(answered))
        text += f". That excludes, with 95% confidence, a share of false gains above {most:.1%}"
    return text


def answered_tune(number: int, budget: float, kind: str) -> dict[str, Any]:
    """A row of the file; where the budget is refused as too short, of a tune under a longer one."""
    row = one_tune(number, budget, kind)
    for _ in range(BUDGETS - 1):
        if row["outcome"] == "Refusal":
            budget *= 2
            row = one_tune(number, budget, kind)
    return row


def one_tune(number: int, budget: float, kind: str) -> dict[str, Any]:
    """Raises nothing that a user would be told: the row says it."""
    loaded = kind == "disturbed" or (kind == "idle" and number % LOADED_EVERY == LOADED_EVERY - 1)
    others = disturber(number) if kind == "disturbed" else busy_core(loaded)
    idle = nothing_in_force(kind)
    # one thread as the user's own choice: no curve of threads is measured
    own = patch.dict(os.environ, {} if kind == "catalogue" else one_thread())
    row: dict[str, Any] = {
        "number": number,
        "began": now(),
        "loaded": loaded,
        "load_average": os.getloadavg()[0],
        "budget": budget,
        "machine": this_machine().identity,
        "torch": version("torch"),
        "commit": commit(),
    }
    began = time.monotonic()
    risk: Risk = "close" if kind == "catalogue" else "exact"
    with tempfile.TemporaryDirectory() as folder, inside(folder), idle, others, own:
        Path("train.py").write_text(SCRIPT_OF_CATALOGUE if kind == "catalogue" else SCRIPT)
        request = TuneRequest(
            find_script("train.py", []), dict(os.environ), budget, risk, number, allow_writes=False
        )
        try:
            result = tune(request, Silent())
            row |= {
                "outcome": result.outcome,
                "reason": conclusion_words(result),
                "warnings": list(map(caution_words, result.warnings)),
            }
        except HastenError as error:
            row |= {"outcome": type(error).__name__, "reason": str(error), "warnings": []}
        row["trials"] = trials(Path(".hasten/journal.db"))
    return row | {"seconds": time.monotonic() - began}


def trials(journal: Path) -> list[dict[str, Any]]:
    """The raw numbers of all comparisons, the confirmation's last."""
    with closing(sqlite3.connect(journal)) as database:
        found = database.execute("SELECT purpose, trial FROM trials ORDER BY id").fetchall()
    kept = ("method", "log_ratios", "step_seconds_a", "step_seconds_b", "seconds", "failure")
    whole = [(purpose, json.loads(text)) for purpose, text in found]
    return [{"purpose": purpose, **{name: trial[name] for name in kept}} for purpose, trial in whole]


def nothing_in_force(kind: str) -> AbstractContextManager[None]:
    """Techniques that do nothing are the only ones there are, here and in workers."""
    if kind == "catalogue":
        return known_to_workers(idle_catalogue.__file__, idle_catalogue.idle_catalogue(), alone=True)
    return known_to_workers(idle_technique.__file__, {"idle": idle_technique.Idle}, alone=True)


@contextmanager
def busy_core(wanted: bool) -> Iterator[None]:
    """Another program at work, if wanted."""
    if not wanted:
        yield
        return
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        other.kill()
        other.wait()


@contextmanager
def inside(folder: str) -> Iterator[None]:
    """``contextlib.chdir``, which Python 3.10 has not."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def commit() -> str:
    """Of hasten's source; with a plus where it was changed since."""
    told = ""
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        told = subprocess.check_output(
            ["git", "describe", "--always", "--dirty=+"], cwd=Path(__file__).parent, text=True
        )
    return told.strip()


if __name__ == "__main__":
    main()
