"""Writes docs/techniques: a card for each technique, from its module and from what was measured.

python -m benchmarks.cards
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hasten.inside.techniques.base import Technique
from hasten.inside.techniques.catalog import CATALOG
from hasten.inside.techniques.exclusion import named_by_either

from .measuring import newest
from .results import FOLDER as RESULTS
from .techniques import GAIN, KINDS, REFUSED

Measured = dict[str, Any]
"""A file of raw numbers of benchmarks/techniques.py."""

FOLDER = Path(__file__).parent.parent / "docs" / "techniques"
LAYERS = ("application", "data", "environment", "resources")
RISKS = {
    "exact": "same mathematics and same random draws; only rounding may differ",
    "draws": "the same distribution, other random numbers",
    "close": "lower precision",
    "training": "changes the training itself: use `hasten verify`",
}
SCOPES = {
    "live": "switched on and off within one running training",
    "process": "decided before a process starts",
    "launch": "changes the number of processes",
}
TRIED_WITH: dict[str, dict[str, Any]] = {
    "threads": {"count": 4},
    "interop_threads": {"count": 1},
    "loader_workers": {"count": 2},
    "openmp_runtime": {"kind": "libgomp", "wait": "active"},
    "affinity": {"bind": "compact"},
    "huge_pages": {"by": "glibc"},
    "batch_size": {"factor": 2},
    "prune": {"ratio": 0.3},
    "processes": {"count": 2},
    "matmul_precision": {"precision": "medium", "convolutions": True},
}
"""Settings for the lines by hand, where a technique needs some."""
_TWO_CORES = "Unproven: no workload is known to gain from it on the machine we have, one socket of two cores."
_MEMORY = "It saves memory and no time, so it is not timed; its tests count what is kept."
_START = "It shortens the start of a run and no step, so it is not timed here; a tune compares starts."
_OUTSIDE = "Unproven: what it gains lies outside training steps, which is all that the workloads time."
_IN_EPOCHS = ("persistent_workers", "evaluation_in_ram", "graph_free_evaluation", "evaluation_bf16")
UNPROVEN = {
    "uint8_transfer": "Unproven: not measured on a GPU yet.",
    **dict.fromkeys(("affinity", "interop_threads", "huge_pages"), _TWO_CORES),
    **dict.fromkeys(("checkpointing", "optimizer_in_backward"), _MEMORY),
    **dict.fromkeys(_IN_EPOCHS, _OUTSIDE),
    **dict.fromkeys(("lazy_dynamo", "frozen_imports"), _START),
    "intel_extension": "Unproven: the extension ended with torch 2.8, older than any we support.",
    "openmp_runtime": "Unproven: no workload is known to gain from it on two cores.",
}
"""Why there are no numbers."""
NOT_BUILT = {
    "larger batches in evaluations": "Batches of a different size use different kernels, which sum in a "
    "different order. And a metric may depend on how batches are cut: a mean of batch means with a smaller "
    "last batch, the length that a batch is padded to, anything that the script counts or keeps batch by "
    "batch. It cannot be shown for an arbitrary script that its metric does not. So evaluations would differ "
    "by more than rounding, and no limit could distinguish a wrong metric from a rounded one.",
    "the next epoch's first batches, made while the evaluation runs": "Their order and the workers' seeds "
    "come from RNG states that an evaluation draws from as well. They could be predicted from the epoch "
    "before, and the batches thrown away if the prediction was wrong. But a sample made early is made from "
    "the files and the shared memory of that moment, which an evaluation may write (mined examples, sampling "
    "weights, a curriculum in mp.Value), and nothing shows whether it did. So this would be exact only for "
    "samples that are proven the same each time, and for these dataset_in_ram and sample_store make the wait "
    "for a first batch short anyway. For the others it could save that wait once an epoch, two batches a "
    "worker at most, and making them would slow the evaluation.",
}
"""What was looked at and is not worth building, each with the reason."""


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    pages = all_pages()
    for path in FOLDER.glob("*.md"):
        if path.name not in pages:
            path.unlink()
    for name, text in pages.items():
        (FOLDER / name).write_text(text)
    print(f"{len(pages)} pages in {FOLDER}")


def all_pages() -> dict[str, str]:
    """File name to text, of the whole folder."""
    kinds = [kind for kind, _ in KINDS.values() if list(RESULTS.glob(f"*-{kind}.json"))]
    measured = [json.loads(newest(kind).read_text()) for kind in kinds]
    cards = {f"{name}.md": card(technique, measured) for name, technique in CATALOG.items()}
    return {"README.md": index(measured), **cards}


def index(measured: Sequence[Measured]) -> str:
    lines = [
        "# The techniques",
        "",
        "What hasten can switch on in a script that was not written for it. `hasten techniques train.py` "
        "says which of them apply to a script on a machine, `hasten run --use NAME train.py` uses one by "
        "hand. These pages are made by `python -m benchmarks.cards`.",
    ]
    for layer in LAYERS:
        techniques = [technique for technique in CATALOG.values() if technique.layer == layer]
        if techniques:
            lines += ["", f"## {layer.capitalize()} layer", ""]
            lines.append("| technique | risk | scope | what it does | measured by us |")
            lines.append("|---|---|---|---|---|")
            for t in techniques:
                best = _best(t.name, measured)
                lines.append(f"| [{t.name}]({t.name}.md) | {t.risk} | {t.scope} | {t.summary} | {best} |")
    lines += ["", "## What is not built, and why", ""]
    lines += [f"- **{what[0].upper()}{what[1:]}.** {why}" for what, why in NOT_BUILT.items()]
    return "\n".join(lines) + "\n"


def card(technique: type[Technique], measured: Sequence[Measured]) -> str:
    lines = [f"# {technique.name}", "", f"{technique.summary[0].upper()}{technique.summary[1:]}.", ""]
    lines += ["| | |", "|---|---|", f"| layer | {technique.layer} |"]
    lines.append(f"| risk | {technique.risk}: {RISKS[technique.risk]} |")
    lines.append(f"| scope | {technique.scope}: {SCOPES[technique.scope]} |")
    if apart := named_by_either(technique.name):
        lines.append(f"| not together with | {', '.join(sorted(apart))} |")
    lines += [
        "",
        "## What it does, when it helps, when it hurts",
        "",
        _prose(sys.modules[technique.__module__]),
    ]
    lines += ["", "## How its effect is proven", "", _prose(technique.proof)]
    written = technique.by_hand(TRIED_WITH.get(technique.name, {}))
    language = "sh" if "export " in written else "python"
    lines += ["", "## The same by hand", "", f"```{language}", written, "```"]
    lines += ["", "## Measured by us", "", *_numbers(technique.name, measured)]
    return "\n".join(lines) + "\n"


def _prose(thing: Any) -> str:
    """A docstring's paragraphs, each on one line."""
    paragraphs = (inspect.getdoc(thing) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _best(name: str, measured: Sequence[Measured]) -> str:
    """The speedup where it must help."""
    rows = [row for result in measured for row in _rows(name, result)]
    gains = [f"{row['speedup']} on {_where(row)}" for row in rows if row["found"] == GAIN]
    if rows:
        return "; ".join(gains) or "no gain found"
    return "for memory" if UNPROVEN.get(name) == _MEMORY else "unproven"


def _where(row: dict[str, Any]) -> str:
    """The workload, and what both of its processes had on."""
    beside = ", ".join(row.get("beside") or ())
    return f"{row['workload']}, both under {beside}" if beside else str(row["workload"])


def _rows(name: str, result: Measured) -> list[dict[str, Any]]:
    return [row for row in result["rows"] if row["technique"] == name]


def _numbers(name: str, measured: Sequence[Measured]) -> list[str]:
    sections = [_section(rows, result) for result in measured if (rows := _rows(name, result))]
    if not sections:
        return [UNPROVEN.get(name, "Unproven: not measured yet.")]
    return [line for section in sections for line in ["", *section]][1:]


def _section(rows: list[dict[str, Any]], result: Measured) -> list[str]:
    """What was found on one machine."""
    lines = [
        f"On {result['machine']}, torch {result['torch']}, by `python -m benchmarks.techniques`; "
        "times faster, with the 95% interval over pairs of fresh processes.",
        "",
        "| workload | expected, because | found |",
        "|---|---|---|",
    ]
    for row in rows:
        script = row["workload"].split()[0]
        link = f"[{row['workload']}](../../benchmarks/workloads/{script}.py)"
        if row["found"] == REFUSED:
            found = f"refused: {'; '.join(row['reasons'])}"
        else:
            found = f"{row['found']}: {row['failure'] or row['speedup']}"
        lines.append(f"| {link} | {row['expected']}: {row['why']} | {found} |")
    return lines


if __name__ == "__main__":
    main()
