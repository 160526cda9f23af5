"""Which torch is installed and what it was built for, without importing it."""

from __future__ import annotations

import re
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path

from hasten.machine.probe import text_of
from hasten.records.diagnosis import TorchBuild


def torch_build() -> TorchBuild:
    """Reads torch/version.py, which torch's own build writes."""
    spec = PathFinder.find_spec("torch")
    if spec is None or spec.origin is None:
        return TorchBuild("")
    return read_build(text_of(Path(spec.origin).with_name("version.py")))


def torch_version() -> str:
    """As ``torch.__version__`` says it: "2.9.0+cu128". The metadata of its package may leave out "+cu128".

    Raises PackageNotFoundError if there is no torch.
    """
    return torch_build().version or metadata.version("torch")


def read_build(text: str) -> TorchBuild:
    """``text``: of torch/version.py. What it does not contain is ""."""
    found = dict(re.findall(r"^(__version__|cuda|hip)\b[^=]*=\s*['\"]([^'\"]*)['\"]", text, re.MULTILINE))
    return TorchBuild(found.get("__version__", ""), found.get("cuda", ""), found.get("hip", ""))
