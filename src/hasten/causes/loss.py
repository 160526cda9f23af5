"""The loss takes longer than the model."""

from __future__ import annotations

from ..records.cause import Cause
from ..records.facts import Facts
from ..records.phases import median_phases

_LEAST_SHARE = 0.20


def look(facts: Facts) -> Cause | None:
    share = loss_share(facts)
    if not share:
        return None
    evidence = (
        f"{share:.0%} of a step goes to what runs between forward and backward pass, and to its gradients: "
        "the loss, and whatever else is computed there. It takes longer than the model's forward pass"
    )
    return Cause("loss", share, evidence, ("compile",))


def loss_share(facts: Facts) -> float:
    """Share of a step, if the loss takes longer than the model's forward pass; otherwise 0.

    A model's backward pass takes about twice its forward pass, and at least as long; the rest is the loss.
    """
    phases = median_phases(facts.observation)
    step = sum(phases.values())
    loss, forward, backward = (phases.get(name, 0.0) for name in ("loss", "forward", "backward"))
    if not step or loss / step < _LEAST_SHARE or loss <= forward:
        return 0.0
    return (loss + max(0.0, backward - forward)) / step
