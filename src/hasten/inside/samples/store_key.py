"""How another process, or a later run, identifies a data set's store."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import types
from dataclasses import dataclass
from typing import Any

from .lasting_digest import NoDigest, lasting_digest
from .sampling_proof import answered_apart
from .store_files import FORMAT

_KEY = "key:"  # prefix of an answer that is a key, not a reason


@dataclass(frozen=True)
class Key:
    """``name`` differs if code, arguments, versions or the data set do; ``family`` if anything but the data
    set does: stores of a script that creates a different data set in each run share one.
    """

    name: str
    family: str


def key_of(
    torch: types.ModuleType, dataset: Any, length: int, made_of: str, lasting: bool = True
) -> Key | str:
    """Computed in a separate process; or why there is none. ``made_of``: script, files and arguments.
    ``lasting``: for later runs, in which versions may be others.
    """
    name = type(dataset).__name__
    told, _ = answered_apart(torch, name, lambda: (_told(torch, dataset, length, made_of, lasting), 0))
    if not told.startswith(_KEY):
        return told
    return Key(*told.removeprefix(_KEY).split())


def _told(torch: types.ModuleType, dataset: Any, length: int, made_of: str, lasting: bool) -> str:
    name = type(dataset).__name__
    try:
        digest = lasting_digest(dataset)
    except NoDigest as error:
        return f"{name} holds {error}, so a later run could not recognise it"
    usual = str(torch.get_default_dtype())
    imported = versions() if lasting else {}
    family = _digest([FORMAT, imported, made_of, os.getcwd(), usual, name, length])
    return f"{_KEY}{_digest([family, digest])} {family}"


def _digest(parts: list[object]) -> str:
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=12).hexdigest()


def versions() -> dict[str, str]:
    """Versions of Python and of imported libraries, by module."""
    found = {"python": sys.version.split()[0]}
    for name, module in list(sys.modules.items()):
        if "." not in name and isinstance(module, types.ModuleType):
            version = module.__dict__.get("__version__")
            if isinstance(version, str):
                found[name] = version
    found.pop("hasten", None)
    return dict(sorted(found.items()))
