"""A space of plans that is small enough to time every one of them: what of it applies to a script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from hasten.inside.techniques.catalog import CATALOG
from hasten.records.facts import Facts
from hasten.records.plan import BASELINE, Plan, Settings

SWITCHES = ("malloc", "bf16", "channels_last", "fused_optimizer")
WORKERS = (0, 1, 2)  # processes that make samples
TECHNIQUES = ("threads", *SWITCHES, "dataset_in_ram", "loader_workers")
EVALUATION = ("evaluation_in_ram", "evaluation_bf16")  # no step shows what these do, only a whole run

Axes = Mapping[str, Sequence[Plan]]
"""What is chosen independently of each other: the ways of each, the first as the script has it."""


def space_for(facts: Facts, whole: bool = False) -> Axes:
    """Nothing that the techniques themselves refuse. ``dataset_in_ram`` and ``loader_workers`` exclude each
    other, so they are ways of one choice. ``whole``: with what is done to evaluations.
    """
    axes = {
        name: _ways(name, CATALOG[name].options(facts)[:1], facts) for name in SWITCHES if _fits(name, facts)
    }
    axes["threads"] = _ways("threads", _counts_of_threads(facts), facts)
    axes["samples"] = [
        *_ways("dataset_in_ram", [{}], facts),
        *_ways("loader_workers", _counts_of_workers(facts), facts)[1:],
    ]
    if whole:
        axes["evaluation"] = _ways_together(EVALUATION, facts)
    return {name: ways for name, ways in axes.items() if len(ways) > 1}


def plans_of(axes: Axes) -> list[Plan]:
    """All of them, the baseline first."""
    return [together(ways) for ways in product(*axes.values())]


def together(ways: Sequence[Plan]) -> Plan:
    """One way of each axis."""
    return Plan({name: settings for way in ways for name, settings in way.techniques.items()})


def to_json(axes: Axes) -> dict[str, Any]:
    return {name: [way.to_json() for way in ways] for name, ways in axes.items()}


def from_json(data: Mapping[str, Any]) -> dict[str, list[Plan]]:
    return {name: [Plan.from_json(way) for way in ways] for name, ways in data.items()}


def _fits(name: str, facts: Facts) -> bool:
    return not CATALOG[name].refuse(facts)


def _ways(name: str, settings: Sequence[Settings], facts: Facts) -> list[Plan]:
    """Without the technique, and with it."""
    return [BASELINE, *(Plan({name: how}) for how in settings if _fits(name, facts))]


def _ways_together(names: Sequence[str], facts: Facts) -> list[Plan]:
    """Without them, with the first, with the first two and so on."""
    fitting = [name for name in names if _fits(name, facts)]
    return [Plan({name: {} for name in fitting[:count]}) for count in range(len(fitting) + 1)]


def _counts_of_threads(facts: Facts) -> list[Settings]:
    """From one to one a core, without the script's own number."""
    counts = range(1, facts.machine.usable_cpus + 1)
    return [{"count": count} for count in counts if count != facts.observation.threads]


def _counts_of_workers(facts: Facts) -> list[Settings]:
    """As ``loader_workers`` has them, without the script's own number."""
    own = max((loader.workers for loader in facts.observation.loaders if loader.training), default=0)
    kept: Settings = {"prefetch_factor": 2, "persistent_workers": True}
    return [{"count": count, **(kept if count else {})} for count in WORKERS if count != own]
