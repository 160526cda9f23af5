"""Whether a script reads a clock, or input at the terminal, found from its source."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasten.scripts.script_asks import asks_at_terminal, asks_generator, reads_clock
from hasten.scripts.workspace import Script

CLOCKS = [
    "import time\nbegan = time.time()",
    "import time as t\nbegan = t.monotonic()",
    "from time import perf_counter\nbegan = perf_counter()",
    "from time import time as now\nif now() > 5: pass",
    "from time import *\nimport time\nclock = time.perf_counter_ns",
    "import time\nclass Timer:\n    clock = time.process_time",
    "import datetime\nprint(datetime.datetime.now())",
    "from datetime import datetime as d\nuntil = d.utcnow()",
    "import datetime\nif datetime.date.today().day == 1: pass",
    "import lightning\nlightning.Trainer(max_time='00:08:00:00')",
    "def f():\n    import time\n    return time.time()",
]
NO_CLOCKS = ["import time\ntime.sleep(0)", "time = 3\nprint(time)", "print('time.time()')", "x.time = 1"]
ASKS = [
    "answer = input('go on? ')",
    "import sys\nfor line in sys.stdin: pass",
    "import sys\nsys.stdin.readline()",
    "from sys import stdin\nstdin.read()",
    "import sys\nsys.stdin.buffer.read()",
    "import getpass\ngetpass.getpass()",
    "from getpass import getpass as ask\nask()",
    "import click\nclick.confirm('go on?')",
    "def f():\n    while True:\n        if input() == 'q': break",
]
ASKS_NOT = [
    "import sys\nif sys.stdin.isatty(): pass",
    "def input(x): return x\ninput(3)",
    "model.input(3)",
    "input = 3",
    "print('input()')",
]


GENERATOR = [
    "import torch\nkept = torch.default_generator.get_state()",
    "import torch\ntorch.default_generator.manual_seed(3)",
    "from torch import default_generator as g\ng.set_state(kept)",
    "import torch.random\ntorch.random.default_generator.seed()",
]


def written(folder: Path, source: str) -> Script:
    path = folder / "train.py"
    path.write_text(source)
    return Script(path, ())


@pytest.mark.attack("truth")
@pytest.mark.parametrize("source", CLOCKS)
def test_clocks_are_seen(tmp_path: Path, source: str) -> None:
    assert reads_clock(written(tmp_path, source).argv, module=False)


@pytest.mark.attack("truth")
@pytest.mark.parametrize("source", NO_CLOCKS)
def test_what_is_no_clock_is_none(tmp_path: Path, source: str) -> None:
    assert not reads_clock(written(tmp_path, source).argv, module=False)


def test_modules_next_to_it_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("import time\nbegan = time.time()\nname = input()\n")
    script = written(tmp_path, "import helper")
    assert reads_clock(script.argv, module=False)
    assert asks_at_terminal(script) == f"{tmp_path / 'helper.py'}:3: name = input()"


@pytest.mark.attack("truth")
@pytest.mark.parametrize("source", ASKS)
def test_questions_are_seen(tmp_path: Path, source: str) -> None:
    script = written(tmp_path, source)
    assert asks_at_terminal(script).startswith(f"{script.path}:")


@pytest.mark.attack("truth")
@pytest.mark.parametrize("source", ASKS_NOT)
def test_what_is_no_question_is_none(tmp_path: Path, source: str) -> None:
    assert asks_at_terminal(written(tmp_path, source)) == ""


@pytest.mark.attack("truth")
@pytest.mark.parametrize("source", GENERATOR)
def test_torchs_own_generator_is_seen(tmp_path: Path, source: str) -> None:
    script = written(tmp_path, source)
    assert asks_generator(script.argv, module=False).startswith(f"{script.path}:2: ")


def test_other_generators_are_none(tmp_path: Path) -> None:
    source = "import torch\ng = torch.Generator().manual_seed(3)\ntorch.randperm(3, generator=g)"
    assert asks_generator(written(tmp_path, source).argv, module=False) == ""


def test_what_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    script = written(tmp_path, "import (")
    assert not reads_clock(script.argv, module=False)
    assert asks_at_terminal(script) == ""
