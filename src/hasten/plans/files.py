"""Plans on disk: TOML that a person can read, change and send to somebody else."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .. import safe_files
from ..errors import PlanError, UnsafeFile, UsageError
from ..inside.techniques.catalog import CATALOG
from ..inside.techniques.exclusion import within
from ..records.plan import BASELINE, Plan, Value

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FORMAT = 1
_WORTH_REPEATING = 60  # characters of what is wrong
_HEADER = """\
# Written by hasten tune; train under it with hasten run.
# Delete a technique's table to train without that technique.
"""
_TABLES = {"format", "made_for", "measured", "techniques"}
_MOST_BYTES = 2**18
_MOST_DOTS = 16  # in a line: of tables within tables
_NO_KEY = re.compile(r'"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*')  # text and comments


@dataclass(frozen=True)
class SavedPlan:
    """A plan with what it was made for and what was measured, both only for people and for warnings."""

    plan: Plan
    made_for: Mapping[str, Any] = field(default_factory=dict)  # script, digest, arguments, machine, torch
    measured: Mapping[str, Any] = field(default_factory=dict)  # speedup, low, high, date, step_seconds


def of_what(measured: Mapping[str, Any]) -> str:
    """What to add to the number in ``measured`` if it is that of a run, of which steps gain nothing."""
    return " of a whole run" if measured.get("parts") == ["start"] else ""


def write_plan(path: Path, saved: SavedPlan, header: str = _HEADER) -> None:
    """Replace ``path`` at once, so that a crash leaves the old plan or the new one. ``header`` is its first
    comment.
    """
    import tomli_w

    content = {
        "format": FORMAT,
        "made_for": dict(saved.made_for),
        "measured": dict(saved.measured),
        "techniques": saved.plan.to_json(),
    }
    safe_files.write(path, (header + tomli_w.dumps(content)).encode())


def read_plan(path: Path) -> SavedPlan:
    """A plan that the user named. Raises PlanError, naming the key and what was expected there."""
    try:
        return _read(path, safe_files.read_named)
    except FileNotFoundError:
        raise PlanError(f"there is no plan at {path}. Make one with: hasten tune SCRIPT") from None


def read_own_plan(path: Path) -> SavedPlan | None:
    """A plan below ``.hasten``; None if there is none. Raises PlanError, also if it is not a file of
    this user's: the folder may have come with somebody's project.
    """
    with suppress(FileNotFoundError):
        return _read(path, safe_files.read)
    return None


def _read(path: Path, read: Callable[[Path, int], bytes]) -> SavedPlan:
    try:
        text = read(path, _MOST_BYTES).decode()  # UTF-8, as TOML must be
        if any(line.count(".") > _MOST_DOTS for line in _NO_KEY.sub("", text).splitlines()):
            raise RecursionError  # the parser's time would grow with the square of them
        content = tomllib.loads(text)
    except FileNotFoundError:
        raise
    except UnsafeFile as error:
        raise PlanError(str(error)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{path} cannot be read: {error}") from None
    except ValueError as error:  # also of numbers of thousands of digits
        raise PlanError(f"{path} is not TOML: {error}") from None
    except RecursionError:
        raise PlanError(f"{path} is nested too deeply for a plan") from None
    return _checked(path, content)


def _checked(path: Path, content: Mapping[str, Any]) -> SavedPlan:
    unknown = sorted(set(content) - _TABLES)
    if unknown:
        raise PlanError(f"{path}: unknown key {unknown[0]!r}; expected {', '.join(sorted(_TABLES))}")
    if type(content.get("format")) is not int or content["format"] != FORMAT:
        found = repr(content.get("format"))[:_WORTH_REPEATING]
        raise PlanError(f"{path}: format is {found}; this hasten reads format {FORMAT}")
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
            check_settings(name, settings)
        except ValueError as error:
            raise PlanError(f"{source}: techniques.{name}: {error}") from None
    apart = within(Plan.from_json(techniques))
    if apart is not None:
        raise PlanError(f"{source}: {apart}; take one of the two out")


def check_settings(name: str, settings: Mapping[Any, Any]) -> None:
    """Raises ValueError, naming the key and what was expected, where no machine could carry them out."""
    for key, value in settings.items():
        if not isinstance(key, str):
            raise ValueError(f"settings have names, found {key!r}")
        if not isinstance(value, (str, int, float, bool)):
            raise ValueError(f"{key} must be text, a number, true or false, found {_kind_of(value)}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{key} must be a number that is finite, found {value}")
    CATALOG[name].check(settings)


def _kind_of(value: object) -> str:
    """The type of a value, by its name in TOML."""
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, Mapping):
        return "a table"
    return f"a {type(value).__name__}" if value is not None else "nothing"


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
    check_names("--without", without)
    for name in without:
        plan = plan.without(name)
    apart = within(plan)
    if apart is not None:
        words = " ".join(f"--use {text}" for text in use)
        raise UsageError(f"{words}: {apart}; leave one of the two out (--without {apart.first}, say)")
    return replace(saved, plan=plan)


def check_names(option: str, names: Sequence[str]) -> None:
    """Raises UsageError for the first name that is not a technique's. ``option``: where they were given."""
    for name in names:
        if name not in CATALOG:
            raise UsageError(f"{option} {name}: {_no_technique(name)}")


def _technique_of(text: str) -> tuple[str, dict[str, Value]]:
    name, _, rest = text.partition(":")
    if name not in CATALOG:
        raise UsageError(f"--use {text}: {_no_technique(name)}")
    settings: dict[str, Value] = {}
    for pair in filter(None, rest.split(",")):
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"--use {text}: settings are KEY=VALUE, found {pair!r}")
        if key in settings:
            raise UsageError(f"--use {text}: {key} is given twice")
        settings[key] = _value_of(value)
    try:
        check_settings(name, settings)
    except ValueError as error:
        raise UsageError(f"--use {text}: {error}") from None
    return name, settings


def _value_of(text: str) -> Value:
    """As TOML would read it: a number, true or false, as Python writes them, too; anything else is text."""
    if text in ("True", "False"):
        return text == "True"
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, (str, int, float, bool)) else text


def _no_technique(name: str) -> str:
    return f"there is no technique {name!r}; there are {', '.join(sorted(CATALOG))}"
