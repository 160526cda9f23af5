"""Run every script of tests/scripts under hasten and write docs/compatibility.md from what was seen.

    python -m benchmarks.compatibility run [NAME ...]     run what this environment has, or these anew; keep
                                                          the raw outcome
    python -m benchmarks.compatibility write              write the page from all raw outcomes that are kept

Nothing on the page is typed: a cell that is wrong is a bug in hasten or in the script's table.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.scripts.libraries import LIBRARY_SCRIPTS, LibraryScript
from tests.scripts.shapes import REFUSED, TUNABLE, Shape
from tests.scripts.trial import Outcome, follow, live_techniques, together, trials_for

from hasten.bench.guard.guard import guard
from hasten.bench.guard.single_steps import ROUNDING
from hasten.bench.observe import observe
from hasten.bench.trials import Trials
from hasten.bench.workers.ending import PlanRefused, ScriptOver
from hasten.errors import HastenError
from hasten.inside.techniques.catalog import CATALOG
from hasten.machine import this_machine
from hasten.records.facts import Facts
from hasten.records.observation import Observation
from hasten.records.plan import Plan
from hasten.report.guard import reasons as guard_reasons
from hasten.report.words import step_words

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "compatibility.md"
GUARD_STEPS = 60
_STEPS_UNDER_A_PLAN = 6
PLAIN_SECONDS = 600
AT_ONCE = 2
LONG = {"long_steps": ("--seconds", "0.1")}  # its 20 s a step are a test of patience


@dataclass
class Row:
    """What became of one script. ``techniques``: name -> (what, why)."""

    name: str
    group: str  # "shapes", "libraries" or "refused"
    what: str  # the script's own first line
    steps_seen: int = 0
    steps_printed: int = 0
    same_output: str = ""  # "yes": as without hasten, byte for byte; "its losses"; "no"
    step: str = ""
    techniques: dict[str, tuple[str, str]] = field(default_factory=dict)
    guard: str = ""
    said: str = ""  # the refusal, or what went wrong


def first_line(script: Path) -> str:
    return script.read_text().split('"""')[1].strip().splitlines()[0].rstrip(".")


def run_plain(script: Path, folder: Path, arguments: tuple[str, ...]) -> str:
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=PLAIN_SECONDS,
        check=True,
    )
    return done.stdout


@contextmanager
def fresh_trials(shape: Shape, arguments: tuple[str, ...]) -> Iterator[Trials]:
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base, "work")
        folder.mkdir()
        with trials_for(shape.path, folder, arguments, evaluations=shape.evaluations) as trials:
            yield trials


def row_of(shape: Shape) -> Row:
    """Everything about one script, each part in processes of its own."""
    arguments = LONG.get(shape.name, shape.arguments)
    group = "libraries" if isinstance(shape, LibraryScript) else "refused" if shape.refused else "shapes"
    row = Row(shape.name, group, first_line(shape.path))
    if shape.refused:
        row.said = _refusal(shape, arguments)
        return row
    try:
        _fill(row, shape, arguments)
    except HastenError as error:
        row.said = f"{type(error).__name__}: {error}"
    return row


def _fill(row: Row, shape: Shape, arguments: tuple[str, ...]) -> None:
    with tempfile.TemporaryDirectory() as base:
        plain = run_plain(shape.path, Path(base), arguments)
    with fresh_trials(shape, arguments) as trials:
        outcome = follow(trials, live_techniques())
    row.steps_seen = len(outcome.steps)
    row.steps_printed = len(_losses_in(plain))
    row.techniques = dict(outcome.techniques)
    if outcome.observation is None:
        row.said = "too few steps to be watched"
        return
    row.step = step_words(outcome.observation)
    row.same_output = _same_under_observation(shape, arguments, plain)
    row.techniques |= _process_techniques(shape, arguments, outcome.observation)
    row.guard = _guard(shape, arguments, outcome)


def _refusal(shape: Shape, arguments: tuple[str, ...]) -> str:
    with fresh_trials(shape, arguments) as trials:
        try:
            observation, _ = observe(trials)
        except HastenError as error:
            first, *more = str(error).replace(f"{shape.path.parent}{os.sep}", "").splitlines()
            return " ".join([first, *more[-1:]])  # of a traceback of the script's, what it ends with
    return "; ".join(observation.obstacles).replace(f"{shape.path.parent}{os.sep}", "")


def _same_under_observation(shape: Shape, arguments: tuple[str, ...], plain: str) -> str:
    with fresh_trials(shape, arguments) as trials, trials.worker() as worker:
        try:
            worker.wait_started()
            worker.steps(10**9, timeout=PLAIN_SECONDS)
        except ScriptOver:
            assert trials.folder is not None
            watched = (trials.folder / "worker-001.stdout").read_text()
            if watched == plain:
                return "yes"
            return "its losses" if _losses_in(watched) == _losses_in(plain) else "no"
    raise AssertionError("a script has more steps than any script has")


def _losses_in(printed: str) -> list[str]:
    """Libraries print times as well, which differ from run to run."""
    return [line for line in printed.splitlines() if line.startswith("step ")]


def _process_techniques(
    shape: Shape, arguments: tuple[str, ...], observation: Observation
) -> dict[str, tuple[str, str]]:
    """Those that do not change the training in one process; in one of its own what did not go there."""
    facts = Facts(this_machine(), observation)
    found: dict[str, tuple[str, str]] = {}
    names = []
    for name, technique in CATALOG.items():
        if technique.scope == "live":
            continue
        reasons = technique.refuse(facts)
        if reasons:
            found[name] = ("refused", "; ".join(reasons))
        else:
            names.append(name)
    many = together([name for name in names if CATALOG[name].risk != "training"], facts)
    found |= _answers_under(many, shape, arguments)
    for name in names:
        if found.get(name, ("", ""))[0] != "applied":
            found |= _answers_under(together([name], facts), shape, arguments)
    return {name: found[name] for name in CATALOG if name in found}


def _answers_under(plan: Plan, shape: Shape, arguments: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    with fresh_trials(shape, arguments) as trials:
        try:
            trials.rehearse(plan)
            with trials.worker(plan) as worker:
                worker.wait_started()
                worker.steps(_STEPS_UNDER_A_PLAN)
                proofs = worker.proofs()
        except (ScriptOver, PlanRefused) as over:
            return dict.fromkeys(plan.techniques, ("fails", str(over)))
    return {p.technique: ("applied" if p.effective else "no effect", p.evidence) for p in proofs}


def _guard(shape: Shape, arguments: tuple[str, ...], outcome: Outcome) -> str:
    """The guard's word on all live techniques that took effect, together."""
    plan = outcome.applied
    if not plan:
        return "nothing to guard"
    assert outcome.observation is not None
    facts = Facts(this_machine(), outcome.observation)
    techniques = [CATALOG[name] for name in plan.techniques]
    draws = any(technique.risk_for(facts) == "draws" for technique in techniques)
    precision = max((technique.precision for technique in techniques), key=lambda name: ROUNDING[name])
    with fresh_trials(shape, arguments) as trials:
        steps = min(GUARD_STEPS, len(outcome.steps))
        verdict = guard(trials, plan, draws, precision, 0, steps)
        if verdict.differs_in("streams"):  # as in a tune: judged as a plan that draws
            verdict = guard(trials, plan, True, precision, 0, steps)
    return "held" if verdict.passed else "; ".join(guard_reasons(verdict))


# ---- raw outcomes
def run(names: list[str]) -> None:
    shapes = [shape for shape in (*TUNABLE, *LIBRARY_SCRIPTS, *REFUSED) if not names or shape.name in names]
    here = [shape for shape in shapes if not (isinstance(shape, LibraryScript) and shape.missing)]
    with ProcessPoolExecutor(AT_ONCE) as pool:
        rows = []
        for row in pool.map(row_of, here):
            rows.append({**asdict(row), "machine": this_machine().identity})
            told = {name: what for name, (what, _) in row.techniques.items()}
            print(row.name, row.same_output, told, row.guard, row.said, flush=True)
    libraries = sorted({name for shape in here if isinstance(shape, LibraryScript) for name in shape.needs})
    torch = version("torch")
    content: dict[str, Any] = {
        "torch": torch,
        "libraries": {name: _version_of(name) for name in libraries},
        "rows": rows,
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"compatibility-torch-{torch.split('+')[0]}.json"
    if names and path.exists():  # only these anew
        kept = json.loads(path.read_text())
        known = {row["name"]: row for row in (*kept["rows"], *rows)}
        order = [shape.name for shape in (*TUNABLE, *LIBRARY_SCRIPTS, *REFUSED)]
        content["rows"] = [known[name] for name in order if name in known]
        content["libraries"] = {**kept["libraries"], **content["libraries"]}
    path.write_text(json.dumps(content, indent=1) + "\n")
    print(f"raw outcome: {path}")


_DISTRIBUTIONS = {"PIL": "pillow", "ignite": "pytorch-ignite", "sklearn": "scikit-learn"}


def _version_of(module: str) -> str:
    return version(_DISTRIBUTIONS.get(module, module))


# ---- the page
HEAD = """\
# Compatibility

Written by `python -m benchmarks.compatibility` from what it ran; no cell is typed. Each script in
[tests/scripts](../tests/scripts) is an ordinary training program that knows nothing of hasten.

- **same output**: the script printed, to its end, byte for byte what it prints without hasten; "its losses"
  where it prints times, too, and all lines with losses are the same to the last digit.
- **steps**: training steps that hasten saw.
- A technique was **applied** where it was switched on in the running training and its proof counted an
  effect; **no effect** where the proof counted none, so that it cannot win; **refused** before it was tried,
  with the reason below; **fails** where the script itself fails under it, which ends that trial and nothing
  else.
- **guard**: the training under all techniques that can be switched live and were applied, together, against
  the plain one from the same seed.
"""


def write() -> None:
    pages = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("compatibility-torch-*.json"))]
    if not pages:
        raise SystemExit("no raw outcome is kept: python -m benchmarks.compatibility run")
    reasons: dict[str, int] = {}
    lines = [HEAD]
    for page in pages:
        used = ", ".join(f"{name} {number}" for name, number in page["libraries"].items())
        lines += [
            f"## torch {page['torch']}",
            "",
            f"On {_machines(page['rows'])}. {f'With {used}.' if used else ''}",
            "",
        ]
        for group, title in (("shapes", "Shapes of scripts"), ("libraries", "Libraries")):
            rows = [row for row in page["rows"] if row["group"] == group]
            if rows:
                lines += [f"### {title}", "", *_table(rows, reasons), ""]
        refused = [row for row in page["rows"] if row["group"] == "refused"]
        if refused:
            lines += [
                "### What is refused, and what is said",
                "",
                "| script | what it is | hasten says |",
                "|---|---|---|",
            ]
            lines += [f"| {row['name']} | {row['what']} | {_cell(row['said'])} |" for row in refused]
            lines.append("")
    lines += ["## Reasons", "", *(f"{number}. {reason}" for reason, number in reasons.items()), ""]
    PAGE.write_text("\n".join(lines))
    print(PAGE)


def _machines(rows: list[dict[str, Any]]) -> str:
    """The one of most scripts first; of the others, which scripts ran there."""
    ran: dict[str, list[str]] = {}
    for row in rows:
        ran.setdefault(row["machine"], []).append(row["name"])
    most, *others = sorted(ran, key=lambda machine: -len(ran[machine]))
    return "; ".join([most, *(f"{', '.join(ran[machine])} on {machine}" for machine in others)])


def _table(rows: list[dict[str, Any]], reasons: dict[str, int]) -> list[str]:
    names = list(CATALOG)
    lines = [
        f"| script | what it is | same output | steps | {' | '.join(names)} | guard |",
        "|---|---|---|---|" + "---|" * (len(names) + 1),
    ]
    for row in rows:
        cells = [_technique(row["techniques"].get(name), reasons) for name in names]
        same = {"no": "**no**", "": "-"}.get(row["same_output"], row["same_output"])
        guard = (
            row["guard"]
            if row["guard"] in ("held", "nothing to guard")
            else _noted("stopped", row["guard"], reasons)
        )
        if row["said"]:
            guard = f"**{_cell(row['said'])}**"
        first = [row["name"], _cell(row["what"]), same, str(row["steps_seen"])]
        lines.append(f"| {' | '.join([*first, *cells, guard])} |")
    return lines


def _technique(found: list[str] | None, reasons: dict[str, int]) -> str:
    if found is None:
        return "not tried"
    what, why = found
    return what if what == "applied" else _noted(what, why, reasons)


def _noted(word: str, why: str, reasons: dict[str, int]) -> str:
    return f"{word} ({reasons.setdefault(_cell(why), len(reasons) + 1)})"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("do", choices=("run", "write"))
    parser.add_argument("names", nargs="*", help="scripts to run (default: all)")
    arguments = parser.parse_args()
    if arguments.do == "run":
        run(arguments.names)
    else:
        write()


if __name__ == "__main__":
    main()
