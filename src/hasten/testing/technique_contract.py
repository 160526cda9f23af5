"""The contract of every technique, as functions that raise AssertionError. Tests run them on the whole
catalogue.
"""

from __future__ import annotations

import copy
import gc
import io
import math
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import permutations

import torch

from ..inside.techniques.base import Technique
from ..inside.techniques.catalog import CATALOG
from ..inside.techniques.exclusion import within
from ..records.plan import BASELINE, Plan, Settings
from .byte_pictures import BytePictures
from .padded_texts import PaddedTexts, TextClassifier
from .workbench import Context, Workbench, patch_cnn, pooled_cnn, workbench

_STEPS = 4


def check_switching_alone_leaves_no_trace(bench: Workbench, plan: Plan) -> None:
    """Installing and removing the plan, with no step in between, leaves every bit as it was."""
    bench.train(2)
    before = bench.bits()
    bench.switchboard.switch(plan)
    bench.switchboard.switch(BASELINE)
    _same(before, bench.bits())


def check_steps_leave_no_trace(bench: Workbench, *plans: Plan) -> None:
    """Take steps under each plan in turn, then restore a snapshot: training goes on bit for bit."""
    bench.set_to_none = False  # some techniques need it, and all must work with it
    bench.train(2)
    start = bench.snapshot()
    expected = bench.train(_STEPS)
    bits = bench.bits()
    bench.restore(start)
    for plan in plans:
        bench.switchboard.switch(plan)
        bench.train(_STEPS)
    bench.switchboard.switch(BASELINE)
    bench.restore(start)
    assert bench.train(_STEPS) == expected
    _same(bits, bench.bits())


def check_training_stays_close(bench: Workbench, plan: Plan, relative: float) -> None:
    """Losses under the plan follow the baseline's within ``relative``, from the same start."""
    bench.set_to_none = False
    bench.train(2)
    start = bench.snapshot()
    expected = bench.train(_STEPS)
    bench.restore(start)
    bench.switchboard.switch(plan)
    found = bench.train(_STEPS)
    bench.switchboard.switch(BASELINE)
    for ours, theirs in zip(found, expected, strict=True):
        assert math.isclose(ours, theirs, rel_tol=relative), (found, expected)


def check_proof(bench: Workbench, name: str) -> None:
    """The proof reports an effect after steps under the technique, and none before the first."""
    bench.set_to_none = False
    with CIRCUMSTANCES.get(name, nullcontext)():
        bench.evaluates = IN_EVALUATIONS.get(name)
        bench.train(2)
        bench.switchboard.switch(plan_of(name), prepare=True)  # as in a trial
        (idle,) = bench.switchboard.proofs()
        assert not idle.effective, f"{name} claims an effect before any step: {idle.evidence}"
        bench.train(_STEPS)
        (proof,) = bench.switchboard.proofs()
        assert proof.effective, f"{name}: {proof.evidence}"
        bench.switchboard.switch(BASELINE)


def check_later_training(bench: Workbench, name: str) -> None:
    """The proof holds for a training that begins after another has ended, as in cross-validation."""
    bench.set_to_none = False
    with CIRCUMSTANCES.get(name, nullcontext)():
        bench.evaluates = IN_EVALUATIONS.get(name)
        bench.train(2)
        bench.switchboard.switch(plan_of(name), prepare=True)
        bench.train(_STEPS)
        bench.begin()
        bench.train(1)
        bench.training.steps += 1
        bench.training.changed = True
        bench.switchboard.refresh(prepare=True)  # as a worker does at the first step's batch
        bench.training.steps += 1
        bench.train(_STEPS)
        (proof,) = bench.switchboard.proofs()
        assert proof.effective, f"{name}: {proof.evidence}"
        bench.switchboard.switch(BASELINE)


def check_what_the_script_drops_is_freed(bench: Workbench, name: str) -> None:
    """Nothing keeps the model and optimizer of a training that is over, even before the next one takes a
    step: there may not be enough memory for two.
    """
    bench.set_to_none = False
    with CIRCUMSTANCES.get(name, nullcontext)():
        bench.evaluates = IN_EVALUATIONS.get(name)
        bench.train(2)
        bench.switchboard.switch(plan_of(name), prepare=True)
        bench.train(_STEPS)
        over = (bench.model, next(bench.model.parameters()), bench.optimizer)
        refs = {type(one).__name__: weakref.ref(one) for one in over}
        del over
        bench.begin()
        bench.steps.clear()
        gc.collect()
        kept = [kind for kind, ref in refs.items() if ref() is not None]
        assert not kept, f"{name} keeps what the script has dropped: {', '.join(kept)}"
        bench.switchboard.switch(BASELINE)


def check_checkpoints_look_the_same(bench: Workbench, plan: Plan) -> None:
    """Checkpoints saved while the plan is in force have the same keys, shapes and flags as without hasten."""
    bench.train(2)
    plain_model, plain_optimizer = map(
        copy.deepcopy, (bench.model.state_dict(), bench.optimizer.state_dict())
    )
    bench.switchboard.switch(plan)
    bench.train(1)
    model, optimizer = bench.model.state_dict(), bench.optimizer.state_dict()
    assert [(k, v.shape, v.dtype) for k, v in model.items()] == [
        (k, v.shape, v.dtype) for k, v in plain_model.items()
    ]
    assert optimizer["param_groups"] == plain_optimizer["param_groups"]
    assert optimizer["state"].keys() == plain_optimizer["state"].keys()
    torch.save(bench.model, io.BytesIO())
    copy.deepcopy(bench.model)(torch.zeros(1, 3, 8, 8, device=bench.device))
    bench.switchboard.switch(BASELINE)


def bench_of(name: str, device: str) -> AbstractContextManager[Workbench]:
    """A training in which the technique has something to do."""
    return BENCHES[name](device) if name in BENCHES else workbench(device=device)


def trained_from_the_start(bench: Workbench, plan: Plan) -> tuple[list[float], dict[str, object]]:
    """Losses and bits of a training whose process started under the plan's techniques of process scope.

    For exact techniques both equal the baseline's, and so does the final RNG state. The proof must hold.
    """
    bench.switchboard.start(plan)
    bench.switchboard.switch(plan)
    for proof in bench.switchboard.proofs():
        assert not proof.effective, f"{proof.technique} claims an effect before any step: {proof.evidence}"
    torch.manual_seed(5)
    losses = bench.train(2 * _STEPS)
    for proof in bench.switchboard.proofs():
        assert proof.effective, f"{proof.technique}: {proof.evidence}"
    return losses, bench.bits()


CATALOG_SETTINGS: dict[str, Settings] = {
    "threads": {"count": 1},
    "loader_workers": {"count": 1},
    "matmul_precision": {"precision": "medium", "convolutions": True},
    "compile": {"backend": "aot_eager"},  # without kernels: compiling those takes half a minute
}
"""Settings for techniques that cannot do without."""


def channels_last_cnn() -> torch.nn.Module:
    return pooled_cnn().to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


BENCHES: dict[str, Callable[[str], AbstractContextManager[Workbench]]] = {
    "fast_pooling": lambda device: workbench(make_model=channels_last_cnn, device=device),
    "matmul_convolutions": lambda device: workbench(make_model=patch_cnn, device=device),
    "pad_trim": lambda device: workbench(PaddedTexts(), make_model=TextClassifier, device=device),
    "batched_to_tensor": lambda device: workbench(BytePictures(), device=device),
    "uint8_transfer": lambda device: workbench(BytePictures(), device=device),
}
"""Trainings for techniques that have nothing to do in the usual one."""

CIRCUMSTANCES: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "debugging_off": lambda: torch.autograd.set_detect_anomaly(True)
}
"""Contexts for techniques that have nothing to do outside of them."""

IN_EVALUATIONS: dict[str, Context] = {
    "graph_free_evaluation": nullcontext,
    "evaluation_bf16": torch.no_grad,
    "evaluation_in_ram": torch.no_grad,
}
"""Techniques that act only in evaluations, and the context in which the script evaluates for them."""


def plan_of(*names: str) -> Plan:
    """The plan of these techniques, with the settings that the contract tests them with."""
    return Plan({name: CATALOG_SETTINGS.get(name, {}) for name in names})


def live_on(kind: str) -> list[str]:
    """Techniques that can be switched during a training on devices of a kind ("cpu", "cuda").

    What this machine has plays no role: flags can be set and reset even if the processor lacks instructions.
    """
    return [
        name
        for name, technique in CATALOG.items()
        if technique.scope == "live" and kind in (technique.devices or {kind})
    ]


def pairs_of(names: list[str]) -> list[tuple[str, str]]:
    """Every ordered pair of techniques that do not exclude each other."""
    return [(a, b) for a, b in permutations(names, 2) if within(plan_of(a, b)) is None]


LIVE = live_on("cpu")
"""Techniques that can be switched during a training on a CPU. The others have tests of their own."""

PAIRS = pairs_of(LIVE)

STARTED = [
    name
    for name, technique in CATALOG.items()
    if technique.layer == "data" and technique.start is not Technique.start
    if name not in IN_EVALUATIONS and technique.risk == "exact"
]
"""Exact techniques that take effect when a process starts and end when its seams are undone. Those of the
environment (thread pools, affinity) cannot be undone, so their tests start processes of their own.
"""


def _same(before: dict[str, object], after: dict[str, object]) -> None:
    different = [key for key in before if before[key] != after.get(key)]
    assert not different, f"left a trace in {different}"
    assert before.keys() == after.keys()
