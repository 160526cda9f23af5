"""The step updates parameters one tensor, or one small group, at a time."""

from __future__ import annotations

from ..records.cause import Cause
from ..records.facts import Facts
from ..records.phases import phase_share

_LEAST_SHARE = 0.03
_MANY_GROUPS = 8


def look(facts: Facts) -> Cause | None:
    optimizers = facts.observation.stepping
    share = phase_share(facts.observation, "optimizer")
    apart = max((o.groups for o in optimizers if o.distinct_groups < o.groups >= _MANY_GROUPS), default=0)
    all_fused = all(optimizer.fused for optimizer in optimizers)
    if share < _LEAST_SHARE or (all_fused and not apart):
        return None
    names = ", ".join(sorted({optimizer.name for optimizer in optimizers}))
    could_be = any(optimizer.can_fuse or optimizer.can_foreach for optimizer in optimizers)
    how = ["fused"] if all_fused else ["not fused"] if could_be else []
    if apart:
        how.append(f"in {apart} parameter groups")
    techniques = (*(() if all_fused else ("fused_optimizer",)), *(("merge_groups",) if apart else ()))
    evidence = ", ".join([f"{share:.0%} of a step is the update by {names}", *how])
    return Cause("optimizer", share, evidence, techniques)
