"""The command line of mpirun."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasten.launch.openmpi import find_mpirun, render

COMMAND = ["python", "train.py"]


def test_open_mpi_binds_nothing_and_counts_no_slots() -> None:
    made = render("/bin/mpirun", "mpirun (Open MPI) 5.0.11", 4, COMMAND, as_root=False)
    assert made == ["/bin/mpirun", "-n", "4", "--bind-to", "none", "--oversubscribe", *COMMAND]


def test_open_mpi_refuses_root_unless_told() -> None:
    made = render("/bin/mpirun", "mpirun (Open MPI) 5.0.11", 4, COMMAND, as_root=True)
    assert "--allow-run-as-root" in made


def test_others_know_none_of_its_options() -> None:
    made = render("/bin/mpirun", "HYDRA build details: Version: 4.2", 2, COMMAND, as_root=True)
    assert made == ["/bin/mpirun", "-n", "2", *COMMAND]


def test_the_one_beside_python_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("env", "usr"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mpirun").write_text("#!/bin/sh\n")
        (tmp_path / folder / "mpirun").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "usr"))
    assert find_mpirun(str(tmp_path / "env" / "python")) == str(tmp_path / "env" / "mpirun")
    assert find_mpirun(str(tmp_path / "none" / "python")) == str(tmp_path / "usr" / "mpirun")
    monkeypatch.setenv("PATH", "")
    assert find_mpirun(str(tmp_path / "none" / "python")) == ""
