"""Raw numbers, kept with the day and the machine they were measured on."""

from __future__ import annotations

import importlib.metadata
import json
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

from hasten.machine import this_machine

FOLDER = Path(__file__).parent / "results"
DOCS = Path(__file__).parent.parent / "docs"


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def write_result(name: str, content: dict[str, Any]) -> Path:
    """Write ``results/DATE-NAME.json`` and say where, and in what it differs from the one before."""
    before = newest(name)
    where = {"machine": this_machine().identity, "torch": importlib.metadata.version("torch")}
    whole = {**where, **content}
    path = FOLDER / f"{date.today().isoformat()}-{name}.json"
    FOLDER.mkdir(exist_ok=True)
    path.write_text(json.dumps(whole, indent=1) + "\n")
    print(f"raw numbers: {path}")
    for line in differences(before, whole) if before is not None else ():
        print(line)
    return path


def between(page: str, begin: str, end: str, rows: str) -> str:
    """``page`` with ``rows`` between its marks. Raises ValueError if it has none."""
    before, after = page.index(begin) + len(begin), page.index(end)
    return f"{page[:before]}\n{rows}\n{page[after:]}"


def newest(name: str) -> dict[str, Any] | None:
    """The result of that name which was written last; None if there is none."""
    named = FOLDER.glob(f"*-{name}.json")
    dated = [path for path in named if path.name.removesuffix(f"-{name}.json").count("-") == 2]
    found: dict[str, Any] | None = json.loads(max(dated).read_text()) if dated else None
    return found


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """In words: another machine, another torch, and intervals of the summary that lie wholly apart."""
    found = [
        f"this {what} differs from that of the documents: {now[what]}, where they have {before[what]}"
        for what in ("machine", "torch")
        if before.get(what) not in (None, now[what])
    ]
    older, newer = _intervals(before.get("summary")), _intervals(now.get("summary"))
    for name in older.keys() & newer.keys():
        (low, high), (new_low, new_high) = older[name], newer[name]
        if new_high < low or new_low > high:
            found.append(
                f"{name} differs here: {new_low:.4g} to {new_high:.4g}, where the documents have "
                f"{low:.4g} to {high:.4g}"
            )
    return found or ["nothing differs from what the documents have"]


def _intervals(summary: object, name: str = "") -> dict[str, tuple[float, float]]:
    """All {"low": .., "high": ..} in a summary, by where they lie in it."""
    if not isinstance(summary, dict):
        return {}
    if {"low", "high"} <= summary.keys():
        return {name: (summary["low"], summary["high"])}
    found: dict[str, tuple[float, float]] = {}
    for key, value in summary.items():
        found |= _intervals(value, f"{name}.{key}" if name else str(key))
    return found
