"""Whole tunes of trainings on one GPU: what is claimed, and how much of the GPU's arithmetic a step uses.

    python -m benchmarks.gpu_tunes --ceilings              # this GPU's rates, measured
    python -m benchmarks.gpu_tunes gpt_mini residual_net   # tunes them one after the other
    python -m benchmarks.gpu_tunes                         # what was measured so far

Appends a line a tune, and one for the ceilings, to ``benchmarks/results/gpu_tunes.jsonl``. The operations of
a step are counted from the model's shape: 6 for each parameter and token plus those of attention (Kaplan et
al., arXiv 2001.08361), 3 times the forward pass of ResNet-50 (4.1e9 multiplications a picture at 224x224).
Nothing else may run on the machine then.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from hasten.examples import path as example_path
from hasten.machine import this_machine
from hasten.plans.files import of_what

from .false_wins import commit, rows_of
from .results import FOLDER, now

FILE = FOLDER / "gpu_tunes.jsonl"
WORKLOADS = Path(__file__).parent / "workloads" / "gpu"
NOVEL = example_path("char_gpt").parent / "data" / "persuasion" / "persuasion.txt.gz"
GPT_LAYERS, GPT_WIDTH, GPT_SEQUENCE, GPT_PARAMETERS = 12, 768, 1024, 124e6
GPT_SAMPLE = GPT_SEQUENCE * (6 * GPT_PARAMETERS + 12 * GPT_LAYERS * GPT_WIDTH * GPT_SEQUENCE)
PICTURE = 3 * 2 * 4.1e9


@dataclass(frozen=True)
class Training:
    """``operations``: floating-point operations of a sample's forward and backward pass, where known."""

    command: tuple[str, ...]
    operations: float | None = None


TRAININGS = {
    "gpt_mini": Training((f"{WORKLOADS}/gpt.py", "--size", "mini", "--text", f"{NOVEL}", "--steps", "20000")),
    "gpt_small": Training(
        (f"{WORKLOADS}/gpt.py", "--size", "small", "--text", f"{NOVEL}", "--steps", "20000"), GPT_SAMPLE
    ),
    "residual_net": Training((f"{WORKLOADS}/residual_net.py", "--epochs", "20"), PICTURE),
    **{
        name: Training((str(example_path(name)), "--device", "cuda", *more))
        for name, more in (
            ("fashion_cnn", ("--epochs", "20")),
            ("augmented_resnet", ("--epochs", "20")),
            ("char_gpt", ("--steps", "20000")),
        )
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(TRAININGS)}")
    parser.add_argument("--ceilings", action="store_true")
    parser.add_argument("--budget", help="of each tune, in seconds; else hasten's default")
    asked = parser.parse_args()
    if unknown := sorted(set(asked.names) - set(TRAININGS)):
        parser.error(f"{', '.join(unknown)} is none of {', '.join(TRAININGS)}")
    if asked.ceilings:
        keep({"name": "ceilings", **ceilings()})
    for name in asked.names:
        keep({"name": name, **tuned(TRAININGS[name].command, asked.budget)})
    print(summary(rows_of(FILE)))


def keep(row: dict[str, Any]) -> None:
    where = {"machine": this_machine().identity, "torch": version("torch"), "commit": commit(), "at": now()}
    FOLDER.mkdir(exist_ok=True)
    with FILE.open("a") as file:
        file.write(json.dumps({**where, **row}) + "\n")


def ceilings() -> dict[str, float]:
    """Rates of this GPU on random data: bfloat16 products in operations, copies in bytes, a second."""
    import torch

    event: Any = torch.cuda.Event

    def seconds(run: Any) -> float:
        times: list[float] = []
        for _ in range(12):
            begin, end = (event(enable_timing=True) for _ in range(2))
            begin.record()
            run()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) / 1e3)
        return median(times[2:])

    side = 8192
    left, right = (torch.randn(side, side, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    source = torch.randn(2**29, device="cuda")
    target = torch.empty_like(source)
    return {
        "bf16_operations": 2 * side**3 / seconds(lambda: left @ right),
        "copied_bytes": 2 * 4 * 2**29 / seconds(lambda: target.copy_(source)),
    }


def tuned(command: Sequence[str], budget: str | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder, "result.json")
        ordered = [sys.executable, "-m", "hasten", "tune", "--debug", "--fresh", "--json", str(kept)]
        ordered += ["--budget", budget] if budget else []
        ended = subprocess.run(
            [*ordered, *command], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        print(ended.stdout, flush=True)
        result = json.loads(kept.read_text()) if kept.exists() else None
    if result is not None:
        result.pop("sources", None)  # paths of this machine
    return {"command": list(command), "exit": ended.returncode, "output": ended.stdout, "result": result}


def summary(rows: Sequence[dict[str, Any]]) -> str:
    peak: dict[str, float] = {}
    lines = ["| training | GPU | samples a second | share of its bf16 rate | under the plan | claim | tune |"]
    lines.append("|---|---|---|---|---|---|---|")
    for row in rows:
        machine = row["machine"]
        if row["name"] == "ceilings":
            peak[machine] = row["bf16_operations"]
        else:
            lines.append(line_of(row, peak.get(machine)))
    return "\n".join(lines)


def line_of(row: dict[str, Any], peak: float | None) -> str:
    gpu, result = row["machine"].rsplit(", ", 1)[-1], row["result"]
    if result is None or result["baseline"]["samples_per_second"] is None:
        why = (result or {}).get("reason") or f"failed: exit code {row['exit']}"
        return f"| {row['name']} | {gpu} | {why} | | | | |"
    rate, claimed = result["baseline"]["samples_per_second"], result["speedup"]
    plan = "+".join(result["plan"] or ()) if claimed else "nothing"
    used = [share(row["name"], rate, peak)]
    what = of_what(result)
    if claimed and not what:
        used.append(share(row["name"], rate * claimed["value"], peak))
    said = "{value:.2f}x{what} ({low:.2f} to {high:.2f})"
    claim = said.format(what=what, **claimed) if claimed else result["outcome"]
    seconds = f"{result['tune_seconds']:.0f} s"
    return f"| {row['name']} | {gpu} | {rate:,.0f} | {' -> '.join(used)} | {plan} | {claim} | {seconds} |"


def share(name: str, rate: float, peak: float | None) -> str:
    operations = TRAININGS[name].operations
    return f"{rate * operations / peak:.1%}" if peak and operations else "-"


if __name__ == "__main__":
    main()
