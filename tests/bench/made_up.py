"""Records made up for tests: each function gives a plausible one, and takes what a test is about."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from hasten.bench.comparing.statistics import interval
from hasten.inside.techniques.base import Technique
from hasten.records.comparison import LossCurve
from hasten.records.facts import Facts
from hasten.records.machine import Machine
from hasten.records.observation import PHASES, Loader, Observation, Optimizer, Root, Step
from hasten.records.plan import BASELINE, Plan
from hasten.records.trial import Trial
from hasten.records.verdict import GuardVerdict
from hasten.records.whole_run import PARTS, Part, WatchedRun
from hasten.tuning.candidate import Candidate

PRECISIONS = ("float32", "bfloat16")
"""The finest, and the coarsest under which planted faults must be caught: float8's rounding is as large as
some of them.
"""


USUAL = {"data": 0.25, "forward": 0.08, "loss": 0.02, "backward": 0.1, "optimizer": 0.1}
"""Shares of a step."""


def step(
    seconds: float = 0.01,
    *,
    samples: int | None = 8,
    inputs: int | None = None,
    evaluations: int = 0,
    restarts: int = 0,
    saves: int = 0,
    losses: tuple[float, ...] = (1.0,),
    signature: tuple[int, int, int] = (0, 1, 1),
    shares: Mapping[str, float] | None = None,
    elements: int | None = None,
    last_batches: bool = False,
) -> Step:
    """``shares``: the parts of the step's time by phase; what is left is "other"."""
    parts = dict(USUAL if shares is None else shares)
    phases = {name: seconds * parts.get(name, 0.0) for name in PHASES}
    phases["other"] += seconds * (1 - sum(parts.values()))
    return Step(
        seconds,
        samples,
        evaluations,
        restarts,
        phases,
        losses,
        signature,
        inputs,
        elements,
        saves=saves,
        last_batches=last_batches,
    )


def machine(**changes: Any) -> Machine:
    usual = Machine(
        system="Linux",
        architecture="x86_64",
        cpu_model="Pencil and Paper 9000",
        logical_cpus=4,
        physical_cores=4,
        quota_cpus=None,
        memory_bytes=16 * 2**30,
        available_bytes=12 * 2**30,
        cpu_flags=("avx2", "avx512_bf16"),
        libc="glibc 2.36",
        python="3.11.7",
    )
    return dataclasses.replace(usual, **changes)


def root(**changes: Any) -> Root:
    usual = Root(
        name="__main__.Net",
        parameters=1000,
        dtypes=("float32",),
        devices=("cpu",),
        convolutions=2,
        batch_norm=False,
        dropout=False,
    )
    return dataclasses.replace(usual, **changes)


def loader(**changes: Any) -> Loader:
    usual = Loader(
        dataset="Pictures",
        samples=64,
        batch_size=8,
        workers=0,
        iterable=False,
        pin_memory=False,
        training=True,
        default_fetch=True,
        sample_bytes=800,
    )
    return dataclasses.replace(usual, **changes)


def optimizer(**changes: Any) -> Optimizer:
    return dataclasses.replace(
        Optimizer("Adam", 1000, fused=False, can_fuse=True, devices=("cpu",)), **changes
    )


def observation(**changes: Any) -> Observation:
    usual = Observation(
        steps=tuple(step() for _ in range(30)),
        warmup_steps=11,
        cycle=1,
        roots=(root(),),
        loaders=(loader(),),
        optimizers=(optimizer(),),
        batch_size=8,
        threads=4,
        torch="2.13.0",
        start_seconds=2.0,
        padding=0.0,
    )
    return dataclasses.replace(usual, **changes)


def watched_run(
    seconds: Mapping[str, float] | None = None, ended: bool = False, epochs: int = 0, **more: float
) -> WatchedRun:
    """A run whose parts took so long: ``seconds`` by name, and ``more``; ``epochs`` of it are whole."""
    times = {**(seconds or {}), **more}
    parts = tuple(Part(name, times.get(name, 0.0), 2 * (name in times)) for name in PARTS)
    whole = tuple(dataclasses.replace(p, seconds=0.0, count=0) if p.name == "start" else p for p in parts)
    return WatchedRun(sum(times.values()), ended, parts, epochs, 100, whole if epochs else ())


def facts(machine_changes: Mapping[str, Any] | None = None, **observation_changes: Any) -> Facts:
    return Facts(machine(**(machine_changes or {})), observation(**observation_changes))


def trial(ratios: Sequence[float], b: Plan, a: Plan = BASELINE, method: str = "pairs", **more: Any) -> Trial:
    """A trial whose units came out with these ratios."""
    log_ratios = tuple(math.log(ratio) for ratio in ratios)
    usual: dict[str, Any] = {
        "ratio": None if more.get("failure") else interval(log_ratios, "pairs"),
        "step_seconds_a": 0.01,
        "step_seconds_b": 0.008,
        "seconds": 1.0,
    }
    return Trial(a=a, b=b, method=method, log_ratios=log_ratios, **{**usual, **more})


def verdict(passed: bool = True) -> GuardVerdict:
    curve = LossCurve(passed, 0.0 if passed else 0.5, 0.0, 0.1, "float32")
    return GuardVerdict("held" if passed else "not held", 120, loss_curve=curve)


def unchecked(why_not: str, failure: str = "the script's process was killed", **more: Any) -> GuardVerdict:
    return GuardVerdict("not checked", why_not=why_not, failure=failure, **more)


def technique(
    name: str, conflicts: Sequence[str] = (), steadies: bool = False, jointly: bool = False
) -> type[Technique]:
    """A technique that exists by its name only."""
    attributes = {
        "name": name,
        "conflicts": dict.fromkeys(conflicts, "they are rivals"),
        "steadies": steadies,
        "jointly": jointly,
        "scope": "live",
    }
    return type(name, (Technique,), attributes)


def candidate(
    name: str, conflicts: Sequence[str] = (), steadies: bool = False, jointly: bool = False
) -> Candidate:
    return Candidate(technique(name, conflicts, steadies, jointly), [{}])
