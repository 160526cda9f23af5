"""The list of techniques, for people."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from ..records.technique_list import Entry, Listing
from ..saying import visible
from .words import technique_words

if TYPE_CHECKING:
    from rich.console import Console

_RISKS = {
    "exact": "same mathematics and random draws; only rounding may differ",
    "draws": "different random numbers from the same distribution",
    "close": "lower precision",
    "training": "changes the training itself",
}
_SCOPES = {
    "live": "switched within one training",
    "process": "needs a new process",
    "launch": "changes the number of processes",
}


def print_techniques(listing: Listing, console: Console) -> None:
    """What keeps all of them from a script. Then layer by layer: what each technique does, and whether it
    applies here or why not.
    """
    from rich.table import Table
    from rich.text import Text

    for obstacle in listing.obstacles:
        console.print(f"cannot be tuned: {obstacle}")
    for layer, entries in groupby(sorted(listing.entries, key=_layer), key=_layer):
        console.print(f"\n{layer} layer", style="bold")
        table = Table(box=None, pad_edge=False)
        for heading in ("technique", "risk", "scope"):
            table.add_column(heading, no_wrap=True)
        table.add_column("what it does; does it apply here?")
        for entry in entries:
            words = Text(visible(entry.summary))
            answer = visible(_answer(entry, bool(listing.script)))
            words.append(f"\n{answer}", style="dim" if entry.reasons else "green")
            table.add_row(entry.name, entry.risk, entry.scope, words)
        console.print(table)
    console.print()
    for heading, meanings in (("risk", _RISKS), ("scope", _SCOPES)):
        console.print(f"{heading}: {'; '.join(f'{name}: {meaning}' for name, meaning in meanings.items())}")
    if not listing.script:
        console.print("Name a script to see what applies to it: hasten techniques train.py")


def _layer(entry: Entry) -> str:
    return entry.layer


def _answer(entry: Entry, for_script: bool) -> str:
    if entry.reasons:
        return f"no: {'; '.join(entry.reasons)}"
    if not for_script:
        return "nothing on this machine rules it out"
    options = [technique_words("", settings).strip(" ()") for settings in entry.options if settings]
    return f"applies: {' | '.join(options)}" if options else "applies"
