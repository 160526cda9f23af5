"""What a script's folder below ``.hasten`` is called: one readable name per script, by its location.

    train.py               train                 -m train               train.module
    scripts/train.py       scripts.train         -m package.train       package.train.module
    train.ipynb            train.ipynb           ../elsewhere/train.py  train@5e0b1f1d3c07

Anything but a plain name below the working directory gets a digest of its path. No two scripts share a name:
plain names have dots only between folders, ``module`` and ``ipynb`` at the end are reserved, and @ is in no
plain name.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_LONGEST = 80  # characters; a name on disk may have 255
_KEPT = ("module", "ipynb")  # endings reserved for other than plain files
_JOURNAL = "journal.db"  # is next to the folders, with SQLite's files of similar name


def folder_name(path: Path, module: str | None = None) -> str:
    """The same for the same script from the same working directory, however its path is typed."""
    if module is not None:
        return _named([*module.split("."), "module"], f"\0{module}", ("module",))
    way = way_to(path)
    folders, stem, suffix = Path(way).parts[:-1], Path(way).stem, Path(way).suffix
    if suffix == ".ipynb":
        return _named([*folders, stem, "ipynb"], way, ("ipynb",))
    return _named([*folders, stem], way) if suffix == ".py" else _digested([*folders, stem], way)


def way_to(path: Path) -> str:
    """The way from the working directory, without links: it stays the same when a whole project is moved."""
    return os.path.relpath(os.path.realpath(path), os.path.realpath("."))


def old_folder_name(path: Path, module: str | None = None) -> str:
    """The folder's name in versions in which scripts of one name in several folders shared one."""
    return module or path.stem


def named_by(label: str) -> tuple[Path, str | None]:
    """Path and module of the script that a plan says it was made for, whether or not it still exists."""
    return (Path(), label.removeprefix("-m ")) if label.startswith("-m ") else (Path(label), None)


def _named(words: list[str], way: str, ending: tuple[str, ...] = ()) -> str:
    name = ".".join(words)
    own = words[: len(words) - len(ending)]
    plain = all(_PLAIN.fullmatch(word) for word in own) and len(name) <= _LONGEST
    taken = not ending and len(own) > 1 and own[-1] in _KEPT
    if plain and not taken and not name.startswith(_JOURNAL):
        return name
    return _digested(words, way)


def _digested(words: list[str], way: str) -> str:
    digest = hashlib.blake2b(os.fsencode(way), digest_size=6).hexdigest()
    readable = ".".join(re.sub(r"[^A-Za-z0-9_-]", "_", word) for word in words if word != "..")
    return f"{readable[-_LONGEST:].lstrip('.-') or 'script'}@{digest}"
