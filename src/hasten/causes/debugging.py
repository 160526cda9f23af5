"""Something for debugging was left on."""

from __future__ import annotations

from ..records.cause import Cause
from ..records.facts import Facts


def look(facts: Facts) -> Cause | None:
    found = facts.observation.leftovers
    if not found:
        return None
    named = ", ".join(f"{item.name} ({item.where})" if item.where else item.name for item in found)
    techniques = ("debugging_off",) if any(item.removable for item in found) else ()
    return Cause("debugging", 1.0, f"left on while training: {named}", techniques)
