"""``hasten run --nproc-per-node``: a script that knows of no ranks, as its user sees it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from hasten.inside.distributed.parting import EXIT_CODE

from ..patience import PATIENCE_SECONDS
from ..quickly import quickly
from .conftest import Project, wait_until

SCRIPT = quickly("""
import os, pathlib, sys, time
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(64, 6)
y = x[:, :1] + 0.1
model = torch.nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for a, b in DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(a), b)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.6f}")
    pathlib.Path("log.txt").open("a").write(f"{epoch}\\n")
    EPOCH
torch.save(model.state_dict(), "model.pt")
""")
ENDLESS = """while True:
        if (rank := os.environ.get("MARK_RANK")) is None:
            os.environ["MARK_RANK"] = "set"
            print("training", file=sys.stderr, flush=True)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()"""


def script(project: Project, at_epoch: str = "") -> None:
    project.environment["OMP_NUM_THREADS"] = "1"  # more only wait for each other beside other tests
    project.write("train.py", SCRIPT.replace("EPOCH", at_epoch or "pass"))


def test_it_prints_and_writes_once_what_one_process_prints(project: Project) -> None:
    script(project)
    alone = project.python("train.py")
    (project.folder / "log.txt").unlink()
    done = project.hasten("run", "--nproc-per-node", "2", "train.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout == alone.stdout
    assert (project.folder / "log.txt").read_text() == "0\n1\n2\n"
    assert (project.folder / "model.pt").exists()
    assert "rehearsing" in done.stderr
    assert project.left_over() == []
    again = project.hasten("run", "--nproc-per-node", "2", "train.py")
    assert "rehearsing" not in again.stderr
    assert again.stdout == alone.stdout


@pytest.mark.thorough
def test_a_plan_with_processes_starts_them(project: Project) -> None:
    script(project)
    project.write(".hasten/train/plan.toml", "format = 1\n[techniques.processes]\ncount = 2\n")
    done = project.hasten("run", "train.py")
    assert done.returncode == 0, done.stderr
    assert "2 ranks, each with its part of every batch" in done.stderr
    assert done.stdout.count("epoch") == 3
    assert "no effect" not in done.stderr


def test_what_slices_do_not_add_up_to_is_refused_before_it_trains(project: Project) -> None:
    script(project)
    path = project.folder / "train.py"
    path.write_text(
        path.read_text().replace("mse_loss(model(a), b)", "mse_loss(model(a), b) * len(a) ** 0.5")
    )
    done = project.hasten("run", "--nproc-per-node", "2", "train.py")
    assert done.returncode == 3
    assert done.stdout == ""
    assert "hasten: train.py cannot be trained by 2 ranks: the gradients of the slices" in done.stderr
    assert done.stderr.count("Traceback") == 0
    assert not (project.folder / "log.txt").exists()


@pytest.mark.thorough
def test_a_rank_that_dies_ends_all_and_is_named(project: Project) -> None:
    """The script tells them apart by where its files go alone, and a rehearsal by what is there by then."""
    if "upperdir" in Path("/proc/self/mountinfo").read_text():
        pytest.skip("the tests run on an overlay themselves")
    script(
        project,
        "pathlib.Path('die').exists() and 'upperdir' in pathlib.Path('/proc/self/mountinfo').read_text()"
        " and os.kill(os.getpid(), 9)",
    )
    assert project.hasten("run", "--nproc-per-node", "2", "train.py").returncode == 0
    project.write("die", "")
    done = project.hasten("run", "--nproc-per-node", "2", "train.py")
    assert done.returncode in (128 + signal.SIGKILL, EXIT_CODE), done.stderr
    assert "rank 1" in done.stderr
    assert "Traceback" not in done.stderr
    assert project.left_over() == []


@pytest.mark.thorough
def test_ctrl_c_leaves_nothing(project: Project) -> None:
    script(project, ENDLESS)
    process = project.start("run", "--nproc-per-node", "2", "train.py")
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if line.startswith("training"):
            break
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode in (130, -signal.SIGINT), lines
    wait_until(lambda: project.left_over() == [])
    assert [name for name in os.listdir("/dev/shm") if name.startswith("hasten")] == []


@pytest.mark.thorough
def test_the_shipped_example_prints_once(project: Project) -> None:
    example = Path(__file__).parents[2] / "examples" / "fashion_cnn.py"
    done = project.hasten("run", "--nproc-per-node", "2", str(example), "--epochs", "1", "--seed", "1")
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["epoch", "accuracy"]
    assert float(done.stdout.split()[-1]) > 0.7
    assert done.stderr.count("ranks") == 1


@pytest.mark.attack("files")
@pytest.mark.thorough
def test_files_outside_the_project_are_written_once(project: Project) -> None:
    """Neither the rehearsal nor ranks other than 0 leave a line in a log that lies elsewhere."""
    elsewhere = project.folder.parent / "elsewhere"
    elsewhere.mkdir()
    log = elsewhere / "log.txt"
    script(project, f"pathlib.Path({str(log)!r}).open('a').write(f'{{epoch}}\\n')")
    done = project.hasten("run", "--nproc-per-node", "2", "train.py")
    assert done.returncode == 0, done.stderr
    assert log.read_text() == "0\n1\n2\n"
    assert sorted(path.name for path in elsewhere.iterdir()) == ["log.txt"]
