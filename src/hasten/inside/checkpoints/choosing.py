"""The checkpoint that a run goes on from: the newest that is whole and of the same script."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from typing import Any

from ...records.run_checkpoints import RunCheckpoints
from ...saying import say
from ..job import Job
from ..source_files import SourceFiles, digest_of
from . import store
from .cannot import Cannot
from .store import Checkpoint, Damaged
from .written_list import WrittenList

_NO_PLAN = "none"


@dataclass(frozen=True)
class Chosen:
    """``journal`` leads to it; ``tail`` is what was done after it, as far as that is known.
    ``written_by_others``: files that other ranks wrote after it.
    """

    checkpoint: Checkpoint
    journal: bytes
    tail: bytes
    segments: list[tuple[int, int, int]] = field(default_factory=list)
    written_by_others: frozenset[str] = frozenset()


def choose(asked: RunCheckpoints, job: Job, home: str) -> Chosen | None:
    """None where there is none yet. Raises Cannot where there are only damaged ones, or another script's.
    ``home``: the folder that the run begins in.
    """
    folder = asked.own_folder
    steps = _steps_of_all(asked) if asked.ranks > 1 else store.steps_in(folder)
    for step in steps:
        path = store.path_of(folder, step)
        try:
            checkpoint = store.read(folder, step)
            _check_same(checkpoint.header["made_by"], job, folder, home)
            segments = [(s, size, crc) for s, size, crc in checkpoint.header["segments"]]
            journal = store.read_segments(folder, segments)
        except Damaged as error:
            if asked.ranks > 1:
                os.replace(path, f"{path}.damaged")
                raise Cannot(
                    f"{path} {error}. It was renamed to {os.path.basename(path)}.damaged: start again, and "
                    f"all {asked.ranks} ranks go on from the one before it"
                ) from None
            say(f"hasten: {path} {error}; trying the one before it")
            continue
        if asked.alike and asked.rank:  # what this rank wrote was put aside; it sees rank 0's
            theirs = store.header_of(asked.folders[0], step)
            checkpoint.header.update({key: theirs[key] for key in ("saved", "later") if key in theirs})
        tail, others = store.read_tail(folder, step), _written_by_others(asked, step)
        return Chosen(checkpoint, journal, tail, segments, others)
    if steps:
        raise Cannot(
            f"none of the {len(steps)} checkpoints in {folder} can be read. To train from the beginning, "
            "move them away, or name another folder"
        )
    return None


def _steps_of_all(asked: RunCheckpoints) -> list[int]:
    """Raises Cannot where this rank has checkpoints, and another none."""
    missing = [folder for folder in asked.folders if not os.path.isdir(folder)]
    if missing and store.steps_in(asked.own_folder):
        raise Cannot(
            f"{missing[0]} is missing: the folder of checkpoints must be one that all hosts share. To train "
            "from the beginning, name another folder"
        )
    return [] if missing else store.steps_in_all(asked.folders)


def _written_by_others(asked: RunCheckpoints, step: int) -> frozenset[str]:
    found = set[str]()
    for folder in asked.folders:
        if folder != asked.own_folder:
            found |= WrittenList(folder).since(store.header_of(folder, step).get("written", 0))
    return frozenset(found)


def made_by(job: Job, sources: SourceFiles, digests: dict[str, str], home: str) -> dict[str, Any]:
    """What must be the same when a run is continued. ``digests``: of files, those that are new are added; one
    that is changed later is not what runs.
    """
    for path in sources.own(job):
        digests.setdefault(path, digest_of(path))
    return {
        "script": job.argv[0],
        "arguments": list(job.argv[1:]),
        "module": job.module,
        "folder": home,
        "sources": digests,
        "python": sys.version.split()[0],
        "torch": str(getattr(sys.modules.get("torch"), "__version__", "")),
        "processes": job.checkpoints.ranks if job.checkpoints is not None else 1,
        "plan": _plan_words(job),
    }


def _check_same(made: dict[str, Any], job: Job, folder: str, home: str) -> None:
    now: dict[str, Any] = {
        "script": job.argv[0],
        "arguments": list(job.argv[1:]),
        "module": job.module,
        "folder": home,
        "python": sys.version.split()[0],
        "processes": job.checkpoints.ranks if job.checkpoints is not None else 1,
        "plan": _plan_words(job),
    }
    for name, value in now.items():
        was = made.get(name, _NO_PLAN) if name == "plan" else made[name]  # older ones do not tell
        if was != value:
            _refuse(folder, name, was, value)
    for path, digest in made["sources"].items():
        if digest_of(path) != digest:
            _refuse(folder, "source", f"{path} as it was then", "it was changed or is gone")


def _plan_words(job: Job) -> str:
    """Equal if the plan is."""
    found = []
    for name, settings in sorted(job.plan.techniques.items()):
        how = ", ".join(f"{key}={value}" for key, value in sorted(settings.items()))
        found.append(f"{name} ({how})" if how else name)
    return " + ".join(found) or _NO_PLAN


def check_torch(made: dict[str, Any], version: str, folder: str) -> None:
    if made["torch"] != version:
        _refuse(folder, "torch", made["torch"], version)


def _refuse(folder: str, name: str, was: object, now: object) -> None:
    raise Cannot(
        f"the checkpoints in {folder} are of another run: {name} was {was}, and now {now}. Name another "
        "folder, or move them away to train from the beginning"
    )
