"""Plans on disk: TOML that a person can read, change and send to somebody else."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .errors import PlanError, UsageError
from .inside.techniques.catalog import CATALOG
from .inside.techniques.exclusion import within
from .records.plan import BASELINE, Plan, Value

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
    check_techniques(str(path), content.get("techniques", {}))
    plan = Plan.from_json(content.get("techniques", {}))
    return SavedPlan(plan or BASELINE, content.get("made_for", {}), content.get("measured", {}))


def check_techniques(source: str, techniques: Mapping[str, Any]) -> None:
    """Raises PlanError for the first technique or setting that no machine could carry out, and for two
    techniques that exclude each other.

    ``source`` is where the techniques come from, for the message.
    """
    for name, settings in techniques.items():
        if name not in CATALOG:
            raise PlanError(
                f"{source}: techniques.{name} is not a technique; there are {', '.join(sorted(CATALOG))}"
            )
        if not isinstance(settings, Mapping):
            raise PlanError(f"{source}: techniques.{name} must be a table of its settings")
        try:
            CATALOG[name].check(settings)
        except ValueError as error:
            raise PlanError(f"{source}: techniques.{name}: {error}") from None
    apart = within(Plan.from_json(techniques))
    if apart is not None:
        raise PlanError(f"{source}: {apart}; take one of the two out")


def changed(saved: SavedPlan, use: Sequence[str], without: Sequence[str]) -> SavedPlan:
    """The plan with techniques put in by hand, each as ``NAME`` or ``NAME:KEY=VALUE,...``, and others
    taken out.

    Raises UsageError for a technique or a setting that there is none of, and for two techniques that exclude
    each other.
    """
    plan = saved.plan
    for text in use:
        name, settings = _technique_of(text)
        plan = plan.adding(name, settings)
    for name in without:
        if name not in CATALOG:
            raise UsageError(f"--without {name}: {_no_technique(name)}")
        plan = plan.without(name)
    apart = within(plan)
    if apart is not None:
        words = " ".join(f"--use {text}" for text in use)
        raise UsageError(f"{words}: {apart}; leave one of the two out (--without {apart.first}, say)")
    return replace(saved, plan=plan)


def _technique_of(text: str) -> tuple[str, dict[str, Value]]:
    name, _, rest = text.partition(":")
    if name not in CATALOG:
        raise UsageError(f"--use {text}: {_no_technique(name)}")
    settings: dict[str, Value] = {}
    for pair in filter(None, rest.split(",")):
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"--use {text}: settings are KEY=VALUE, found {pair!r}")
        settings[key] = _value_of(value)
    try:
        CATALOG[name].check(settings)
    except ValueError as error:
        raise UsageError(f"--use {text}: {error}") from None
    return name, settings


def _value_of(text: str) -> Value:
    """As TOML would read it: a number, true or false; anything else is text."""
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return value if isinstance(value, (str, int, float, bool)) else text


def _no_technique(name: str) -> str:
    return f"there is no technique {name!r}; there are {', '.join(sorted(CATALOG))}"
