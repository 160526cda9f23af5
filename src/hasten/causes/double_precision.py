"""The step computes in float64, which NumPy uses by default."""

from __future__ import annotations

from ..records.cause import Cause
from ..records.facts import Facts
from ..records.phases import phase_share

_LEAST_SHARE = 0.05
_ADVICE = (
    "If nothing needs it, leave out .double() or torch.set_default_dtype(torch.float64), and convert NumPy's "
    "arrays with .float()"
)
_GAIN_ON_CPU = 0.5  # half the bytes, and twice the numbers in each instruction


def look(facts: Facts) -> Cause | None:
    share = phase_share(facts.observation, "forward", "loss", "backward", "optimizer") * spared(facts)
    if share < _LEAST_SHARE:
        return None
    evidence = f"parameters are float64: in float32 a step would be at most {share:.0%} shorter"
    return Cause("float64", share, evidence, (), advice=_ADVICE)


def spared(facts: Facts) -> float:
    """The largest share of the computation that float32 could save: on a GPU float64 may be very slow."""
    observation = facts.observation
    double = [root for root in observation.roots if set(root.dtypes) == {"float64"}]
    if not double or observation.autocast or len(double) < len(observation.roots):
        return 0.0
    return _GAIN_ON_CPU if facts.on_cpu else 1.0


def converted(facts: Facts) -> str:
    """What to do about batches in float64 that a model in another type gets, as a sentence; "" of none."""
    seen = facts.observation
    names = dict.fromkeys(loader.dataset for loader in seen.training_loaders if loader.float64)
    if not (names and seen.roots) or any("float64" in root.dtypes for root in seen.roots):
        return ""
    return (
        f"Batches of {' and '.join(names)} are in float64, and what is trained is not: make the samples in "
        "float32, so that no step converts them, and loaders move half as many bytes"
    )
