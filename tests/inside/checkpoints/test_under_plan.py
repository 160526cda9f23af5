"""A run under a plan that is killed and started again ends as if nothing had happened."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from ...machine.processors import bf16_refused_here
from .restarting import SCRIPT, continued, ended, kept, killed
from .test_restart import assert_same_end, folders

PICTURES = SCRIPT.parent / "pictures.py"
STEPS = 64
PRECISION = () if bf16_refused_here() else ("bf16",)
ALL = (*PRECISION, "channels_last", "fused_optimizer", "dataset_in_ram", "batched_fetch", "evaluation_in_ram")


def using(*techniques: str) -> list[str]:
    return [word for technique in techniques for word in ("--use", technique)]


def without_checkpoints(plan: list[str]) -> list[str]:
    return [sys.executable, "-m", "hasten", "run", *plan, str(PICTURES)]


@pytest.mark.parametrize(
    "techniques",
    [
        ALL,
        pytest.param(("loader_workers:count=1", "gc_control"), marks=pytest.mark.thorough),
        pytest.param(("lazy_dynamo", "frozen_imports"), marks=pytest.mark.thorough),
    ],
    ids="-".join,
)
def test_a_killed_run_ends_as_if_it_had_not_been(tmp_path: Path, techniques: tuple[str, ...]) -> None:
    whole, parts = folders(tmp_path)
    plan = using(*techniques)
    printed = ended(without_checkpoints(plan), whole).stdout.splitlines()
    command = kept(parts, script=PICTURES, plan=plan)
    said = killed(command, parts, random.randrange(STEPS // 2, STEPS - 4))
    assert "cannot be continued" not in said
    again = continued(command, parts)
    assert "no effect" not in again.stderr.replace("gc_control has no effect", "")  # the rest has no garbage
    assert "is left out" not in again.stderr
    rest = again.stdout.splitlines()
    assert rest == printed[len(printed) - len(rest) :]
    assert len(rest) < len(printed)
    assert_same_end(whole, parts)


def test_another_plan_is_refused(tmp_path: Path) -> None:
    killed(kept(tmp_path, script=PICTURES, plan=using("bf16")), tmp_path, 20)
    for plan, now in ((["--no-plan"], "none"), (using("bf16", "channels_last"), "bf16 + channels_last")):
        refused = ended(kept(tmp_path, script=PICTURES, plan=plan), tmp_path, code=2)
        assert f"plan was bf16, and now {now}" in refused.stderr


def test_what_cannot_be_continued_yet_is_left_out_of_the_plan(tmp_path: Path) -> None:
    command = kept(tmp_path, script=PICTURES, plan=using("bf16", "async_save"))
    said = killed(command, tmp_path, 20)
    assert "a run under async_save cannot be continued from a checkpoint yet: left out of the plan" in said
    assert "training under the techniques named by --use: bf16" in said
    strict = ended([*command[:4], "--strict", *command[4:]], tmp_path, code=2)
    assert "as --strict asks" in strict.stderr
