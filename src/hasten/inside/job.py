"""What a worker is told when it starts: one JSON object in an environment variable of our own."""

from __future__ import annotations

from dataclasses import dataclass

from ..records.machine import Machine
from ..records.plan import BASELINE, Plan

VARIABLE = "HASTEN_JOB"


@dataclass(frozen=True)
class Shield:
    """Folders to protect, where to put their layers, and layers kept from an earlier worker."""

    folders: tuple[str, ...]
    layers: str
    prelude: tuple[str, ...] = ()
    required: bool = True  # then writes are denied where they cannot be led elsewhere, or no script starts


@dataclass(frozen=True)
class Perturbation:
    """Noise added to a baseline, as large as a plan's rounding: ``relative`` to what each layer computes."""

    relative: float
    redraw: bool = False  # other random numbers than the baseline's, from the first step on
    seed: int = 0


@dataclass(frozen=True)
class Job:
    """``plan`` is in force from the first step on; whoever converses with the worker may switch it later."""

    argv: tuple[str, ...]
    machine: Machine
    plan: Plan = BASELINE
    descriptor: int | None = None  # the worker's end of the conversation
    shield: Shield | None = None
    seed: int | None = None  # for torch, random and numpy, before the script starts
    witness: bool = False  # record what the guard compares
    perturbation: Perturbation | None = None
    strict: bool = False  # a technique that does not apply ends the run
    module: bool = False  # argv[0] names a module, as with python -m
    closely: bool = False  # time the lines at which steps stand still, and phases on the GPU itself
    whole: bool = False  # train to the end as `hasten run` does, and give an account of it only then
