"""The batch script, and what Slurm's programs say of a job. Real daemons are in tests/machines."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from hasten.errors import UsageError
from hasten.launch.engines import slurm
from hasten.launch.engines.slurm import Slurm, SlurmJob
from hasten.launch.engines.torchrun import ENTRY
from hasten.records.launch_job import Nodes

from .jobs import HOSTILE, HOSTILE_WORDS, JOB

FOUR = replace(JOB, nodes=Nodes(4, 4), nproc_per_node=2, port=0)
SCRIPT = "/home/me/project/.hasten/launches/hasten-0123456789ab.sbatch"

BY_SRUN = """\
#!/bin/bash
#SBATCH --job-name=hasten-0123456789ab
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=2
#SBATCH --no-requeue
set -eu
export OMP_NUM_THREADS=1
export HASTEN_LAUNCHED='{}'
MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"
MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
export MASTER_ADDR MASTER_PORT
if [ -n "${SLURM_CPUS_PER_TASK:-}" ]; then export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"; fi
exec srun --kill-on-bad-exit=1 --cpu-bind=none -- /env/bin/python /lib/hasten/cli/rank_entry.py run \
train.py --lr 1
"""


def test_srun_starts_the_ranks() -> None:
    rendered = Slurm().render(replace(FOUR, options=("--partition=long",)))
    (start,) = rendered.starts
    output = SCRIPT.replace(".sbatch", ".out")
    assert start.argv == (
        *("sbatch", "--parsable", "--export=ALL", "--chdir=/home/me/project", f"--output={output}"),
        *("--partition=long", SCRIPT),
    )
    assert rendered.files == {SCRIPT: BY_SRUN}
    assert rendered.output == output


def test_torchrun_stands_between_where_ranks_may_begin_anew() -> None:
    text = Slurm().render(replace(FOUR, max_restarts=3)).files[SCRIPT]
    assert "#SBATCH --ntasks-per-node=1\n" in text
    assert text.splitlines()[-1] == (
        f"exec srun --kill-on-bad-exit=1 --cpu-bind=none -- /env/bin/python {ENTRY} \"$MASTER_ADDR\" '' "
        '--nnodes 4 --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint "$MASTER_ADDR:$MASTER_PORT" '
        "--rdzv-id hasten-0123456789ab --max-restarts 3 --no-python /env/bin/python "
        "/lib/hasten/cli/rank_entry.py run train.py --lr 1"
    )


def test_one_host_needs_no_place_to_meet() -> None:
    text = Slurm().render(replace(JOB, max_restarts=1)).files[SCRIPT]
    assert f"{ENTRY} '' '' --nnodes 1 --nproc-per-node 1 --standalone" in text


def test_a_place_to_meet_that_is_named_stands() -> None:
    text = Slurm().render(replace(FOUR, address="h7", port=1234)).files[SCRIPT]
    assert "export MASTER_ADDR=h7 MASTER_PORT=1234\n" in text
    assert "scontrol" not in text


def test_a_file_name_of_slurms_own_is_not_filled_in() -> None:
    (start,) = Slurm().render(replace(FOUR, folder="/home/me/50%j")).starts
    assert "--output=/home/me/50%%j/.hasten/launches/hasten-0123456789ab.out" in start.argv


def test_secrets_go_by_the_environment_and_not_into_the_file() -> None:
    job = replace(FOUR, environment={"A_TOKEN": "x"}, secrets=frozenset({"A_TOKEN"}))
    rendered = Slurm().render(job)
    assert "A_TOKEN" not in rendered.files[SCRIPT]
    assert rendered.starts[0].environment == {"A_TOKEN": "x"}


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (replace(FOUR, nodes=Nodes(1, 4)), "slurm does not take --nnodes 1:4: it starts a fixed number"),
        (replace(FOUR, hosts=("h1",)), "slurm does not take --hosts and --hostfile"),
        (replace(FOUR, node_rank=0), "slurm does not take --node-rank"),
    ],
)
def test_what_slurm_does_not_do_is_refused_by_name(job: object, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        Slurm().render(job)  # type: ignore[arg-type]


@pytest.mark.attack("arguments")
@pytest.mark.parametrize("restarts", [0, 1])
@pytest.mark.skipif(shutil.which("bash") is None, reason="the script is bash's")
def test_the_shell_of_the_script_hands_on_what_was_typed(tmp_path: Path, restarts: int) -> None:
    """The script itself is run, by a bash that finds programs of ours in the place of Slurm's."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "srun").write_text('#!/bin/sh\nprintf "%s\\0" "$PYTHONPATH" "$@" > "$TOLD"\n')
    (folder / "scontrol").write_text("#!/bin/sh\nprintf 'h1\\nh2\\n'\n")
    for program in folder.iterdir():
        program.chmod(0o755)
    (text,) = Slurm().render(replace(HOSTILE, hosts=(), port=0, max_restarts=restarts)).files.values()
    told = tmp_path / "told"
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "TOLD": str(told)}
    environment |= {"SLURM_JOB_NODELIST": "h[1-2]", "SLURM_JOB_ID": "12345"}
    subprocess.run(["bash"], input=text, env=environment, cwd=tmp_path, text=True, check=True)
    first, *words, _ = told.read_text().split("\0")
    assert first == HOSTILE.environment["PYTHONPATH"]
    assert tuple(words[-len(HOSTILE_WORDS) :]) == HOSTILE_WORDS
    if restarts:
        assert "h1:22345" in words
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "told"]


SHOWN = (
    "JobId=7 JobName=hasten-1 JobState={} Reason=None ExitCode={} WorkDir=/x/ ExitCode=0:0 JobState=COMPLETED"
)


@pytest.mark.parametrize(
    ("state", "shown", "code"),
    [
        ("PENDING", "", None),
        ("RUNNING", "", None),
        ("COMPLETED", SHOWN.format("COMPLETED", "0:0"), 0),
        ("FAILED", SHOWN.format("FAILED", "9:0"), 9),
        ("CANCELLED", SHOWN.format("CANCELLED", "0:15"), 143),
        ("TIMEOUT", SHOWN.format("TIMEOUT", "0:0"), 1),
        ("", SHOWN.format("COMPLETED", "0:0"), 0),
        ("", "", 1),  # Slurm has forgotten it: how it ended is not known
    ],
)
def test_how_a_job_stands(monkeypatch: pytest.MonkeyPatch, state: str, shown: str, code: int | None) -> None:
    said = {"squeue": f"{state}\n", "scontrol": shown}
    monkeypatch.setattr(slurm, "_asked", lambda program, *_: said[program])
    assert SlurmJob("7").poll() == code
