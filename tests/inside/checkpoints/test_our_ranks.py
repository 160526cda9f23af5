"""Ranks of a script that knows of none, killed and started again, end as if nothing had happened."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .restarting import SCRIPT, checkpoints, continued, ended, kept, killed

IN_TWO = ("--nproc-per-node", "2")


@pytest.mark.thorough  # tests/machines kills ranks of ours, too
@pytest.mark.parametrize(
    "asked",
    [(), ("workers", "augmentation", "stopping")],
    ids=lambda asked: "-".join(asked) or "plain",
)
def test_they_end_as_if_they_had_not_been_killed(tmp_path: Path, asked: tuple[str, ...]) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    printed = ended([sys.executable, "-m", "hasten", "run", "--no-plan", *IN_TWO, str(SCRIPT), *asked], whole)
    killed([*kept(parts, *IN_TWO), *asked], parts, 50, of="rank-1")
    again = continued([*kept(parts, *IN_TWO), *asked], parts)
    assert printed.stdout.endswith(again.stdout)
    assert 0 < len(again.stdout) < len(printed.stdout)
    for name in ("weights.json", "log.csv"):
        assert (parts / name).read_bytes() == (whole / name).read_bytes(), name


@pytest.mark.thorough
def test_under_a_plan_that_says_how_many(tmp_path: Path) -> None:
    """Only rank 0's files are the script's; all ranks' checkpoints are kept."""
    command = kept(tmp_path, plan=("--use", "processes:count=2", "--use", "fused_optimizer"))
    killed(command, tmp_path, 30, of="rank-1")
    assert checkpoints(tmp_path, "rank-0") != []
    said = killed(command, tmp_path, 40, of="rank-1").splitlines()
    assert any("training goes on" in line for line in said)
