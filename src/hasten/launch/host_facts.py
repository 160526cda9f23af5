"""What this host has that the others should have, too."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import platform
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError
from pathlib import Path

from ..errors import UsageError
from ..inside.job import Job
from ..machine.memory import available_bytes
from ..machine.torch_build import torch_version
from ..records.codec import to_json
from ..records.preflight import HostFacts
from ..scripts.reading import parts_of
from ..scripts.sources import digest_of
from ..scripts.workspace import Script

_END_BYTES = 2**16  # read of a large file, at its beginning and at its end
_WALK_SECONDS = 2.0
_MOST_NAMED = 200


def facts_of(job: Job, script: Script, environment: Mapping[str, str], version: str) -> HostFacts:
    """What to compare of this host. ``version``: hasten's."""
    parts = []
    with suppress(UsageError):  # the worker tells what there is, as far as it comes
        parts = list(parts_of(script))
    files = sorted({part.name.partition(", cell ")[0] for part in parts})
    plan = json.dumps(to_json(job.plan.without("processes")), sort_keys=True)
    label = job.plan.without("processes").label if job.plan.without("processes") else "no plan"
    return HostFacts(
        alike={
            "Python": platform.python_version(),
            "torch": _torch_version(),
            "hasten": version,
            "the plan": f"{label} ({_short(plan.encode())})",
            "the command line": " ".join(job.argv),
            "PYTHONHASHSEED": environment.get("PYTHONHASHSEED", ""),
        },
        files={name: digest_of(name) for name in files if os.path.exists(name)},
        given=_contents(_paths(script.arguments)),
        named=_contents(_paths(_texts(part.tree for part in parts))),
        cpus=job.machine.usable_cpus,
        memory_bytes=available_bytes(),
        disk_bytes=shutil.disk_usage(".").free,
    )


def _torch_version() -> str:
    with suppress(PackageNotFoundError):
        return torch_version()
    return ""


def _texts(trees: Iterable[ast.AST]) -> Iterator[str]:
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value:
                yield node.value


def _paths(words: Iterable[str]) -> list[str]:
    """The words that name an existing file or folder, other than the working directory and those above it."""
    here, found = Path.cwd(), dict[str, None]()
    for word in words:
        name = word.partition("=")[2] if word.startswith("--") and "=" in word else word
        with suppress(OSError, ValueError):
            path = Path(name)
            if name and len(name) < 1024 and path.exists() and not here.is_relative_to(path.resolve()):
                found[name] = None
    return list(found)[:_MOST_NAMED]


def _contents(paths: Iterable[str]) -> dict[str, str]:
    until, found = time.monotonic() + _WALK_SECONDS, {}
    for name in paths:
        with suppress(OSError):
            found[name] = _of_folder(name, until) if os.path.isdir(name) else _of_file(name)
    return found


def _of_folder(name: str, until: float) -> str:
    """A digest of a folder's files by names and sizes; only the number of entries if that takes too long."""
    told, ended = [], False
    for folder, folders, files in os.walk(name):
        folders.sort()
        for file in sorted(files):
            path = os.path.join(folder, file)
            with suppress(OSError):
                told.append((os.path.relpath(path, name), os.stat(path).st_size))
        if time.monotonic() > until:
            ended = True
            break
    if ended:
        return f"{len(os.listdir(name))} entries"
    return f"{len(told)} files ({_short(repr(told).encode())})"


def _of_file(name: str) -> str:
    size = os.stat(name).st_size
    if not os.path.isfile(name):
        return "no file"
    with open(name, "rb") as file:
        ends = file.read(_END_BYTES)
        file.seek(max(0, size - _END_BYTES))
        ends += file.read(_END_BYTES)
    return f"{size} bytes ({_short(ends)})"


def _short(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=6).hexdigest()
