"""Ranks of a script's own that are killed and started again end as if nothing had happened."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ...patience import PATIENCE_SECONDS
from .restarting import continued, ended, kept, killed, step_of

SCRIPT = Path(__file__).parent / "scripts" / "own_ranks.py"
WRITTEN = ("weights-0.json", "weights-1.json", "log.csv")


def ranks(folder: Path, *arguments: str, every: str = "7steps", count: int = 2) -> list[str]:
    return [*kept(folder, "--nproc-per-node", str(count), every=every, script=SCRIPT), *arguments]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained without an interruption."""
    folder = tmp_path_factory.mktemp("whole")
    ended([sys.executable, "-m", "hasten", "run", "--no-plan", "--nproc-per-node", "2", str(SCRIPT)], folder)
    return folder


def assert_same_end(whole: Path, parts: Path) -> None:
    for name in WRITTEN:
        assert (parts / name).read_bytes() == (whole / name).read_bytes(), name


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Killed in its middle."""
    folder = tmp_path_factory.mktemp("half")
    killed(ranks(folder), folder, 60, least=8, of="rank-1")
    return folder


def copy_of(half: Path, place: Path) -> Path:
    shutil.copytree(half / "kept", place / "kept")
    return place


def steps_of(folder: Path, rank: int) -> list[int]:
    return sorted(step_of(path) for path in (folder / "kept" / f"rank-{rank}").glob("step-*.checkpoint"))


@pytest.mark.thorough  # those of tests/machines do the same on two hosts
def test_they_end_as_if_they_had_not_been_killed(whole: Path, tmp_path: Path) -> None:
    killed(ranks(tmp_path), tmp_path, 50, of="rank-1")
    again = continued(ranks(tmp_path), tmp_path)
    assert again.stderr.count("going on after step") == 1
    assert_same_end(whole, tmp_path)


@pytest.mark.thorough
def test_a_signal_stops_all_after_the_same_step(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLEEP", "0.03")  # the ranks have half a second to hear of it
    command = ranks(tmp_path, every="1h")
    said = killed(command, tmp_path, 20, signal.SIGTERM, least=0, code=128 + signal.SIGTERM)
    assert "stopped after step" in said
    assert steps_of(tmp_path, 0) == steps_of(tmp_path, 1) != []
    continued(command, tmp_path)
    assert_same_end(whole, tmp_path)


@pytest.mark.thorough
def test_by_the_clock_all_take_theirs_after_the_same_step(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLEEP", "0.03")
    command = ranks(tmp_path, every="0.2s")
    killed(command, tmp_path, 70, of="rank-1")
    continued(command, tmp_path)
    assert_same_end(whole, tmp_path)


@pytest.mark.thorough
def test_a_file_that_rank_0_writes_again_is_read_by_others(tmp_path: Path) -> None:
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    command = ranks(tmp_path / "parts", "looks")
    ended(ranks(tmp_path / "whole", "looks"), tmp_path / "whole")
    killed(command, tmp_path / "parts", 50, of="rank-1")
    continued(command, tmp_path / "parts")
    assert_same_end(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.thorough
def test_another_number_of_them_is_refused(half: Path, tmp_path: Path) -> None:
    folder = copy_of(half, tmp_path)
    refused = ended(ranks(folder, count=1), half, code=2)
    assert "are of a training in 2 processes, and this one is in 1" in refused.stderr


@pytest.mark.thorough
def test_a_step_that_not_all_have_does_not_count(half: Path, tmp_path: Path) -> None:
    folder = copy_of(half, tmp_path)
    *_, before, newest = steps_of(folder, 1)
    (folder / "kept" / "rank-1" / f"step-{newest:012d}.checkpoint").unlink()
    assert f"going on after step {before} " in continued(ranks(folder), half).stderr


@pytest.mark.thorough
def test_a_damaged_one_is_set_aside_for_all(half: Path, tmp_path: Path) -> None:
    folder = copy_of(half, tmp_path)
    *_, before, newest = (step for step in steps_of(folder, 1) if step in steps_of(folder, 0))
    path = folder / "kept" / "rank-1" / f"step-{newest:012d}.checkpoint"
    path.write_bytes(path.read_bytes()[:-9])
    refused = ended(ranks(folder), half, code=2)
    assert f"{path} is cut short or was changed" in refused.stderr
    assert f"going on after step {before} " in continued(ranks(folder), half).stderr


@pytest.mark.thorough
def test_a_rank_without_a_folder_ends_the_restart(half: Path, tmp_path: Path) -> None:
    folder = copy_of(half, tmp_path)
    shutil.rmtree(folder / "kept" / "rank-1")
    refused = ended(ranks(folder), half, code=2)
    assert "must be one that all hosts share" in refused.stderr


MEETING = """\
import os, sys
import torch.distributed as dist
import torch
from hasten.inside.checkpoints.same_step import SameStep
from hasten.inside.seams import Seams
from hasten.records.run_checkpoints import RunCheckpoints
rank, step = int(os.environ["RANK"]), int(sys.argv[1])
def stop(error):
    print(error, flush=True)
    os._exit(3)
SameStep(RunCheckpoints("/kept", 1.0, rank=rank, ranks=2), step, stop).install(torch, Seams())
dist.init_process_group("gloo", rank=rank, world_size=2, init_method=f"file://{sys.argv[2]}")
print("together")
"""


@pytest.mark.parametrize(("steps", "code"), [((14, 14), 0), ((14, 21), 3)])
def test_ranks_of_different_steps_are_stopped_when_they_meet(
    tmp_path: Path, steps: tuple[int, int], code: int
) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", MEETING, str(step), str(tmp_path / "meeting")],
            env={**os.environ, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank, step in enumerate(steps)
    ]
    for one in started:
        said, _ = one.communicate(timeout=PATIENCE_SECONDS)
        assert one.returncode == code
        assert ("rank 0: 14, rank 1: 21" in said) == (code == 3)
        assert ("together" in said) == (code == 0)


@pytest.mark.thorough
def test_what_ranks_wrote_is_whole(half: Path) -> None:
    assert json.loads((half / "kept" / "run.json").read_text())["processes"] == 2
