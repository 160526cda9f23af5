"""What becomes of a script with several ranks: rehearsed, then trained by them and by one process."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from hasten.bench.rehearsal import rehearse
from hasten.bench.stage import Stage
from hasten.bench.trials import Trials
from hasten.inside.distributed.parting import EXIT_CODE
from hasten.launch.ranks_of_plan import Wish
from hasten.machine import this_machine
from hasten.records.machine import Machine

from .forked import train_forked, workers_forked
from .outcomes import EQUAL, REFUSED, STOPPED, Shape
from .trainings import apart, told, write


@dataclass(frozen=True)
class Became:
    """``what``: "equal", "refused", "stopped" or "different". ``apart``: the largest difference of what was
    trained, and told, to one process; 0 if nothing was trained to its end.
    """

    what: str
    reason: str = ""
    apart: float = 0.0


def became(shape: Shape, folder: Path, environment: Mapping[str, str], size: int = 2) -> Became:
    """Call it in ``folder``, which is the script's."""
    script = write(folder, shape.source)
    stage = Stage(
        argv=(str(script),), machine=_with_cpus(size), environment=dict(environment), folders=(str(folder),),
    )  # fmt: skip
    with workers_forked(), Trials(stage, folder / "trials") as trials:
        found = rehearse(trials, Wish(size))
    if found.refusals:
        return Became(REFUSED, found.refusals[0])
    alone = told(train_forked(folder / "alone", shape.source, 0)[0])
    ranks = train_forked(folder / "ranks", shape.source, size, found)
    if all(one.code == EXIT_CODE for one in ranks):
        said = re.search(r"come apart:? (.*)", ranks[0].stderr)
        return Became(STOPPED, said[1] if said else ranks[0].stderr)
    if any(one.code for one in ranks):
        return Became("different", f"ended with {[one.code for one in ranks]}: {ranks[0].stderr[-500:]}")
    far = max(apart(told(one)[key], alone[key]) for one in ranks for key in alone)
    return Became(EQUAL if far < 1e-9 else "different", "", far)


def _with_cpus(count: int) -> Machine:
    """This machine, said to have at least ``count``: more ranks than cores compute the same, only slower."""
    here = this_machine()
    cores = (here.cores * count)[: max(count, len(here.cores))]
    return replace(here, cores=cores, physical_cores=len(cores), logical_cpus=max(count, here.logical_cpus))
