"""All techniques, and which of them apply here."""

from __future__ import annotations

from dataclasses import dataclass

from .plan import Settings


@dataclass(frozen=True)
class Entry:
    """One technique. ``options``: what would be tried here, most promising first; unknown without a script,
    and what is known of the machine alone may be too little to refuse it.
    """

    name: str
    summary: str
    layer: str
    risk: str
    scope: str
    reasons: tuple[str, ...]  # why it does not apply; empty if it does
    options: tuple[Settings, ...] = ()


@dataclass(frozen=True)
class Listing:
    """All techniques, in the catalogue's order. ``script``: the script they were checked for; "" for none.
    ``obstacles``: why it cannot be tuned at all, for which each entry has one short reason.
    """

    script: str
    machine: str
    entries: tuple[Entry, ...]
    obstacles: tuple[str, ...] = ()
