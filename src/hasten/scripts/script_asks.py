"""Whether a script uses a clock, the terminal or torch's own generator, read from its source."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..errors import UsageError
from .reading import Part, full_name, imported_names, parts_of
from .workspace import Script, find_module

_OF_TIME = {"time", "monotonic", "perf_counter", "process_time", "thread_time"}
_CLOCKS = {f"time.{name}{unit}" for name in _OF_TIME for unit in ("", "_ns")}
_OF_DATETIME = {"now", "utcnow", "today"}  # methods, whatever a script calls the class
_AT_TERMINAL = {
    *("input", "getpass.getpass", "click.prompt", "click.confirm"),
    *(f"sys.stdin.{of}{name}" for of in ("", "buffer.") for name in ("read", "readline", "readlines")),
}
_GENERATORS = ("torch.default_generator.", "torch.random.default_generator.")
_BY_TIME = {"max_time"}  # an argument of Lightning's Trainer


def reads_clock(argv: Sequence[str], module: bool) -> bool:
    """Whether the script, or a module next to it that it imports, does; it may be just for printing."""
    return any(_is_clock(node, names) for part, names in _parts(argv, module) for node in ast.walk(part.tree))


def asks_at_terminal(script: Script) -> str:
    """The first place where it may read standard input; "" if there is none."""
    for part, names in _parts(script.argv, script.module is not None):
        own = {node.name for node in ast.walk(part.tree) if isinstance(node, ast.FunctionDef)}
        for node in ast.walk(part.tree):
            if isinstance(node, ast.Call):
                name = full_name(node.func, names)
                asks = name in _AT_TERMINAL and name not in own
            else:
                asks = isinstance(node, ast.For) and full_name(node.iter, names) == "sys.stdin"
            if asks:
                line = getattr(node, "lineno", 1)
                return _place(part, line)
    return ""


def asks_generator(argv: Sequence[str], module: bool) -> str:
    """The first place where it reads or sets the state of torch's default generator itself, and not by
    ``torch.get_rng_state`` and similar; "" if there is none.
    """
    for part, names in _parts(argv, module):
        for node in ast.walk(part.tree):
            if isinstance(node, ast.Attribute) and full_name(node, names).startswith(_GENERATORS):
                return _place(part, node.lineno)
    return ""


def _place(part: Part, line: int) -> str:
    return f"{part.name}:{line}: {part.source.splitlines()[line - 1].strip()}"


def _parts(argv: Sequence[str], module: bool) -> Iterator[tuple[Part, dict[str, str]]]:
    try:
        script = find_module(argv[0], []) if module else Script(Path(argv[0]), ())
        for part in parts_of(script):
            yield part, dict(imported_names(part.tree))
    except UsageError:  # perhaps a module that is never imported
        return


def _is_clock(node: ast.AST, names: dict[str, str]) -> bool:
    if isinstance(node, (ast.Attribute, ast.Name)):
        return full_name(node, names) in _CLOCKS or (
            isinstance(node, ast.Attribute) and node.attr in _OF_DATETIME
        )
    return isinstance(node, ast.keyword) and node.arg in _BY_TIME
