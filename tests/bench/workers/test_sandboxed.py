"""A script that is distributed itself, in trials: its ranks are measured, switched and judged as one."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from hasten.bench.comparing.pairs import PairsBench
from hasten.bench.comparing.steps import Rhythm
from hasten.bench.guard.guard import guard
from hasten.bench.observe import observe
from hasten.bench.stage import Stage
from hasten.bench.trials import Trials
from hasten.bench.whole import train_whole
from hasten.bench.workers.printed_lines import without_gloo
from hasten.errors import ScriptError, WorkerError
from hasten.launch.chosen import OwnRanks
from hasten.machine import this_machine
from hasten.records.plan import BASELINE, Plan
from hasten.report.guard import reasons
from hasten.scripts.distribution import distribution_of
from hasten.scripts.workspace import Script

from ...patience import PATIENCE_SECONDS

pytestmark = [
    pytest.mark.skipif(this_machine().usable_cpus < 2, reason="two ranks need two CPUs"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="trials' sandbox is for Linux"),
]
SHAPE = Path(__file__).parents[2] / "scripts" / "shapes" / "ddp_torchrun.py"
GROUP = 'dist.init_process_group("gloo")'
FUSED = Plan({"fused_optimizer": {"form": "fused"}})


@contextmanager
def trials_of(folder: Path, extra: str = "", group: str = GROUP, epochs: int = 20) -> Iterator[Trials]:
    """Of the shape with DistributedDataParallel, in two ranks. ``extra``: lines before its training;
    ``group``: what makes its process group.
    """
    script = Script(folder / "script" / "train.py", ())
    script.path.parent.mkdir()
    source = SHAPE.read_text().replace("    torch.manual_seed(0)\n", f"    torch.manual_seed(0)\n{extra}")
    source = source.replace(GROUP, group)
    script.path.write_text(source.replace("range(4)", f"range({epochs})"))
    stage = Stage(
        argv=script.argv,
        machine=this_machine(),
        environment={**os.environ, "PYTHONUNBUFFERED": "1"},  # they are killed at the end
        folders=(str(script.path.parent),),
        own_ranks=OwnRanks(2, distribution_of(script)),
    )
    with Trials(stage, folder / "output") as trials:
        yield trials


def test_a_switch_comes_to_all_ranks_at_the_same_step(tmp_path: Path) -> None:
    with trials_of(tmp_path) as trials, trials.worker() as worker:
        worker.wait_started()
        for plan in (FUSED, BASELINE, Plan({"bf16": {}}), FUSED):
            assert worker.switch(plan) == ""
            assert len(worker.steps(3)) == 3
            assert all(proof.effective for proof in worker.proofs())
        seen = worker.observation()
    assert [root.name.rpartition(".")[2] for root in seen.roots] == ["Sequential"]
    printed = without_gloo((tmp_path / "output/worker-001.stdout").read_text().splitlines())
    assert [line.split()[1] for line in printed] == [str(step) for step in range(1, 13)], "rank 0's alone"


@pytest.mark.thorough
def test_ranks_are_watched_as_one_process_is(tmp_path: Path) -> None:
    with trials_of(tmp_path) as trials:
        observation, rhythm = observe(trials, steps=8, warmup_steps=2)
    assert len(observation.steps) == 8
    assert (observation.batch_size, rhythm.cycle) == (30, 1)
    assert [optimizer.name for optimizer in observation.optimizers] == ["SGD"]
    assert sum(sum(step.phases.values()) for step in observation.steps) == pytest.approx(
        sum(step.seconds for step in observation.steps)
    )


def test_ranks_train_to_their_end(tmp_path: Path) -> None:
    with trials_of(tmp_path, epochs=1) as trials:
        pattern = re.compile(r"^step \S+ ([0-9.e-]+)")
        run = train_whole(trials, FUSED, 1, pattern, "loss", timeout=PATIENCE_SECONDS)
    assert run.failure == ""
    assert run.steps == len(run.courses["loss"]) == 1200 // 30 // 2
    assert run.courses["loss"][-1].value == pytest.approx(run.losses[-1]), "rank 0 is who prints"
    assert run.remarks == ()


@pytest.mark.parametrize("asking", ["os.environ['RANK']", "os.environ.get('LOCAL_RANK')"])
def test_a_rank_that_is_started_alone_says_how_to_start_it(asking: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"import os\nrank = int({asking})\n")
    stage = Stage((str(script),), this_machine(), dict(os.environ), (str(tmp_path),))
    with (
        Trials(stage) as trials,
        pytest.raises(ScriptError, match="by --nproc-per-node N, before the script"),
    ):
        observe(trials)


def test_what_one_rank_refuses_is_in_force_in_none(tmp_path: Path) -> None:
    """The second rank's optimizer has no fused form."""
    alone = "    if dist.get_rank():\n        torch.optim.SGD = type('Own', (torch.optim.SGD,), {})\n"
    with trials_of(tmp_path, alone) as trials, trials.worker() as worker:
        worker.wait_started()
        assert worker.switch(FUSED).startswith("fused_optimizer: ")
        assert worker.plan == BASELINE
        assert len(worker.steps(3)) == 3
        assert worker.proofs() == ()


@pytest.mark.thorough
def test_ranks_share_what_one_of_them_loads_down(tmp_path: Path) -> None:
    loading = """
    import pathlib
    here = pathlib.Path(__file__).parent / "data.txt"
    if dist.get_rank() == 0:
        here.write_text("prepared")
    dist.barrier()
    assert here.read_text() == "prepared"
"""
    with trials_of(tmp_path, loading) as trials, trials.worker() as worker:
        worker.wait_started()
        if worker.protection != "overlay":
            pytest.skip("no overlay can be had here, so nothing can be written aside")
        trials.keep_preparations(worker)
        with trials.worker(FUSED) as other:
            other.wait_started()
    assert not (tmp_path / "script" / "data.txt").exists()


def test_a_rank_that_ends_is_a_failed_trial(tmp_path: Path) -> None:
    ends = "    if dist.get_rank():\n        os.kill(os.getpid(), 9)\n"
    with trials_of(tmp_path, ends) as trials, trials.worker() as worker, pytest.raises(WorkerError):
        worker.wait_started(60)
    said = (tmp_path / "output/worker-001.stderr").read_text()
    assert f"rank 1 of 2 was killed by {signal.SIGKILL.name}" in said


@pytest.mark.parametrize(
    "group",
    [
        pytest.param(f"os.environ['MASTER_PORT'] = '29417'\n    {GROUP}", marks=pytest.mark.thorough),
        "dist.init_process_group('gloo', init_method='tcp://127.0.0.1:29417', "
        "rank=int(os.environ['RANK']), world_size=int(os.environ['WORLD_SIZE']))",
    ],
    ids=["env", "tcp"],
)
def test_a_pair_is_two_launches_side_by_side(tmp_path: Path, group: str) -> None:
    """Each has a port of its own, also where the script always names the same."""
    rhythm = Rhythm(evaluations=0, restarts=0, cycle=1, cycle_seconds=0.01)
    with trials_of(tmp_path, group=group) as trials:
        trial = PairsBench(trials, rhythm).compare(BASELINE, Plan({"malloc": {}}), pairs=1)
    assert trial.failure is None
    assert len(trial.log_ratios) == 1


@pytest.mark.thorough
def test_the_guard_judges_all_ranks(tmp_path: Path) -> None:
    with trials_of(tmp_path) as trials:
        verdict = guard(trials, FUSED, False, "float32", seed=0, steps=20)
    assert verdict.passed, reasons(verdict)
    assert verdict.numerics.steps


def test_a_rank_sees_its_share_of_the_machine(tmp_path: Path) -> None:
    with trials_of(tmp_path) as trials:
        assert trials.stage.seen.usable_cpus == trials.stage.machine.usable_cpus // 2
        assert replace(trials.stage, own_ranks=None).seen == trials.stage.machine
