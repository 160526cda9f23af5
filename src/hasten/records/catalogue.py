"""The techniques there are, and which of them apply here."""

from __future__ import annotations

from dataclasses import dataclass

from .plan import Settings


@dataclass(frozen=True)
class Entry:
    """One technique. ``options``: what would be tried here, the most promising first; without a script
    nobody knows them, and what is seen of the machine alone may still be too little to refuse it.
    """

    name: str
    summary: str
    layer: str
    risk: str
    scope: str
    reasons: tuple[str, ...]  # why it does not apply; empty where nothing speaks against it
    options: tuple[Settings, ...] = ()


@dataclass(frozen=True)
class Listing:
    """All techniques, in the catalogue's order. ``script``: whom they were asked about; "" for nobody."""

    script: str
    machine: str
    entries: tuple[Entry, ...]
