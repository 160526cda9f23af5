"""The step computes: forward, loss and backward."""

from __future__ import annotations

from ..records.cause import Cause
from ..records.facts import Facts
from ..records.phases import phase_share

_LEAST_SHARE = 0.10


def look(facts: Facts) -> Cause | None:
    share = phase_share(facts.observation, "forward", "loss", "backward")
    if share < _LEAST_SHARE:
        return None
    dtypes = sorted({dtype for root in facts.observation.roots for dtype in root.dtypes})
    evidence = (
        f"{share:.0%} of a step is forward, loss and backward, in {', '.join(dtypes) or 'unknown precision'}"
    )
    return Cause("compute", share, evidence, ("bf16", "channels_last", "compile", "malloc"))
