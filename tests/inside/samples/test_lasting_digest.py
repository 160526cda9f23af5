"""Equal data sets have equal digests, in other processes too; different ones have not."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hasten.inside.samples.lasting_digest import lasting_digest


class Thing:
    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


def test_a_digest_is_of_values_and_not_of_places() -> None:
    def made(**other: Any) -> Thing:
        usual = {
            "paths": [(f"{n}.png", n) for n in range(50)],
            "names": {"x", "y", "z"},
            "rows": np.arange(5),
            "weights": torch.ones(3),
            "call": lambda value: value + 1,
            "path": Path("a"),
            "inner": Thing(a=1),
            "lock": threading.Lock(),
        }
        return Thing(**{**usual, **other})

    usual = lasting_digest(made())
    assert lasting_digest(made()) == usual
    for name, value in {
        "paths": [(f"{n}.png", n + (n == 49)) for n in range(50)],
        "names": {"x", "y"},
        "rows": np.arange(5) * 2,
        "weights": torch.ones(3, dtype=torch.float64),
        "call": lambda value: value + 2,
        "path": Path("b"),
        "inner": Thing(a=2),
    }.items():
        assert lasting_digest(made(**{name: value})) != usual, name


def test_a_digest_is_the_same_in_another_process() -> None:
    code = (
        "import numpy, torch; from hasten.inside.samples.lasting_digest import lasting_digest as d; "
        "print(d({'a': {'x', 'y', 'zz'}, 'b': numpy.arange(4), 'c': ('q', [1.5, None]), 'd': torch.ones(2)}))"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert said[0] == said[1] != ""
