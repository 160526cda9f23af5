"""Each technique on a workload where it must help and on one where it must not: does hasten find both?

    python -m benchmarks.techniques [--on cpu | amx | gpu] [NAME ...]

Pairs of fresh processes, the plain training and the one under the technique side by side; a gain is claimed
as in a tune. What is expected follows from how the workload is made, not from its measurement.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hasten.bench.comparing.confirmation import confirm
from hasten.bench.comparing.decisions import LOOKS_MOST, Effort, is_gain
from hasten.bench.comparing.pairs import PairsBench
from hasten.bench.observe import observe
from hasten.inside.techniques.catalog import CATALOG
from hasten.records.codec import to_json
from hasten.records.facts import Facts
from hasten.records.plan import BASELINE, Plan, Settings
from hasten.report.words import ratio_words
from hasten.tuning.costs import PAIRS_MOST

from .results import FOLDER, write_result
from .staging import staged

WORKLOADS = Path(__file__).parent / "workloads"
PAIRS = PAIRS_MOST  # beside fewer, a tune starts no processes alone
GAIN, NO_GAIN, REFUSED, FAILED = "gain", "no gain", "refused", "failed"


@dataclass(frozen=True)
class Case:
    """``workload``: a script of benchmarks/workloads and its arguments; ``why`` the answer must be
    ``expected``. ``settings`` None: the first that the technique proposes. ``beside``: what is on in both.
    """

    technique: str
    workload: str
    expected: str
    why: str
    settings: Settings | None = None
    beside: Plan = BASELINE


CASES = (
    Case("batched_fetch", "small_layers 1024", GAIN, "1024 samples a step are gathered in Python one by one"),
    Case("batched_fetch", "convolutions", REFUSED, "no loader reads the data"),
    Case(
        "dataset_in_ram", "slow_samples 16", GAIN, "a sample takes several operators to make, always the same"
    ),
    Case("dataset_in_ram", "small_layers 1024", REFUSED, "the samples lie in memory already"),
    Case(
        *("batched_to_tensor", "flipped_pictures", GAIN),
        "making a tensor of so small a picture is all Python, and is done once a batch",
    ),
    Case("batched_to_tensor", "slow_samples 16", REFUSED, "no transforms make its tensors"),
    Case("native_resize", "resized_pictures", GAIN, "resizing takes most of a sample"),
    Case("native_resize", "flipped_pictures", REFUSED, "its pictures are not resized"),
    Case("debugging_off", "left_on 8", GAIN, "anomaly detection records every operator"),
    Case("debugging_off", "small_layers 8", REFUSED, "nothing is left on"),
    Case("pad_trim", "padded_text", GAIN, "most texts are short, and all are padded to 128 words"),
    Case("pad_trim", "convolutions", REFUSED, "there are no sequences"),
    Case(
        *("length_grouping", "padded_text", GAIN, "beside pad_trim, a batch is as wide as its longest text"),
        beside=Plan({"pad_trim": {"multiple": 8}}),
    ),
    Case("length_grouping", "convolutions", REFUSED, "no loader reads the data"),
    Case("matmul_convolutions", "text_cnn", GAIN, "its kernels span word vectors, and there is one channel"),
    Case("matmul_convolutions", "convolutions", REFUSED, "its kernels overlap, and span nothing"),
    Case("bf16", "convolutions", GAIN, "convolutions of a CPU with bfloat16 instructions"),
    Case("bf16", "small_layers 8", NO_GAIN, "the casts cost more than such small products"),
    Case(
        *("channels_last", "convolutions", GAIN, "beside bf16, pictures are reordered at every convolution"),
        beside=Plan({"bf16": {}}),
    ),
    Case("channels_last", "small_layers 8", REFUSED, "there are no convolutions"),
    Case(
        *("fast_pooling", "cnns plain", GAIN, "beside bf16 and channels_last, pooling takes much of a step"),
        beside=Plan({"bf16": {}, "channels_last": {}, "malloc": {}}),
    ),
    Case("fast_pooling", "small_layers 8", REFUSED, "there are no convolutions"),
    Case("compile", "transformer", GAIN, "operators between the products become one loop each"),
    Case("compile", "many_parameters", NO_GAIN, "nearly all of a step is the optimizer's and memory's"),
    Case("fused_optimizer", "many_parameters", GAIN, "Adam reads and writes all its state in several passes"),
    Case("fused_optimizer", "convolutions", NO_GAIN, "there is hardly anything to update"),
    Case("merge_groups", "many_groups", GAIN, "302 calls of the fused update become two"),
    Case("merge_groups", "many_parameters", REFUSED, "there is one parameter group"),
    Case("malloc", "convolutions", GAIN, "activations of megabytes are freed and faulted in at every step"),
    Case("malloc", "small_layers 8", NO_GAIN, "nothing is large enough to be returned to the kernel"),
    Case("threads", "convolutions", NO_GAIN, "one thread leaves the other cores idle", {"count": 1}),
    Case("loader_workers", "slow_samples 512", GAIN, "one core makes samples while the other trains"),
    Case(
        "loader_workers", "small_layers 8", NO_GAIN, "handing such samples over costs more than making them"
    ),
    Case("zero_grad_to_none", "zeroed_gradients", GAIN, "filling and adding to large gradients is saved"),
    Case("zero_grad_to_none", "many_parameters", REFUSED, "gradients are set to None already"),
    Case("batch_size", "small_layers 8", GAIN, "a step's overhead is shared by more samples"),
    Case(
        "batch_size", "convolutions", NO_GAIN, "by accumulation only updates are saved, and they cost nothing"
    ),
    Case(
        "prune",
        "convolutions",
        GAIN,
        "half of the channels are a quarter of the work",
        {"ratio": 0.5, "after": 10},
    ),
    Case("prune", "small_layers 8", NO_GAIN, "kernels take as long for fewer", {"ratio": 0.5, "after": 10}),
    Case("drop_bias", "large_pictures", NO_GAIN, "oneDNN adds biases, and sums their gradients, on its way"),
    Case(
        "drop_bias", "small_layers 8", NO_GAIN, "a bias of 32 numbers is added on the way", {"which": "all"}
    ),
    Case("denormals", "fading", NO_GAIN, "this processor takes as long for 1e-39 * 0.9 as for 1 * 0.9"),
    Case("denormals", "convolutions", NO_GAIN, "no such numbers come up"),
)

GRAPHS = {"mode": "reduce-overhead"}
CASES_ON_GPU = (
    Case("bf16", "gpu/convolutions", GAIN, "tensor cores compute convolutions in bfloat16"),
    Case("bf16", "gpu/transformer 64 2", NO_GAIN, "the casts are more launches, and launches take the time"),
    Case("fp16", "gpu/convolutions", GAIN, "tensor cores compute convolutions in float16"),
    Case("fp16", "gpu/transformer 64 2", NO_GAIN, "casts and scaling are more launches"),
    Case("tf32", "gpu/perceptron 8192", GAIN, "float32 products take most of a step"),
    Case("tf32", "gpu/convolutions", NO_GAIN, "cuDNN uses TensorFloat-32 for convolutions unasked"),
    Case("fp8", "gpu/perceptron 8192", GAIN, "float32 products take most of a step"),
    Case(
        "fp8", "gpu/perceptron 16", NO_GAIN, "scaling reads what such small products read, and launches more"
    ),
    Case("compile", "gpu/transformer 512 32", GAIN, "operators between the products become one kernel each"),
    Case("compile", "gpu/transformer 64 2", GAIN, "one launch of a graph in place of hundreds", GRAPHS),
    Case("compile", "gpu/perceptron 8192", NO_GAIN, "nearly all of a step is products, by cuBLAS either way"),
    Case(
        *("channels_last", "gpu/convolutions", GAIN, "beside bf16: tensor cores want channels last"),
        beside=Plan({"bf16": {}}),
    ),
    Case("channels_last", "gpu/perceptron 16", REFUSED, "there are no convolutions"),
    Case(
        "fused_optimizer", "gpu/perceptron 16", GAIN, "Adam reads and writes all its state in several passes"
    ),
    Case("fused_optimizer", "gpu/convolutions", NO_GAIN, "there is hardly anything to update"),
    Case("cudnn_benchmark", "gpu/convolutions", NO_GAIN, "cuDNN guesses well for shapes as usual as these"),
    Case("cudnn_benchmark", "gpu/perceptron 16", REFUSED, "there are no convolutions"),
    Case("pin_memory", "gpu/pictures 224", GAIN, "38 MB a batch are copied while the script waits"),
    Case("pin_memory", "gpu/pictures 16", NO_GAIN, "handing batches over takes the time, not their copies"),
    Case("device_prefetch", "gpu/pictures 224", GAIN, "38 MB a batch are copied before the step can begin"),
    Case("device_prefetch", "gpu/convolutions", REFUSED, "no loader reads the data"),
)
CASES_WITH_AMX = (
    Case("matmul_precision", "products", GAIN, "matrix instructions multiply bfloat16, not float32"),
    Case("matmul_precision", "small_layers 8", NO_GAIN, "such small products do not go to oneDNN"),
    Case("bf16", "products", GAIN, "matrix instructions multiply bfloat16, not float32"),
    Case(
        *("matmul_convolutions", "text_cnn", GAIN, "beside bf16, which is slow for kernels of one channel"),
        beside=Plan({"bf16": {}}),
    ),
)
KINDS = {
    "cpu": ("techniques", CASES),
    "amx": ("techniques-with-amx", CASES_WITH_AMX),
    "gpu": ("techniques-on-gpu", CASES_ON_GPU),
}
"""Hardware: the name of the file of raw numbers, and its cases."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these techniques")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--on", choices=tuple(KINDS), default="cpu", help="the cases of this hardware")
    arguments = parser.parse_args()
    kind, cases = KINDS[arguments.on]
    unknown = set(arguments.names) - {case.technique for case in cases}
    if unknown:
        parser.error(f"no case is known of {', '.join(sorted(unknown))}")
    rows: list[dict[str, Any]] = []
    try:
        for case in cases:
            if case.technique in CATALOG and (not arguments.names or case.technique in arguments.names):
                rows.append(answer(case, arguments.pairs))
                print(row_words(rows[-1]), flush=True)
    finally:  # Ctrl-C keeps what was measured
        new = {(row["technique"], row["workload"]) for row in rows}
        kept = [row for row in kept_rows(kind) if (row["technique"], row["workload"]) not in new]
        write_result(kind, {"rows": sorted(kept + rows, key=lambda row: _place(cases, row))})
    wrong = [row for row in rows if row["found"] != row["expected"]]
    print(f"{len(rows) - len(wrong)} of {len(rows)} answers are as expected")
    raise SystemExit(1 if wrong else 0)


def kept_rows(kind: str) -> list[dict[str, Any]]:
    """Those of the newest file."""
    files = sorted(FOLDER.glob(f"*-{kind}.json"))
    rows: list[dict[str, Any]] = json.loads(files[-1].read_text())["rows"] if files else []
    return rows


def answer(case: Case, pairs: int) -> dict[str, Any]:
    """What hasten finds, with the raw log ratios."""
    row: dict[str, Any] = {
        "technique": case.technique,
        "workload": case.workload,
        "expected": case.expected,
        "why": case.why,
    }
    technique = CATALOG[case.technique]
    name, *arguments = case.workload.split()
    with staged(WORKLOADS / f"{name}.py", arguments) as trials:
        observation, rhythm = observe(trials)
        facts = Facts(trials.stage.machine, observation)
        reasons = technique.refuse(facts)
        if reasons:
            return row | {"found": REFUSED, "reasons": reasons}
        settings = technique.options(facts)[0] if case.settings is None else case.settings
        both = case.beside.adding(case.technique, settings)
        trial = confirm(PairsBench(trials, rhythm), case.beside, both, Effort(pairs, LOOKS_MOST))
    gained = bool(trial.log_ratios) and is_gain(
        trial.log_ratios, trial.looks
    )  # none: its first steps were enough
    found = GAIN if gained else NO_GAIN
    return row | {
        "settings": settings,
        "beside": to_json(case.beside),
        "found": FAILED if trial.failure else found,  # which is no answer, whatever was expected
        "failure": trial.failure,
        "ratio": to_json(trial.ratio),
        "speedup": ratio_words(trial.ratio),
        "log_ratios": trial.log_ratios,
        "looks": trial.looks,
        "step_seconds": [trial.step_seconds_a, trial.step_seconds_b],
        "setup_seconds": trial.setup_seconds,
    }


def row_words(row: dict[str, Any]) -> str:
    right = "as expected" if row["found"] == row["expected"] else f"EXPECTED {row['expected'].upper()}"
    told = row.get("speedup") or "; ".join(row["reasons"])
    failure = f" ({row['failure']})" if row.get("failure") else ""
    return f"{row['technique']} on {row['workload']}: {row['found']}, {right}: {told}{failure}"


def _place(cases: Sequence[Case], row: dict[str, Any]) -> tuple[int, int]:
    places = [(case.technique, case.workload) for case in cases]
    place = (row["technique"], row["workload"])
    return (list(CATALOG).index(place[0]), places.index(place) if place in places else len(places))


if __name__ == "__main__":
    main()
