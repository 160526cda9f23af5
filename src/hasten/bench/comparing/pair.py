"""The results of a pair's two processes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...records.run_forecast import SeenProcess
from ...records.trial import Proof
from .decisions import lost_at_once


@dataclass(frozen=True)
class Pair:
    """``lasting_seconds``: the time to make what b finds and a does not, whichever process made it.
    ``setups_seconds``: set-up of both, including that if they made it.
    """

    log_ratio: float
    step_seconds_a: float
    step_seconds_b: float
    sample_seconds_b: float
    proofs: tuple[Proof, ...]
    lasting_seconds: float
    setups_seconds: float
    a: SeenProcess
    b: SeenProcess

    @property
    def setup_seconds(self) -> float:
        """Set-up that b needs and a does not, in each new process."""
        return max(0.0, self.b.setup_seconds - self.a.setup_seconds)


def lasting_seconds(proofs: Sequence[Proof]) -> float:
    """Lasting set-up of all techniques together."""
    return sum(proof.lasting_seconds for proof in proofs)


def why_lost_at_once(done: Sequence[Pair]) -> str:
    """Why there is no second pair, if the first was enough; "" otherwise."""
    log_ratios = [pair.log_ratio for pair in done]
    if not lost_at_once(log_ratios):
        return ""
    return f"{math.exp(log_ratios[0]):.2f} times slower in its first pair of processes, which was enough"
