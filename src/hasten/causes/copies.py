"""Batches are copied to the device while the step waits."""

from __future__ import annotations

from ..records.cause import Cause
from ..records.facts import Facts
from ..records.observation import COPIES
from .waiting import standing_still


def look(facts: Facts) -> Cause | None:
    share, lines = standing_still(facts, lambda wait: wait.what in COPIES)
    if not lines:
        return None
    evidence = f"a step waits {share:.0%} of its time for copies to the device: {lines}"
    return Cause("copies", share, evidence, ("pin_memory", "device_prefetch", "uint8_transfer"))
