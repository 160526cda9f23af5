"""Plans on disk: TOML that a person can read, change and send to somebody else."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import PlanError
from .inside.techniques.catalog import CATALOG
from .records.plan import BASELINE, Plan

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FORMAT = 1
_HEADER = """\
# Written by hasten tune; train under it with hasten run.
# Delete a technique's table to train without that technique.
"""
_TABLES = {"format", "made_for", "measured", "techniques"}


@dataclass(frozen=True)
class SavedPlan:
    """A plan with what it was made for and what was measured, both only for people and for warnings."""

    plan: Plan
    made_for: Mapping[str, Any] = field(default_factory=dict)  # script, digest, arguments, machine, torch
    measured: Mapping[str, Any] = field(default_factory=dict)  # speedup, low, high, date


def write_plan(path: Path, saved: SavedPlan) -> None:
    """Replace ``path`` at once, so that a crash leaves the old plan or the new one."""
    import tomli_w

    content = {
        "format": FORMAT,
        "made_for": dict(saved.made_for),
        "measured": dict(saved.measured),
        "techniques": saved.plan.to_json(),
    }
    temporary = path.with_suffix(".toml.new")
    temporary.write_text(_HEADER + tomli_w.dumps(content), encoding="utf-8")  # as TOML must be
    temporary.replace(path)


def read_plan(path: Path) -> SavedPlan:
    """Raises PlanError, naming the key and what was expected there."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PlanError(f"there is no plan at {path}. Make one with: hasten tune SCRIPT") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{path} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{path} is not TOML: {error}") from None
    return _checked(path, content)


def _checked(path: Path, content: Mapping[str, Any]) -> SavedPlan:
    unknown = sorted(set(content) - _TABLES)
    if unknown:
        raise PlanError(f"{path}: unknown key {unknown[0]!r}; expected {', '.join(sorted(_TABLES))}")
    if content.get("format") != FORMAT:
        raise PlanError(f"{path}: format is {content.get('format')!r}; this hasten reads format {FORMAT}")
    for table in ("made_for", "measured", "techniques"):
        if not isinstance(content.get(table, {}), dict):
            raise PlanError(f"{path}: {table} must be a table")
    for name, settings in content.get("techniques", {}).items():
        _check_technique(path, name, settings)
    plan = Plan.from_json(content.get("techniques", {}))
    return SavedPlan(plan or BASELINE, content.get("made_for", {}), content.get("measured", {}))


def _check_technique(path: Path, name: str, settings: Any) -> None:
    if name not in CATALOG:
        raise PlanError(
            f"{path}: techniques.{name} is not a technique; there are {', '.join(sorted(CATALOG))}"
        )
    if not isinstance(settings, dict):
        raise PlanError(f"{path}: techniques.{name} must be a table of its settings")
    try:
        CATALOG[name].check(settings)
    except ValueError as error:
        raise PlanError(f"{path}: techniques.{name}: {error}") from None
