"""torch uses more threads than this machine lets run at once."""

from __future__ import annotations

from ..records.cause import Cause
from ..records.facts import Facts


def look(facts: Facts) -> Cause | None:
    threads, usable = facts.observation.threads, facts.machine.usable_cpus
    if not facts.on_cpu or threads <= usable:
        return None
    return Cause("threads", 1.0, f"torch uses {threads} threads where {usable} can run at once", ("threads",))
