"""The checkpoint that a run goes on from: the newest that is whole and of the same script."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ...records.run_checkpoints import RunCheckpoints
from ...saying import say
from ..job import Job
from ..source_files import SourceFiles, digest_of
from . import store
from .cannot import Cannot
from .of_ranks import Candidate, Role, candidates, roles_in, seen_by_rank_0, take_over, written_by_others
from .store import Checkpoint, Damaged

_NO_PLAN = "none"


@dataclass(frozen=True)
class Chosen:
    """``journal`` leads to it; ``tail`` is what was done after it, as far as that is known.
    ``written_by_others``: files that other ranks wrote after it. ``roles``: as whom this rank comes there, if
    it was another one on its way.
    """

    checkpoint: Checkpoint
    journal: bytes
    tail: bytes
    segments: list[tuple[int, int, int]] = field(default_factory=list)
    written_by_others: frozenset[str] = frozenset()
    roles: list[Role] = field(default_factory=list)


def choose(asked: RunCheckpoints, job: Job, home: str, fresh: bool = False) -> Chosen | None:
    """None where there is none yet. Raises Cannot where there are only damaged ones, or another script's.
    ``home``: the folder that the run begins in. ``fresh``: that of the checkpoints was not there.
    """
    found = candidates(asked, fresh)
    for one in found:
        path = store.path_of(one.folder, one.step)
        try:
            checkpoint = store.read(one.folder, one.step)
            _check_same(checkpoint.header["made_by"], job, one, home)
            segments = [(s, size, crc) for s, size, crc in checkpoint.header["segments"]]
            journal = store.read_segments(one.folder, segments)
        except Damaged as error:
            if asked.ranks > 1:
                raise _set_aside(path, error, asked) from None
            say(f"hasten: {path} {error}; trying the one before it")
            continue
        checkpoint.header.update(seen_by_rank_0(asked, one.step))
        others = written_by_others(asked, one.step)
        roles, tail = roles_in(checkpoint.header), store.read_tail(one.folder, one.step)
        if one.processes != asked.ranks:
            roles.append(Role(one.step, checkpoint.header["boundary"], 0, one.processes))
            take_over(segments, one.folder, asked.own_folder)
            tail = b""  # what it read after it depended on its part of each batch
        return Chosen(checkpoint, journal, tail, segments, others, roles)
    if found:
        raise Cannot(
            f"none of the {len(found)} checkpoints in {asked.own_folder} can be read. To train from the "
            "beginning, move them away, or name another folder"
        )
    return None


def _set_aside(path: str, error: Damaged, asked: RunCheckpoints) -> Cannot:
    with suppress(FileNotFoundError):  # another rank was faster
        os.replace(path, f"{path}.damaged")
    return Cannot(
        f"{path} {error}. It was renamed to {os.path.basename(path)}.damaged: start again, and all "
        f"{asked.ranks} ranks go on from the one before it"
    )


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


def _check_same(made: dict[str, Any], job: Job, chosen: Candidate, home: str) -> None:
    folder = chosen.folder
    now: dict[str, Any] = {
        "script": job.argv[0],
        "arguments": list(job.argv[1:]),
        "module": job.module,
        "folder": home,
        "python": sys.version.split()[0],
        "processes": chosen.processes,
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
        if name == "processes":  # how many there are, and where they run, may be another
            settings = {key: value for key, value in settings.items() if key == "sync_batch_norm"}
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
