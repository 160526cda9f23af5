"""A shipped example, tuned and then trained to the end over five seeds, plain and under the plan, in turns.

    python -m benchmarks.examples [fashion_cnn | augmented_resnet] [--budget SECONDS]

Claims it backs: the speedup that ``hasten tune`` prints carries over to whole runs, and accuracy is held. Raw
numbers go to ``benchmarks/results``.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from hasten.bench.comparing.statistics import interval, t_quantile
from hasten.examples import path

from .results import write_result

SEEDS = range(5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "example", nargs="?", default="fashion_cnn", choices=["fashion_cnn", "augmented_resnet"]
    )
    parser.add_argument("--budget", default="240", help="of the tune, in seconds")
    arguments = parser.parse_args()
    script = str(path(arguments.example))
    with tempfile.TemporaryDirectory() as folder:
        hasten(folder, "tune", "--quiet", "--budget", arguments.budget, "--json", "tune.json", script)
        tuned = json.loads(Path(folder, "tune.json").read_text())
        runs: list[dict[str, Any]] = []
        for seed in SEEDS:
            order = (False, True) if seed % 2 == 0 else (True, False)
            both = {planned: train(folder, script, seed, planned) for planned in order}
            runs.append({"seed": seed, "plain": both[False], "plan": both[True]})
    differences = [run["plan"]["accuracy"] - run["plain"]["accuracy"] for run in runs]
    half = t_quantile(0.95, len(runs) - 1) * stdev(differences) / math.sqrt(len(runs))
    mean = fmean(differences)
    whole = interval([math.log(run["plan"]["seconds"] / run["plain"]["seconds"]) for run in runs], "pairs")
    assert whole is not None
    speedup = whole.inverted()
    print(f"accuracy under the plan less plain: {mean:+.4f} ({mean - half:+.4f} to {mean + half:+.4f})")
    print(
        f"whole run, start and evaluation included: {speedup.value:.2f}x "
        f"({speedup.low:.2f} to {speedup.high:.2f})"
    )
    summary = {
        "accuracy_difference": {"value": mean, "low": mean - half, "high": mean + half},
        "whole_run_speedup": {"value": speedup.value, "low": speedup.low, "high": speedup.high},
    }
    write_result(arguments.example, {"summary": summary, "runs": runs, "tune": tuned})


def train(folder: str, script: str, seed: int, planned: bool) -> dict[str, Any]:
    words = ["run", *([] if planned else ["--no-plan"]), script, "--seed", str(seed)]
    began = time.monotonic()
    output = hasten(folder, *words)
    seconds = time.monotonic() - began
    accuracy = float(re.findall(r"^accuracy (\S+)$", output, re.MULTILINE)[-1])
    epochs = [float(text) for text in re.findall(r", (\S+) s$", output, re.MULTILINE)]
    print(
        f"seed {seed} {'plan ' if planned else 'plain'}: accuracy {accuracy:.4f}, {seconds:.1f} s", flush=True
    )
    return {"accuracy": accuracy, "seconds": seconds, "epoch_seconds": epochs}


def hasten(folder: str, *words: str) -> str:
    command = [sys.executable, "-m", "hasten.cli.main", *words]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
