"""Who may import whom. Read from the source: a forbidden import is found even where no test runs it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import hasten

PACKAGE = Path(hasten.__file__).parent
SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if "examples" not in path.parts)

PLAIN = {
    "errors",
    "saying",
    "safe_files",
    "lost_writes",
    "units",
}  # which any room of the coordinator may import
BELOW_BENCH = {"records", "inside", "machine", "scripts", "launch", *PLAIN}
ROOMS = {  # room, or module next to the rooms: the only ones of ours that it may import from, itself included
    "": {"records", "inside", "in_process"},
    "__main__": {"cli"},
    "records": {"records"},
    "errors": set[str](),
    "saying": set[str](),
    "safe_files": {"errors"},
    "lost_writes": {"errors"},
    "units": set[str](),
    "inside": {"inside", "records", "saying", "units"},
    "backends": {"inside"},
    "testing": {"testing", "inside", "records"},
    "machine": {"machine", "records"},
    "causes": {"causes", "records"},
    "scaling": {"scaling", "records", *PLAIN},
    "scripts": {"scripts", "inside", "records", *PLAIN},
    "lock": {"scripts", *PLAIN},
    "doctor": {"scripts", "inside", "records"},
    "launch": {"launch", "scripts", "machine", "inside", "records", *PLAIN},
    "plans": {"plans", "report", *BELOW_BENCH},
    "in_process": {"plans", "machine", "inside", "records", *PLAIN},
    "bench": {"bench", *BELOW_BENCH},
    "tuning": {"tuning", "bench", "plans", "causes", "lock", "__version__", *BELOW_BENCH},
    "quality": {"quality", "bench", "plans", "lock", *BELOW_BENCH},
    "report": {"report", "records", "errors", "saying", "units"},
}
ABOVE_ALL = "cli"  # may import everything
# Within a room, lowest first: each may import from itself and from those before it, and two on one floor not
# from each other. "*": all modules that are in none of these rooms and are not named themselves.
FLOORS: dict[str, tuple[str | tuple[str, ...], ...]] = {
    "inside": (
        *("package", "process", "internals", "*", "sandbox", "samples", "observing", "guarding"),
        *("distributed", "techniques", "switch", ("run_watch", "run_tune", "checkpoints")),
        *("worker", "bootstrap"),
    ),
    "launch": ("*", "engines", ("chosen", "ray_entry")),
    "bench": (
        *("workers", "*", ("comparing", "guard"), "observe", "step_costs"),
        *("script_bench", "whole", "fake"),
    ),
}
ROOMS_OF_ROOMS = {f"hasten.{room}" for room in FLOORS}
FLOOR_OF = {  # by room: the number of each of its floors
    room: {
        name: n for n, floor in enumerate(floors) for name in ([floor] if isinstance(floor, str) else floor)
    }
    for room, floors in FLOORS.items()
}
# of a floor above: for the name of its type alone
ONLY_NAMED = {"hasten.inside.training": "hasten.inside.distributed.this_rank"}
PIPELINE = "hasten.tuning.pipeline"  # which nothing else of its room may import
LIBRARIES = {  # room: what it may import besides the standard library, and only inside a function
    "records": set[str](),
    "inside": {"torch", "numpy"},
    "report": {"rich"},
}
EXCEPTIONS = {  # module: a library besides; refused with the extra to install where it is absent
    # which layers must be cut together is a graph of every operator there is: not to be written again
    "hasten.inside.techniques.support.cutting": {"torch_pruning"},
    "hasten.inside.distributed.backends.mpi": {"mpi4py"},
    # only where a picture is asked for
    "hasten.report.scaling_plot": {"matplotlib"},
    # pictures that are read back were made by the script's own
    "hasten.inside.samples.stored_form": {"PIL"},
}
# of other rooms: it reads files of the kernel's, and needs nothing but what reads them, too
EXCEPTION_OF_OURS = {"hasten.inside.run_watch.run_watch": "hasten.machine.run_facts"}
# not imported before torch is: their classes are torch's, or every line speaks of its dtypes
AFTER_TORCH = (
    *("hasten.inside.distributed.", "hasten.inside.guarding.doubled"),
    *("hasten.inside.internals.dispatch", "hasten.inside.internals.groups"),
    "hasten.inside.internals.late_tensor",
)


@dataclass(frozen=True)
class Import:
    """One imported module by its absolute name. ``eager``: executed when the importing module is."""

    module: str
    line: int
    eager: bool

    @property
    def top(self) -> str:
        return self.module.split(".")[0]


def module_name(path: Path) -> str:
    parts = ("hasten", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts)


def room_of(module: str) -> str:
    """hasten.records.plan is in "records", hasten.lock in "lock", hasten itself in ""."""
    return module.split(".")[1] if "." in module else ""


def imports_of(source: str, module: str) -> Iterator[Import]:
    """Every import in ``source``, the text of ``module``; what ``from`` takes is named as a module too."""
    yield from _imports_in(ast.parse(source).body, module, eager=True)


def _imports_in(body: list[ast.stmt], module: str, eager: bool) -> Iterator[Import]:
    for node in body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, eager)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, module)
            # "from .. import errors" names a module of ours in what it takes, not in where it takes it from
            within = base == "hasten" or base in ROOMS_OF_ROOMS
            for alias in node.names:
                yield Import(f"{base}.{alias.name}" if within else base, node.lineno, eager)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _imports_in(node.body, module, eager=False)
        else:
            checked_only = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
            for inner in _blocks(node):
                yield from _imports_in(inner, module, eager and not checked_only)


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The statements nested in a statement: of a class, a try, an except, a with, a match, an if."""
    for _, field in ast.iter_fields(node):
        first = field[0] if isinstance(field, list) and field else None
        if isinstance(first, ast.stmt):
            yield field
        elif isinstance(first, (ast.ExceptHandler, ast.match_case)):
            for part in field:
                yield from _blocks(part)


def _absolute(node: ast.ImportFrom, module: str) -> str:
    if not node.level:
        return node.module or ""
    parts = module.split(".")[: -node.level]
    return ".".join([*parts, *([node.module] if node.module else [])])


def is_exception(module: str, taken: Import) -> bool:
    return EXCEPTION_OF_OURS.get(module) == taken.module


def place_within(module: str) -> str:
    """hasten.inside.samples.rows is in "samples", hasten.inside.job in "*"."""
    _, room, *below = module.split(".")
    return below[0] if below and below[0] in FLOOR_OF[room] else "*"


def is_above(module: str, other: str) -> bool:
    """Whether ``other``, of the same room, is on a floor above that of ``module``, or beside it."""
    here, there = place_within(module), place_within(other)
    floor_of = FLOOR_OF[room_of(module)]
    return here != there and floor_of[there] >= floor_of[here]


def is_out_of_order(module: str, taken: Import) -> bool:
    room = room_of(module)
    if room not in FLOORS or room != room_of(taken.module):
        return False
    only_named = not taken.eager and ONLY_NAMED.get(module) == taken.module
    return is_above(module, taken.module) and not only_named


def violations(source: str, module: str) -> list[str]:
    """What the text of ``module`` imports against the rules, one sentence each."""
    room, found = room_of(module), []
    for taken in imports_of(source, module):
        where = f"{module}:{taken.line}"
        if taken.top == "hasten":
            target = room_of(taken.module)
            if room in ROOMS and target not in ROOMS[room] and not is_exception(module, taken):
                found.append(f"{where}: {room} may not import {taken.module}")
            elif taken.module.startswith(PIPELINE) and room != ABOVE_ALL:
                found.append(f"{where}: only the command line calls the pipeline, not {room}")
            elif is_out_of_order(module, taken):
                found.append(f"{where}: {taken.module} is not on a floor below {place_within(module)}")
        elif room in LIBRARIES and taken.top not in sys.stdlib_module_names:
            if taken.top not in LIBRARIES[room] | EXCEPTIONS.get(module, set()):
                found.append(f"{where}: {room} may not import {taken.module}")
            elif taken.eager and not (taken.top == "torch" and module.startswith(AFTER_TORCH)):
                found.append(f"{where}: {room} may import {taken.module} inside a function only")
    return found


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_a_module_imports_only_what_it_may(path: Path) -> None:
    assert violations(path.read_text(), module_name(path)) == []


def test_every_room_within_a_room_has_its_floor() -> None:
    for room in FLOORS:
        within = {path.parent.name for path in PACKAGE.glob(f"{room}/*/__init__.py")}
        assert {name for name in within if place_within(f"hasten.{room}.{name}.x") == "*"} == set()


def test_every_room_is_looked_at() -> None:
    rooms = {room_of(module_name(path).removesuffix(".__init__")) for path in SOURCES}
    assert rooms == {*ROOMS, ABOVE_ALL}


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("hasten.records.plan", "from ..errors import HastenError"),
        ("hasten.records.plan", "from .. import errors"),
        ("hasten.records.plan", "import hasten.errors"),
        ("hasten.records.plan", "from .. import __version__"),
        ("hasten.records.plan", "from hasten.inside.job import Job"),
        ("hasten.records.plan", "def f():\n    import torch"),
        ("hasten.records.plan", "class C:\n    import numpy"),
        ("hasten.inside.worker.worker", "from ...errors import Refusal"),
        ("hasten.inside.worker.worker", "from ...bench.stage import Stage"),
        ("hasten.inside.techniques.bf16", "from ...machine import this_machine"),
        ("hasten.inside.run_watch.run_watch", "from ...machine import this_machine"),
        ("hasten.inside.run_watch.causes", "from ...machine.run_facts import run_facts"),
        ("hasten.inside.techniques.bf16", "import torch"),
        ("hasten.inside.techniques.bf16", "from torch import nn"),
        ("hasten.inside.worker.worker", "try:\n    import numpy\nexcept ImportError:\n    pass"),
        ("hasten.inside.worker.worker", "try:\n    pass\nexcept ImportError:\n    import numpy"),
        ("hasten.inside.worker.worker", "if True:\n    pass\nelse:\n    import numpy"),
        ("hasten.inside.worker.worker", "with open('x'):\n    import numpy"),
        ("hasten.inside.worker.worker", "match 1:\n    case 1:\n        import numpy"),
        ("hasten.inside.worker.worker", "def f():\n    import rich"),
        ("hasten.inside.worker.worker", "def f():\n    from ...launch.local import render"),
        ("hasten.inside.worker.worker", "def f():\n    import torch_pruning"),
        ("hasten.inside.techniques.support.cutting", "import torch_pruning"),
        ("hasten.inside.distributed.group", "import numpy"),
        ("hasten.inside.distributed.backends.mpi", "import mpi4py"),
        ("hasten.report.words", "import rich"),
        ("hasten.report.words", "from rich.table import Table"),
        ("hasten.report.words", "def f():\n    import torch"),
        ("hasten.report.words", "from ..bench.comparing.statistics import interval"),
        ("hasten.machine.cpu", "from .. import doctor"),
        ("hasten.tuning.search", "from .pipeline import tune"),
        ("hasten.bench.comparing.live", "from ...tuning.search import Search"),
        ("hasten.launch.ranks", "from ..bench import base"),
        ("hasten.bench.comparing.live", "def f():\n    import hasten.tuning.pipeline"),
        ("hasten.bench.guard.judging", "from ...report.guard import reasons"),
        ("hasten.tuning.search", "from ..report.words import settings_words"),
        ("hasten.inside.samples.rows", "from ..observing.identify import describe_root"),
        ("hasten.inside.samples.rows", "from ..worker import control"),
        ("hasten.inside.process.wire", "from ..training import Training"),
        ("hasten.inside.seams", "from .techniques.catalog import CATALOG"),
        ("hasten.inside.run_tune.contest", "from ..run_watch.rules import Rules"),
        ("hasten.inside.techniques.bf16", "from ..switch import Switchboard"),
        ("hasten.inside.training", "from .distributed.this_rank import ThisRank"),
        ("hasten.launch.engines.slurm", "from ..chosen import OwnRanks"),
        ("hasten.bench.workers.worker_output", "from ..trials import Trials"),
        ("hasten.bench.comparing.live", "from ..guard.judging import judge"),
        ("hasten.bench.trials", "def f():\n    from .observe import observe"),
    ],
)
def test_a_forbidden_import_is_found(module: str, source: str) -> None:
    assert len(violations(source, module)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("hasten.records.plan", "import json\nfrom .trial import Trial\nfrom hasten.records import cause"),
        (
            "hasten.inside.worker.worker",
            "import os.path\nfrom .job import Job\nfrom ..records.plan import Plan",
        ),
        (
            "hasten.inside.techniques.bf16",
            "from ...records.plan import Plan\nfrom ..training import Training",
        ),
        ("hasten.inside.worker.worker", "def f():\n    import torch.utils.data, numpy"),
        ("hasten.inside.run_watch.run_watch", "from ...machine.run_facts import run_facts"),
        ("hasten.inside.techniques.support.cutting", "def f():\n    import torch_pruning"),
        ("hasten.inside.distributed.group", "import torch.distributed as dist"),
        ("hasten.report.words", "def f():\n    from rich.table import Table"),
        ("hasten.report.words", "if TYPE_CHECKING:\n    from rich.table import Table"),
        ("hasten.report.words", "from ..errors import UsageError"),
        ("hasten.cli.tune", "from ..pipeline import tune"),
        ("hasten.inside.observing.loaders", "from ..samples.rows import Rows"),
        ("hasten.inside.training", "if TYPE_CHECKING:\n    from .distributed.this_rank import ThisRank"),
        ("hasten.bench.guard.guard", "from ..trials import Trials"),
        ("hasten.bench.comparing.live", "import rich"),
    ],
)
def test_an_allowed_import_is_not_complained_of(module: str, source: str) -> None:
    assert violations(source, module) == []
