"""What the doctor finds on made-up machines, and what it says on this one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hasten.doctor import examine, of_distribution, of_gpus, protection_here
from hasten.machine.torch_build import read_build, torch_build
from hasten.records.diagnosis import Distribution, TorchBuild
from hasten.records.machine import GpuLinks
from tests.cli.conftest import Project, project  # noqa: F401
from tests.techniques.made_up import machine

CPU_TORCH, CUDA_TORCH = TorchBuild("2.13.0+cpu"), TorchBuild("2.14.1", cuda="13.0")


def hindering(*arguments: object) -> list[str]:
    return [finding.text for finding in examine(*arguments) if finding.hinders]  # type: ignore[arg-type]


def test_nothing_hinders_on_a_machine_that_fits() -> None:
    assert hindering(machine(), CPU_TORCH, "", []) == []
    assert hindering(machine(accelerators=("NVIDIA H200",)), CUDA_TORCH, "", []) == []


@pytest.mark.parametrize(
    ("where", "torch", "said"),
    [
        (machine(), TorchBuild(""), "torch is not installed"),
        (machine(), TorchBuild("2.8.1"), "torch 2.8.1 is too old"),
        (machine(accelerators=("NVIDIA H200",)), CPU_TORCH, "built for CPUs only"),
        (machine(quota_cpus=2.0), CPU_TORCH, "may use 2 CPUs at once, and torch will start 8 threads"),
    ],
)
def test_what_hinders_is_said(where: object, torch: TorchBuild, said: str) -> None:
    (text,) = hindering(where, torch, "", [])
    assert said in text


def test_the_gravest_comes_first_and_what_the_user_set_is_named() -> None:
    found = examine(machine(environment={"OMP_NUM_THREADS": "64"}), CPU_TORCH, "no namespaces", ["busy"])
    assert [finding.hinders for finding in found] == sorted((f.hinders for f in found), reverse=True)
    assert "busy" in found[0].text
    assert "no namespaces" in found[1].text
    assert "OMP_NUM_THREADS=64" in found[-1].text


def test_the_build_is_read_from_the_file_that_torch_writes() -> None:
    import torch

    text = "__version__ = '2.14.1+cu130'\ncuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n"
    assert read_build(text) == TorchBuild("2.14.1+cu130", cuda="13.0")
    found = torch_build()
    assert (found.version, found.cuda) == (torch.__version__, torch.version.cuda or "")


def test_looking_at_the_protection_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "layers").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "layers"))
    monkeypatch.setattr("tempfile.tempdir", None)
    protection_here((str(tmp_path / "work"),))
    assert os.listdir(tmp_path / "layers") == os.listdir(tmp_path / "work") == []


def test_the_verb_reads_the_script_and_runs_nothing(project: Project) -> None:  # noqa: F811
    project.write("train.py", "import torch\nopen('ran', 'w')\nmodel = torch.nn.Linear(2, 2).cuda()\n")
    done = project.hasten("doctor", "--json", "-", "train.py", "--epochs", "3")
    assert done.returncode == 0, done.stderr
    (device,) = json.loads(done.stdout)["hard_coded_devices"]
    assert (device["line"], device["instead"]) == (3, "model = torch.nn.Linear(2, 2).to(device)")
    assert "train.py:3: a device is hard-coded in model = torch.nn.Linear(2, 2).cuda()" in done.stderr
    assert not (project.folder / "ran").exists()
    assert project.left_over() == []


def test_data_parallel_hinders_and_what_replaces_it_is_said(project: Project) -> None:  # noqa: F811
    project.write("train.py", "import torch.nn as nn\nmodel = nn.DataParallel(nn.Linear(2, 2))\n")
    done = project.hasten("doctor", "--json", "-", "train.py")
    assert done.returncode == 0
    told = json.loads(done.stdout)
    assert told["distribution"]["data_parallel"] == "train.py:2: model = nn.DataParallel(nn.Linear(2, 2))"
    (found,) = [finding for finding in told["findings"] if "DataParallel" in finding["text"]]
    assert found["hinders"]
    assert "hasten run --nproc-per-node N" in found["advice"]
    assert "model = DistributedDataParallel(model)" in found["advice"]


def test_a_script_that_is_a_rank_is_told_how_to_start() -> None:
    (found,) = of_distribution(Distribution("ranks", "train.py:3: dist.init_process_group()"))
    assert found.text == "train.py:3: dist.init_process_group() makes the script one of several ranks"
    assert "hasten run --nproc-per-node N" in found.advice
    assert not found.hinders


def test_how_gpus_are_joined_is_said() -> None:
    all_alike = tuple(tuple("X" if a == b else "NV18" for b in range(8)) for a in range(8))
    (found,) = of_gpus(GpuLinks(all_alike))
    assert found.text == "all 8 GPUs are connected by 18 NVLinks each (NV18)"
    mixed = (("X", "NV1", "SYS"), ("NV1", "X", "SYS"), ("SYS", "SYS", "X"))
    assert [finding.text for finding in of_gpus(GpuLinks(mixed))] == [
        "GPU0-GPU1 are connected by 1 NVLink each (NV1)",
        "GPU0-GPU2, GPU1-GPU2 are connected from one CPU to another, the slowest way (SYS)",
    ]
    far = tuple(
        tuple("X" if a == b else "SYS" if a // 4 != b // 4 else "PIX" for b in range(8)) for a in range(8)
    )
    assert "GPU0-GPU4, GPU0-GPU5, GPU0-GPU6, GPU0-GPU7 and 12 more pairs" in of_gpus(GpuLinks(far))[1].text
    assert of_gpus(None) == []
