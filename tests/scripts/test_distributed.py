"""The textbook's distributed scripts run unmodified under ``hasten run``, and train as they do without."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..cli.conftest import Project
from ..patience import PATIENCE_SECONDS
from ..thorough import cases

SCRIPTS = Path(__file__).parent / "distributed"
MISSING_MPI = "" if importlib.util.find_spec("mpi4py") else "mpi4py is not installed"
MISSING_CCL = "" if Path(sys.prefix, "lib", "libccl.so.2").exists() else "oneCCL is not installed"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path)
    yield made
    made.end_all()


def run(project: Project, name: str, *options: str) -> subprocess.CompletedProcess[str]:
    script = str(SCRIPTS / f"{name}.py")
    return project.hasten("run", "--no-plan", "--nproc-per-node", "2", *options, script)


def ends(printed: str) -> list[str]:
    """What each rank's parameters sum up to."""
    lines = [line for line in printed.splitlines() if " ends with " in line]
    assert [line.split()[1] for line in sorted(lines)] == ["0", "1"]
    return [line.split()[-1] for line in lines]


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["gloo_torchrun", "gloo_pinned"])
def test_gloo_as_under_torchrun(project: Project, name: str) -> None:
    script = str(SCRIPTS / f"{name}.py")
    words = ["--no-python", sys.executable, script]  # its own way is `python -u`, which tears lines apart
    there = project.python("-m", "torch.distributed.run", "--nproc-per-node", "2", *words)
    done = run(project, name)
    assert done.returncode == there.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(there.stdout.splitlines())
    assert done.stderr.startswith("hasten: 2 ranks as under torchrun (")
    assert "a step trains on 2 times as many samples as in one process" in done.stderr
    assert project.left_over() == []


INSTEAD = [
    *("mpi_mpirun by shm", "oneccl_bindings by gloo", "gloo_torchrun by shm"),
    *("gloo_pinned by shm", "mpi_pinned by gloo", "oneccl_by_torch by shm", "oneccl_by_torch by gloo"),
]


@pytest.mark.parametrize("how", cases(INSTEAD, INSTEAD[:1]))
def test_another_backend_stands_in(project: Project, how: str) -> None:
    name, _, instead = how.partition(" by ")
    done = run(project, name, "--backend", instead)
    assert done.returncode == 0, done.stderr
    first, second = ends(done.stdout)
    assert first == second
    assert project.left_over() == []


@pytest.mark.thorough
def test_a_plan_applies_in_each_rank_and_is_spoken_of_once(project: Project) -> None:
    """The model inside DistributedDataParallel is what is trained."""
    script = str(SCRIPTS / "gloo_torchrun.py")
    use = ["--use", "compile", "--use", "fused_optimizer", "--use", "optimizer_in_backward"]
    done = project.hasten("run", *use, "--nproc-per-node", "2", script)
    assert done.returncode == 0, done.stderr
    first, second = ends(done.stdout)
    assert first == second
    _, _, *remarks = done.stderr.splitlines()
    assert remarks == [
        "hasten: optimizer_in_backward does not apply here and is left out: gradients are averaged over "
        "ranks after they have arrived"
    ]


@pytest.mark.skipif(bool(MISSING_MPI), reason=MISSING_MPI)
@pytest.mark.parametrize("name", cases(["mpi_mpirun", "mpi_pinned"], {"mpi_mpirun"}))
def test_mpi_is_started_by_mpirun(project: Project, name: str) -> None:
    done = run(project, name)
    assert done.returncode == 0, done.stderr
    assert "hasten: 2 ranks by mpirun (" in done.stderr
    assert ends(done.stdout) == ends(run(project, name, "--backend", "gloo").stdout)


@pytest.mark.skipif(bool(MISSING_MPI), reason=MISSING_MPI)
@pytest.mark.parametrize("name", ["mpi_mpirun", pytest.param("gloo_torchrun", marks=pytest.mark.thorough)])
def test_a_rank_of_mpirun_is_a_rank_of_the_script(project: Project, name: str) -> None:
    mpirun = shutil.which("mpirun", path=str(Path(sys.executable).parent)) or "mpirun"
    options = ["-n", "2", "--bind-to", "none", "--oversubscribe", "--allow-run-as-root"]
    done = subprocess.run(
        [mpirun, *options, sys.executable, "-m", "hasten.cli.main", "run", str(SCRIPTS / f"{name}.py")],
        cwd=project.folder,
        env=project.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert ends(done.stdout) == ends(run(project, name, "--backend", "gloo").stdout)


@pytest.mark.skipif(bool(MISSING_CCL), reason=MISSING_CCL)
@pytest.mark.parametrize("name", cases(["oneccl_bindings", "oneccl_by_torch"], {"oneccl_bindings"}))
def test_oneccl_is_bound_by_ours(project: Project, name: str) -> None:
    done = run(project, name)
    assert done.returncode == 0, done.stderr
    assert ends(done.stdout) == ends(run(project, name, "--backend", "gloo").stdout)


@pytest.mark.skipif(not MISSING_MPI, reason="mpi4py is installed")
def test_a_backend_that_is_not_installed_is_told_with_the_extra(project: Project) -> None:
    done = run(project, "mpi_mpirun")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "mpi_mpirun.py:7: " in done.stderr
    assert "pip install 'hasten[mpi]', or use another with --backend shm (or gloo)" in done.stderr


@pytest.mark.skipif(not MISSING_CCL, reason="oneCCL is installed")
def test_so_are_the_bindings_of_oneccl(project: Project) -> None:
    done = run(project, "oneccl_bindings")
    assert done.returncode == 2
    assert "oneccl_bindings.py:5: " in done.stderr
    assert "pip install 'hasten[ccl]'" in done.stderr
