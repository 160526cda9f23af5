"""The version of torch is known without importing it."""

from __future__ import annotations

from importlib import metadata

import pytest
import torch

from hasten.machine import torch_build
from hasten.machine.torch_build import torch_version
from hasten.records.diagnosis import TorchBuild


def test_the_version_is_what_torch_says_whatever_its_packages_metadata_leaves_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: torch.__version__.partition("+")[0])
    assert torch_version() == torch.__version__


def test_where_there_is_no_torch_its_metadata_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_build, "torch_build", lambda: TorchBuild(""))
    monkeypatch.setattr(metadata, "version", lambda name: "2.9.0")
    assert torch_version() == "2.9.0"
