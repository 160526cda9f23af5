"""Checkpoints of several ranks: which of them a rank goes on from, and as whom it comes there.

Each rank has its own, and goes on from a step of which all have one. Ranks of ours train as one process, so
that another number of them can go on as well: all then play back what rank 0 did, as rank 0 of so many as
there were, and each takes its own place where that ends.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

from ...records.run_checkpoints import RunCheckpoints
from . import store
from .cannot import Cannot, Diverged
from .written_list import WrittenList

if TYPE_CHECKING:
    from ..distributed.this_rank import ThisRank


@dataclass(frozen=True)
class Role:
    """What a rank was up to the ``boundary`` after ``step`` ("batch" or "step"): ``rank`` of ``ranks``."""

    step: int
    boundary: str
    rank: int
    ranks: int

    def is_over(self, step: int, boundary: str) -> bool:
        return (self.step, self.boundary) == (step, boundary)


def roles_in(header: dict[str, Any]) -> list[Role]:
    return [Role(*one) for one in header.get("roles", ())]


class Roles:
    """``past``: those that this rank had, one after another, before it took its own."""

    def __init__(self, past: Sequence[Role] = ()) -> None:
        self._past, self._left = list(past), list(past)
        self._this_rank: ThisRank | None = None

    def as_json(self) -> list[tuple[Any, ...]]:
        return [astuple(role) for role in self._past]

    def follow(self, this_rank: ThisRank) -> None:
        """Before it trains."""
        self._this_rank = this_rank
        self._take()

    def passed(self, step: int, boundary: str) -> None:
        """The script has come to that boundary. Raises Diverged."""
        if self._left and self._left[0].is_over(step, boundary):
            del self._left[0]
            self._take()

    def landed(self) -> None:
        """From here on it trains as itself. Raises Diverged."""
        if self._left:
            self._left.clear()
            self._take()

    def _take(self) -> None:
        if self._this_rank is None:
            return
        ranks = self._this_rank.ranks
        rank, size = ranks.rank, ranks.world_size
        if self._left:
            rank, size = self._left[0].rank, self._left[0].ranks
        self._this_rank.rng.take_role(rank)
        why = self._this_rank.slicer.take_role(rank, size)
        if why:
            raise Diverged(
                f"{why}, so only as many processes as before can go on from the middle of an epoch"
            )


@dataclass(frozen=True)
class Candidate:
    """A checkpoint in ``folder``, of a training in so many ``processes``."""

    step: int
    folder: str
    processes: int


def candidates(asked: RunCheckpoints, fresh: bool = False) -> list[Candidate]:
    """The newest first. ``fresh``: this rank's folder was not there before. Raises Cannot where the folder of
    a rank is not to be seen, or gone.
    """
    own, ranks = asked.own_folder, asked.ranks
    if ranks == 1:
        return [Candidate(step, own, 1) for step in store.steps_in(own)]
    missing = [folder for folder in asked.folders if not os.path.isdir(folder)]
    if fresh and not asked.alike and any(store.steps_in(one) for one in set(asked.folders) - set(missing)):
        raise _not_shared(own)
    lost = [folder for folder in missing if not asked.alike or folder == asked.folders[0]]
    if lost and store.steps_in(own):
        raise _not_shared(lost[0])
    common = set() if missing else set(store.steps_in_all(asked.folders))
    if not asked.alike:
        return [Candidate(step, own, ranks) for step in sorted(common, reverse=True)]
    first, found = asked.folders[0], list[Candidate]()
    for step in store.steps_in(first) if os.path.isdir(first) else ():
        before = int(store.header_of(first, step).get("made_by", {}).get("processes", ranks))
        if before != ranks:
            found.append(Candidate(step, first, before))
        elif fresh or (missing and store.steps_in(own)):
            raise _not_shared(own if fresh else missing[0])
        elif step in common:
            found.append(Candidate(step, own, ranks))
    return found


def _not_shared(folder: str) -> Cannot:
    return Cannot(
        f"{folder} is missing or was: the folder of checkpoints must be one that all hosts share. To train "
        "from the beginning, name another folder"
    )


def written_by_others(asked: RunCheckpoints, step: int) -> frozenset[str]:
    """Files that other ranks wrote after the checkpoint of that step."""
    found = set[str]()
    for folder in asked.folders:
        if folder != asked.own_folder and os.path.isdir(folder):
            found |= WrittenList(folder).since(store.header_of(folder, step).get("written", 0))
    return frozenset(found)


def seen_by_rank_0(asked: RunCheckpoints, step: int) -> dict[str, Any]:
    """What a rank of ours has to go by instead of what it wrote itself, which was put aside."""
    if not (asked.alike and asked.rank):
        return {}
    theirs = store.header_of(asked.folders[0], step)
    return {key: theirs[key] for key in ("saved", "later") if key in theirs}


def take_over(segments: Sequence[tuple[int, int, int]], theirs: str, own: str) -> None:
    """The journal of rank 0 becomes the beginning of this rank's. Raises OSError."""
    for step, _, _ in segments if theirs != own else ():
        with open(store.segment_of(theirs, step), "rb") as file:
            store.write_whole(store.segment_of(own, step), (memoryview(file.read()),))
