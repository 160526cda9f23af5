"""What a run may try: first what is set up at once, then the most promising; nothing that could change the
training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...records.facts import Facts
from ...records.observation import Step
from ...records.phases import usual_phases
from ...records.plan import Plan, Settings
from ...records.run_tuning import RunTuning
from ...records.thresholds import LEAST_SHARE
from ..techniques.base import Technique
from ..techniques.catalog import CATALOG

_SETTINGS = 2  # of a technique
_PROOF_SECONDS = 1.0
_SLOW_SECONDS = 60.0  # what the set-up of a technique may take that is slow to set up (it compiles)


@dataclass(frozen=True)
class Trying:
    """A technique to try. Its ``settings`` are tried in this order; set-up may take ``setup_seconds``."""

    technique: type[Technique]
    settings: Sequence[Settings]
    setup_seconds: float

    def rest(self) -> list[Trying]:
        """The same with the remaining settings; [] if there are none."""
        return [replace(self, settings=self.settings[1:])] if len(self.settings) > 1 else []


def promising(facts: Facts, tuning: RunTuning, plan: Plan) -> list[Trying]:
    """Techniques that may be added to ``plan``: of live scope, for steps, and exact here or with settings
    that the guard has passed. The phases that they shorten must take at least 1% of a step.
    """
    found: list[tuple[float, float, int, Trying]] = []
    shares = _shares(facts.observation.steps, facts.observation.cycle)
    for name, technique in CATALOG.items():
        settings = _settings(technique, facts, tuning) if name not in plan.techniques else []
        if not settings:
            continue
        share = sum(shares.get(phase, 0.0) for phase in technique.phases)
        if facts.on_cpu and technique.phases and shares and share < LEAST_SHARE:
            continue
        trying = Trying(technique, settings[:_SETTINGS], _setup_seconds(technique, facts))
        found.append((trying.setup_seconds, -share, len(found), trying))
    return [trying for *_, trying in sorted(found, key=lambda row: row[:3])]


def _settings(technique: type[Technique], facts: Facts, tuning: RunTuning) -> list[Settings]:
    if technique.scope != "live" or technique.parts != ("steps",) or technique.refuse(facts):
        return []
    passed = tuning.passed.techniques.get(technique.name)
    if passed is not None:
        return [passed]
    if technique.not_tried:
        return []
    return [one for one in technique.options(facts) if technique.risk_of(one, facts) == "exact"]


def _setup_seconds(technique: type[Technique], facts: Facts) -> float:
    """Estimated: for a cache of samples, an epoch's waits for data, at least 1 s; to compile, a minute."""
    if technique.slow_to_set_up:
        return _SLOW_SECONDS
    if not technique.needs_samples:
        return 0.0
    seen = facts.observation
    steps = seen.run.epoch_steps if seen.run is not None else None
    sizes = [loader.samples for loader in seen.training_loaders if loader.samples]
    each = max((step.samples or 0 for step in seen.steps), default=0)
    if steps is None and sizes and each:
        steps = max(sizes) // each
    waited = sum(step.phases.get("data", 0.0) for step in seen.steps) / max(1, len(seen.steps))
    return max(_PROOF_SECONDS, waited * steps) if steps is not None else _SLOW_SECONDS


def _shares(steps: Sequence[Step], cycle: int) -> Mapping[str, float]:
    """The share of a step for each phase: in a usual step, or in all steps if that is more."""
    seconds, usual = sum(step.seconds for step in steps), usual_phases(steps, cycle)
    whole = sum(usual.values())
    if not (seconds and whole):
        return {}
    return {name: max(sum(s.phases[name] for s in steps) / seconds, usual[name] / whole) for name in usual}
