"""Raw numbers, kept with the day and the machine they were measured on."""

from __future__ import annotations

import importlib.metadata
import json
from datetime import date
from pathlib import Path
from typing import Any

from hasten.machine import this_machine

FOLDER = Path(__file__).parent / "results"
DOCS = Path(__file__).parent.parent / "docs"


def write_result(name: str, content: dict[str, Any]) -> Path:
    """Write ``results/DATE-NAME.json`` and say where."""
    where = {"machine": this_machine().identity, "torch": importlib.metadata.version("torch")}
    path = FOLDER / f"{date.today().isoformat()}-{name}.json"
    FOLDER.mkdir(exist_ok=True)
    path.write_text(json.dumps({**where, **content}, indent=1) + "\n")
    print(f"raw numbers: {path}")
    return path
