"""A script that reads, or asks for the size of its terminal, does so under hasten, too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ..attack.terminal import COLUMNS, LINES, at_terminal
from ..patience import PATIENCE_SECONDS
from ..quickly import quickly
from .conftest import Project

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="as the kernel of Linux gives terminals"),
    pytest.mark.attack("files"),
]

TRAINS = quickly("""
import torch
torch.set_num_threads(1)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for step in range(60):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).sum().backward()
    optimizer.step()
""")
ASKS_SIZE = """
import os, shutil, subprocess, sys
rows, columns = os.popen("stty size", "r").read().split()
told = os.get_terminal_size(), shutil.get_terminal_size(), os.get_terminal_size(0)
print("SIZES", rows, columns, *{(size.columns, size.lines) for size in told}, file=sys.stderr, flush=True)
"""
READS = """
import sys
print("READ", sys.stdin.readline().strip(), sys.stdin.read().split(), file=sys.stderr, flush=True)
"""
OPTIONS = ("--steps", "5", "--warmup", "1", "train.py")


def test_a_script_that_asks_for_its_terminals_size_is_profiled(project: Project) -> None:
    project.write("train.py", ASKS_SIZE + TRAINS)
    with at_terminal(project, "profile", *OPTIONS) as hasten:
        assert hasten.end() == 0, hasten.said
        assert f"SIZES {LINES} {COLUMNS} ({COLUMNS}, {LINES})\n" in hasten.said
        assert hasten.settings_now() == hasten.settings


def test_a_tune_at_a_terminal_knows_its_size_where_the_output_goes_into_files(project: Project) -> None:
    project.write("train.py", ASKS_SIZE + "raise SystemExit(3)")
    with at_terminal(project, "tune", "--budget", "60", "train.py") as hasten:
        assert hasten.end() == 1
    (said,) = (project.folder / ".hasten").rglob("worker-001.stderr")
    assert said.read_text() == f"SIZES {LINES} {COLUMNS} ({COLUMNS}, {LINES})\n"


@pytest.mark.parametrize("how", ["a pipe", pytest.param("a file", marks=pytest.mark.thorough)])
def test_what_is_piped_is_read(project: Project, how: str) -> None:
    project.write("train.py", READS + TRAINS)
    answers = project.write("answers", "first\nsecond third\n")
    if how == "a pipe":
        done = project.hasten("profile", *OPTIONS, stdin=answers.read_text())
    else:
        with answers.open() as file:
            done = subprocess.run(
                [sys.executable, "-m", "hasten.cli.main", "profile", *OPTIONS],
                cwd=project.folder, env=project.environment, stdin=file, capture_output=True, text=True,
                timeout=PATIENCE_SECONDS, check=False,
            )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "READ first ['second', 'third']\n" in done.stderr


@pytest.mark.parametrize(
    ("asks", "advised"),
    [("input('go on? ')", True), ("import getpass; getpass.getpass()", True), ("raise KeyError('x')", False)],
)
def test_an_error_at_a_terminal_names_what_was_replaced(project: Project, asks: str, advised: bool) -> None:
    project.write("train.py", asks)
    with at_terminal(project, "profile", "train.py") as hasten:
        assert hasten.end() == 1
        said = hasten.said
    replaced = "its standard input was a terminal of the same size at which nothing is typed"
    assert f"raised an error of its own (hasten changed nothing in this run but that {replaced})" in said
    assert ("hasten tune SCRIPT < FILE" in said) == advised


def test_an_end_at_a_terminal_names_what_was_replaced(project: Project) -> None:
    project.write("train.py", "import sys\nsys.exit(0 if sys.stdin.readline() else 4)")
    with at_terminal(project, "profile", "train.py") as hasten:
        assert hasten.end() == 1
        assert "(its standard input was a terminal of the same size at which nothing is typed)" in hasten.said


def test_where_there_is_no_input_nothing_was_replaced(project: Project) -> None:
    project.write("train.py", "input()")
    with project.start("profile", "train.py") as process:
        _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert "(hasten changed nothing in this run):" in said


def test_what_the_user_types_meanwhile_is_the_shells(project: Project) -> None:
    project.write("train.py", "import sys; print('READ', repr(sys.stdin.read()), flush=True)")
    with at_terminal(project, "profile", "train.py") as hasten:
        hasten.type(b"ls\n")
        hasten.end()
        assert "READ ''" in hasten.said
        os.set_blocking(hasten.theirs, False)
        assert os.read(hasten.theirs, 100) == b"ls\n"


@pytest.mark.parametrize("ranks", ["0", "1"])
def test_ranks_of_a_run_know_the_terminals_size(project: Project, ranks: str) -> None:
    """Those that the script makes itself, as under torchrun."""
    asks = "import os\nif os.environ['RANK'] == RANK:" + ASKS_SIZE.replace("\n", "\n    ")
    project.write("train.py", asks.replace("RANK:", f"'{ranks}':"))
    with at_terminal(
        project, "run", "--nproc-per-node", "2", "--ranks", "script", "--no-plan", "train.py"
    ) as hasten:
        assert hasten.end() == 0, hasten.said
        assert f"SIZES {LINES} {COLUMNS} " in hasten.said


def test_rank_0_of_a_run_has_the_users_own_input(project: Project) -> None:
    reads = "import os, sys\nprint('RANK', os.environ['RANK'], repr(sys.stdin.read()), flush=True)"
    project.write("train.py", reads)
    words = ("run", "--nproc-per-node", "2", "--ranks", "script", "--no-plan", "train.py")
    done = project.hasten(*words, stdin="typed")
    assert set(done.stdout.splitlines()) == {"RANK 0 'typed'", "RANK 1 ''"}


def test_a_run_of_one_process_has_the_users_own_input(project: Project) -> None:
    project.write("train.py", READS + TRAINS)
    with at_terminal(project, "run", "--use", "zero_grad_to_none", "train.py") as hasten:
        hasten.type(b"first\nsecond third\n\x04")
        assert hasten.end() == 0, hasten.said
        assert "READ first ['second', 'third']\n" in hasten.said


SHARED = """
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
torch.set_num_threads(1)
x = torch.randn(64, 6)
model = torch.nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for inputs, in DataLoader(TensorDataset(x), batch_size=8):
    optimizer.zero_grad()
    model(inputs).mean().backward()
    optimizer.step()
print("WEIGHT", scale, flush=True)
"""


@pytest.mark.thorough
def test_all_ranks_that_share_a_training_read_what_is_piped(project: Project) -> None:
    project.write("train.py", "import sys\nscale = float(sys.stdin.read())\n" + SHARED)
    done = project.hasten("run", "--nproc-per-node", "2", "train.py", stdin="0.5")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "WEIGHT 0.5\n"


@pytest.mark.thorough
def test_all_ranks_that_share_a_training_know_the_terminals_size(project: Project) -> None:
    project.write("train.py", ASKS_SIZE + "scale = rows\n" + SHARED)
    with at_terminal(project, "run", "--nproc-per-node", "2", "train.py") as hasten:
        assert hasten.end() == 0, hasten.said
        assert f"WEIGHT {LINES}\n" in hasten.said
        assert hasten.settings_now() == hasten.settings


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    "asks", ["if 0: input('go on? ')", "for line in sys.stdin: print(line)", "sys.stdin.readline()"]
)
def test_a_terminal_cannot_be_asked_by_ranks(project: Project, asks: str) -> None:
    """Before anything is started, in one line."""
    project.write("train.py", f"import sys\n{asks}\nscale = 1\n{SHARED}")
    with at_terminal(project, "run", "--nproc-per-node", "2", "train.py") as hasten:
        assert hasten.end() == 2, hasten.said
        assert hasten.said.count("\n") == 1
        assert hasten.said.startswith(f"hasten: train.py:2: {asks} may ask at the terminal")


@pytest.mark.thorough
@pytest.mark.attack("truth")
@pytest.mark.parametrize("after", [3, 30])
def test_ranks_that_ask_in_training_read_the_same_from_a_pipe(project: Project, after: int) -> None:
    asking = f"    if step == {after}: rate = float(input())\n"
    source = SHARED.replace("for inputs, in", "rate, scale, step = 0.01, 1, 0\nfor inputs, in")
    source = source.replace(
        "for inputs, in DataLoader(TensorDataset(x), batch_size=8)", "for inputs, in LOADER"
    )
    loader = "loader = DataLoader(TensorDataset(x), batch_size=8, shuffle=True)\n"
    source = source.replace("rate, scale", f"{loader}rate, scale").replace(
        "LOADER", "(b for _ in range(10) for b in loader)"
    )
    source = source.replace(
        "    optimizer.zero_grad()\n", f"    step += 1\n{asking}    optimizer.zero_grad()\n"
    )
    source = source.replace("model(inputs).mean()", "(rate * model(inputs).square().mean())")
    source = source.replace('"WEIGHT", scale', '"WEIGHT", float(f"{model.weight.sum():.5f}")')
    project.write("train.py", source)
    expected = project.python("train.py", stdin="0.5\n")
    done = project.hasten("run", "--nproc-per-node", "2", "train.py", stdin="0.5\n")
    assert expected.returncode == done.returncode == 0, done.stderr
    assert done.stdout == expected.stdout


def test_trials_of_ranks_read_what_is_piped_and_know_the_size(project: Project, tmp_path: Path) -> None:
    """Of a script that makes its ranks itself: rank 0 reads, as in its run."""
    reads = "import os, sys\nprint('RANK', os.environ['RANK'], repr(sys.stdin.read()), file=sys.stderr)\n"
    init = "import torch.distributed as dist\ndist.init_process_group('gloo')\nraise SystemExit(3)\n"
    project.write("train.py", reads + init)
    words = ("tune", "--nproc-per-node", "2", "--budget", "100", "train.py")
    done = project.hasten(*words, stdin="typed")
    assert done.returncode == 1, done.stderr
    (said,) = (project.folder / ".hasten").rglob("worker-001.stderr")
    assert "RANK 0 'typed'\n" in said.read_text()
