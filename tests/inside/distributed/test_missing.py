"""A backend that is not installed says what to install."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from .ranks import run

THERE = {
    "mpi4py": find_spec("mpi4py") is not None,
    "ccl": Path(sys.prefix, "lib", "libccl.so.2").exists(),
}
SOURCE = """
try:
    start(os.environ["BACKEND"])
except RuntimeError as error:
    print(error)
"""


@pytest.mark.parametrize(("name", "extra"), [("mpi4py", "mpi"), ("ccl", "ccl")])
def test_a_backend_that_is_not_installed(tmp_path: Path, name: str, extra: str) -> None:
    if THERE[name]:
        pytest.skip(f"{name} is installed here")
    (told,) = run(tmp_path, SOURCE, 1, BACKEND=name)
    assert told.stdout.count("\n") == 1
    assert f"pip install 'hasten[{extra}]'" in told.stdout
    assert told.code == 0
