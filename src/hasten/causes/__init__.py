"""Why time is lost: each cause has its evidence and names the techniques it suggests. One cause a file."""

from __future__ import annotations

from ..records.cause import Cause
from ..records.facts import Facts
from . import compute, copies, debugging, input, optimizer, threads, waiting

_ALL = (*(input.look, copies.look, compute.look, optimizer.look, threads.look, debugging.look, waiting.look),)


def find_causes(facts: Facts) -> list[Cause]:
    """The causes that the observation supports, the costliest first."""
    found = [cause for look in _ALL if (cause := look(facts)) is not None]
    return sorted(found, key=lambda cause: -cause.share)
