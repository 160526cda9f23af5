"""The step computes: forward, loss and backward.

Padding in that is a cause of its own (``padding``), and its time is not reported twice: if half or more of
the computation is padding, leaving it out gains more than computing all of it faster. The same holds for
what idle cores could do (``threads``) and for float64. If operators are so small that most of the time goes
to calling them, all of it is reported as that (``overhead``); a loss that takes longer than the model is
reported as ``loss``.
"""

from __future__ import annotations

from ..records.cause import Cause
from ..records.facts import Facts
from ..records.observation import Observation
from ..records.operators import small_operators
from ..records.phases import phase_share
from .double_precision import spared
from .loss import loss_share
from .padding import padded_share
from .threads import idle_share

_LEAST_SHARE = 0.10
_TECHNIQUES = ("matmul_convolutions", "bf16", "channels_last", "fast_pooling", "compile", "malloc")


def look(facts: Facts) -> Cause | None:
    share = phase_share(facts.observation, "forward", "loss", "backward") - loss_share(facts)
    if share < _LEAST_SHARE or small_operators(facts):
        return None
    evidence = f"{share:.0%} of a step is forward, loss and backward{_precision(facts.observation)}"
    useful = share * (1 - padded_share(facts)) * (1 - idle_share(facts)) * (1 - spared(facts))
    return Cause("compute", useful, evidence, _TECHNIQUES)


def _precision(observation: Observation) -> str:
    """The precision of what runs: parameters may be kept in another. "" if no module is known."""
    if observation.autocast:
        return f", in {', '.join(sorted(observation.autocast))} (autocast by the script)"
    dtypes = sorted({dtype for root in observation.roots for dtype in root.dtypes})
    return f", in {', '.join(dtypes)}" if dtypes else ""
