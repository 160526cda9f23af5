"""A plan as ordinary PyTorch code: what a person would write to have the same without hasten."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..inside.techniques.catalog import CATALOG
from ..records.plan import Plan, Settings
from ..saying import visible
from .files import of_what


def as_code(plan: Plan, label: str, made_for: Mapping[str, Any], measured: Mapping[str, Any]) -> str:
    """The plan of the script ``label``: for each technique a comment and a few lines of code or shell, in
    the order of adoption. For people to copy from, not a program. ``made_for`` and ``measured``: as in the
    plan's file, where they may be empty.
    """
    parts = [_part(name, settings) for name, settings in plan.techniques.items()]
    return "\n\n".join([_head(label, made_for, measured), *parts]) + "\n"


def _head(label: str, made_for: Mapping[str, Any], measured: Mapping[str, Any]) -> str:
    lines = [
        f"The plan of {label} as ordinary PyTorch code. Copy each part to its place in the script.",
        "Lines with export, or with a command, go to the shell that starts it.",
    ]
    if all(isinstance(measured.get(key), (int, float)) for key in ("speedup", "low", "high")):
        gain = "{speedup:.2f}x{of} ({low:.2f} to {high:.2f})".format(of=of_what(measured), **measured)
        lines.append(f"Measured under hasten: {gain} on {made_for.get('machine', 'another machine')}.")
    return _commented(*lines)


def _part(name: str, settings: Settings) -> str:
    technique = CATALOG[name]
    chosen = ", ".join(f"{key}={value}" for key, value in settings.items())
    title = f"{name} ({chosen})" if chosen else name
    about = _commented(f"{title}, risk {technique.risk}: {technique.summary}")
    return f"{about}\n{technique.by_hand(settings)}"


def _commented(*lines: str) -> str:
    return "\n".join(f"# {visible(line)}" for line in lines)
