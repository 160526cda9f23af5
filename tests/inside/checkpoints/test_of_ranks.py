"""Which checkpoint ranks go on from, when all take theirs, and as whom they come there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hasten.inside.checkpoints import store
from hasten.inside.checkpoints.cannot import Cannot, Diverged
from hasten.inside.checkpoints.of_ranks import Candidate, Role, Roles, candidates, take_over
from hasten.inside.checkpoints.schedule import OfRanks
from hasten.records.run_checkpoints import RunCheckpoints


def put(folder: Path, rank: int, steps: list[int], processes: int) -> None:
    """Checkpoints of one of so many processes."""
    place = folder / f"rank-{rank}"
    place.mkdir(exist_ok=True)
    for step in steps:
        store.write(str(place), step, {"made_by": {"processes": processes}}, [])


def asked(folder: Path, rank: int, ranks: int, *, alike: bool = False, **how: Any) -> RunCheckpoints:
    return RunCheckpoints(str(folder), **{"every_steps": 5, **how}).of_rank(rank, ranks, alike)


def found(folder: Path, rank: int, ranks: int, *, alike: bool = False) -> list[tuple[int, str, int]]:
    made = candidates(asked(folder, rank, ranks, alike=alike))
    assert all(isinstance(one, Candidate) for one in made)
    return [(one.step, Path(one.folder).name, one.processes) for one in made]


# ---- which
def test_a_step_counts_if_all_ranks_have_it(tmp_path: Path) -> None:
    put(tmp_path, 0, [5, 10, 15], 2)
    put(tmp_path, 1, [5, 10], 2)
    assert found(tmp_path, 1, 2) == [(10, "rank-1", 2), (5, "rank-1", 2)]
    assert found(tmp_path, 0, 2, alike=True) == [(10, "rank-0", 2), (5, "rank-0", 2)]


def test_ranks_of_ours_in_another_number_go_by_rank_0(tmp_path: Path) -> None:
    for rank in range(3):
        put(tmp_path, rank, [5, 10], 3)
    assert found(tmp_path, 1, 2, alike=True) == [(10, "rank-0", 3), (5, "rank-0", 3)]
    assert found(tmp_path, 3, 4, alike=True)[0] == (10, "rank-0", 3)


def test_after_a_change_of_their_number_the_newest_is_of_the_new_one(tmp_path: Path) -> None:
    for rank in range(3):
        put(tmp_path, rank, [5, 10], 3)
    for rank in range(2):
        put(tmp_path, rank, [15], 2)
    put(tmp_path, 0, [20], 2)  # rank 1 did not come to it
    assert found(tmp_path, 1, 2, alike=True)[:2] == [(15, "rank-1", 2), (10, "rank-0", 3)]


@pytest.mark.parametrize("alike", [False, True])
def test_a_folder_that_is_not_shared_is_told(tmp_path: Path, alike: bool) -> None:
    put(tmp_path, 1, [5], 2)
    with pytest.raises(Cannot, match=r"rank-0 is missing or was.*all hosts share"):
        found(tmp_path, 1, 2, alike=alike)


@pytest.mark.parametrize("alike", [False, True])
def test_a_rank_whose_folder_was_taken_away_does_not_begin_anew(tmp_path: Path, alike: bool) -> None:
    put(tmp_path, 0, [5], 2)
    put(tmp_path, 1, [], 2)
    with pytest.raises(Cannot, match="rank-1 is missing or was"):
        candidates(asked(tmp_path, 1, 2, alike=alike), fresh=True)
    assert candidates(asked(tmp_path, 1, 3, alike=True), fresh=True) != []  # of a new number of ranks


def test_before_the_first_checkpoint_there_is_none(tmp_path: Path) -> None:
    put(tmp_path, 0, [], 2)
    assert found(tmp_path, 0, 2) == found(tmp_path, 0, 2, alike=True) == []


def test_what_not_all_have_written_yet_lets_older_ones_stay(tmp_path: Path) -> None:
    put(tmp_path, 0, [5, 10, 15, 20], 2)
    put(tmp_path, 1, [5, 10], 2)
    folders = [str(tmp_path / f"rank-{rank}") for rank in range(2)]
    store.prune(folders[0], folders, 1, 20)
    assert store.steps_in(folders[0]) == [20, 15, 10]


def test_the_journal_of_rank_0_becomes_the_others(tmp_path: Path) -> None:
    put(tmp_path, 0, [5], 2)
    put(tmp_path, 1, [], 2)
    folders = [str(tmp_path / f"rank-{rank}") for rank in range(2)]
    store.write_whole(store.segment_of(folders[0], 5), (memoryview(b"what rank 0 did"),))
    take_over([(5, 15, 0)], *folders)
    assert Path(store.segment_of(folders[1], 5)).read_bytes() == b"what rank 0 did"


# ---- when
def test_all_are_due_after_the_step_that_rank_0_told(tmp_path: Path) -> None:
    clock = [0.0]
    both = [
        OfRanks(asked(tmp_path, rank, 2, every_steps=0, every_seconds=4.0), lambda: clock[0])
        for rank in range(2)
    ]
    both[0].begin()
    due: list[tuple[int, int]] = []
    for step in range(1, 40):
        clock[0] += 0.2
        for rank, one in enumerate(both):
            if one.is_due(step, busy=False, asked=False):
                assert not one.stops
                one.took(step)
                due.append((step, rank))
    (first, _), (same, _), *_ = due
    assert first == same > 20
    assert [rank for _, rank in due] == [0, 1] * (len(due) // 2)


def test_the_signal_that_one_rank_got_stops_all_after_the_same_step(tmp_path: Path) -> None:
    clock = [0.0]
    both = [OfRanks(asked(tmp_path, rank, 2), lambda: clock[0]) for rank in range(2)]
    both[0].begin()
    stopped: list[int] = []
    for step in range(1, 30):
        clock[0] += 0.2
        for rank, one in enumerate(both):
            if one.is_due(step, busy=False, asked=rank == 1 and step >= 7):
                one.took(step)
                if one.stops:
                    stopped.append(step)
        if stopped:
            break
    assert len(stopped) == 2
    assert stopped[0] == stopped[1] > 7


def test_what_the_run_before_told_does_not_count(tmp_path: Path) -> None:
    lead = OfRanks(asked(tmp_path, 0, 2))
    lead.begin()
    (tmp_path / "asked-to-stop").touch()
    assert lead.is_due(1, busy=False, asked=False) is False
    OfRanks(asked(tmp_path, 0, 2)).begin()
    assert not (tmp_path / "asked-to-stop").exists()


# ---- as whom
class OneOfRanks:
    """What is told to a rank of ours: the third of three."""

    def __init__(self, why: str = "") -> None:
        self.ranks = SimpleNamespace(rank=2, world_size=3)
        self.taken: list[tuple[int, int]] = []
        self.rng = SimpleNamespace(take_role=lambda rank: None)
        self.slicer = SimpleNamespace(take_role=self._take_role)
        self._why = why

    def _take_role(self, rank: int, size: int) -> str:
        self.taken.append((rank, size))
        return self._why


def test_roles_are_taken_one_after_another_and_the_own_one_last() -> None:
    roles, this_rank = Roles([Role(10, "batch", 0, 4), Role(20, "step", 0, 2)]), OneOfRanks()
    roles.follow(cast(Any, this_rank))
    for step, boundary in ((9, "batch"), (10, "step"), (10, "batch"), (20, "batch"), (20, "step")):
        roles.passed(step, boundary)
    roles.landed()
    assert this_rank.taken == [(0, 4), (0, 2), (2, 3)]
    assert roles.as_json() == [(10, "batch", 0, 4), (20, "step", 0, 2)]


def test_at_the_checkpoint_itself_the_last_role_ends() -> None:
    roles, this_rank = Roles([Role(10, "batch", 0, 4)]), OneOfRanks()
    roles.follow(cast(Any, this_rank))
    roles.landed()
    assert this_rank.taken == [(0, 4), (2, 3)]


def test_batches_that_were_fetched_ahead_end_it() -> None:
    roles = Roles([Role(10, "batch", 0, 4)])
    with pytest.raises(Diverged, match="fetches batches ahead, so only as many processes"):
        roles.follow(cast(Any, OneOfRanks("its loader fetches batches ahead")))
