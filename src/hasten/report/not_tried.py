"""What a tune did not try, the shortest way that says what a person can do about it.

What only needs time or a word of the user's has its reason and that word. Of what cannot gain anything here,
or does not apply, there are dozens: these are names, and ``hasten techniques`` has the reasons.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from ..records.result import Refused
from ..units import counted
from .console import COMMAND
from .reasons import why_not_words

Group = Literal["kept", "again", "time", "choice", "plan", "small", "never", "others"]

_HEADINGS: dict[Group, str] = {
    "time": "Not tried, for want of time:",
    "choice": "Not tried unless you ask for it:",
    "plan": "Not in combination with this plan:",
}
_TIME = {"no time", "not worth a look", "not seen", "no time for stretches"}
_CHOICE = {"risk", "by name", "only the start"}
_SMALL = {"small part", "small phases"}


def not_tried_lines(refused: Sequence[Refused], script: str, tried: Collection[str] = ()) -> list[str]:
    """Techniques with the same reason share a line; those in the plan come last. ``script``: what follows
    ``hasten techniques`` for it, arguments included. ``tried``: what does not apply alone, and was tried with
    something else.
    """
    groups: dict[Group, list[Refused]] = {}
    for row in refused:
        group = _group_of(row)
        if group != "never" or row.technique not in tried:
            groups.setdefault(group, []).append(row)
    lines: list[str] = []
    for group, heading in _HEADINGS.items():
        if group in groups:
            lines += [f"\n{heading}", *_with_reasons(groups[group])]
    if rows := groups.get("small"):
        lines.append(f"\nCannot gain 2% of this run: {_names(rows)}.")
    if rows := groups.get("never"):
        lines += [f"\nDo not apply here: {_names(rows)}. To see why:", f"{COMMAND}techniques {script}"]
    if rows := groups.get("others"):
        lines.append(f"\nNot tried, as --only names others: {counted(len(rows), 'technique')}.")
    if rows := groups.get("again"):
        lines.append(f"\nIn the plan again, as it was measured before the start was shorter: {_names(rows)}.")
    if rows := groups.get("kept"):
        lines.append(f"\nIn the plan, not measured again in combination with the others: {_names(rows)}.")
        lines.append("  The rest of the budget was for checking and confirming it.")
    return lines


def _group_of(row: Refused) -> Group:
    codes = {why.code for why in row.reasons}
    if "no time in combination" in codes:
        return "kept"
    if "before the start" in codes:
        return "again"
    if "not named" in codes:
        return "others"
    if "said" in codes:
        return "never"
    if codes & _SMALL:
        return "small"
    if codes & _CHOICE:
        return "choice"
    return "time" if codes & _TIME else "plan"


def _with_reasons(rows: Iterable[Refused]) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        by_reason.setdefault("; ".join(map(why_not_words, row.reasons)), []).append(row.technique)
    return [f"  {', '.join(names)}: {reason}" for reason, names in by_reason.items()]


def _names(rows: Iterable[Refused]) -> str:
    return ", ".join(row.technique for row in rows)
