"""The step computes on padding."""

from __future__ import annotations

from ..records.cause import Cause
from ..records.facts import Facts
from ..records.phases import phase_share

_LEAST_SHARE = 0.05


def look(facts: Facts) -> Cause | None:
    padding = padded_share(facts)
    if not padding:
        return None
    share = padding * phase_share(facts.observation, "forward", "loss", "backward")
    evidence = (
        f"{padding:.0%} of the model's computation is padding: these columns of a batch are padding in all "
        "of its sequences"
    )
    return Cause("padding", share, evidence, ("pad_trim",))


def padded_share(facts: Facts) -> float:
    """Share of the model's computation; 0 if there is hardly any, or if it is not known."""
    padding = facts.observation.padding or 0.0
    return padding if padding >= _LEAST_SHARE else 0.0
