"""Finds devices hard-coded in a script, without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ..records.diagnosis import HardCoded
from .reading import parts_of
from .workspace import Script

_CHOICE = 'torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")'
CHOICE = f"device = {_CHOICE}"
"""The device-agnostic line. Source: https://docs.pytorch.org/docs/stable/accelerator.html"""

_ACCELERATORS = ("cuda", "mps", "xpu", "hpu", "npu")
_PLACES = {"device", "map_location", "device_type"}  # keywords that take a device
_TAKES_DEVICE = {"to", "device", "set_default_device", "autocast", "GradScaler"}
_CUDA_ONLY = {  # called like this, and like that with the device's type before the other arguments
    "torch.cuda.amp.autocast": "torch.autocast",
    "torch.cuda.amp.GradScaler": "torch.amp.GradScaler",
}


@dataclass(frozen=True)
class _Edit:
    """Replaces the bytes from ``begin`` to ``end`` of a line, counted from 1."""

    line: int
    begin: int
    end: int
    text: str


def hard_coded_devices(script: Script) -> list[HardCoded]:
    """The hard-coded devices of the script and of the modules next to it that it imports, in order.

    A device chosen by a check (``"cuda" if torch.cuda.is_available() else "cpu"``, or inside an ``if`` that
    checks) is not hard-coded. Raises UsageError if the script cannot be read.
    """
    found: list[HardCoded] = []
    for part in parts_of(script):
        found += _rewritten(part.name, part.source, list(_edits_in(part.tree)))
    return found


def _rewritten(name: str, source: str, edits: list[_Edit]) -> list[HardCoded]:
    found = []
    lines = source.splitlines()
    for number in sorted({edit.line for edit in edits}):
        before = after = lines[number - 1].encode()
        for edit in sorted({e for e in edits if e.line == number}, key=lambda edit: -edit.begin):
            after = after[: edit.begin] + edit.text.encode() + after[edit.end :]
        found.append(HardCoded(name, number, before.decode().strip(), after.decode().strip()))
    return found


def _edits_in(tree: ast.AST, asked: bool = False) -> Iterator[_Edit]:
    """``asked``: this runs only if a device was found."""
    if isinstance(tree, (ast.If, ast.IfExp)):
        asked = asked or _asks(tree.test)
    elif isinstance(tree, ast.BoolOp):  # whatever exists, or the CPU
        asked = asked or _asks(tree)
    if isinstance(tree, ast.Assign) and not asked and _names_a_device(tree):
        yield _edit(tree.value, _CHOICE)
        return
    if isinstance(tree, ast.Call) and not asked:
        yield from _edits_of_call(tree)
    for child in ast.iter_child_nodes(tree):
        yield from _edits_in(child, asked)


def _names_a_device(assignment: ast.Assign) -> bool:
    """``device = "cuda"``, or anything set to ``torch.device("cuda")``."""
    value = assignment.value
    if isinstance(value, ast.Call):
        made = ast.unparse(value.func) == "torch.device" and len(value.args) == 1
        return made and _kind(value.args[0]) in (*_ACCELERATORS, "cpu")
    called = [ast.unparse(target).lower() for target in assignment.targets]
    return _kind(value) in (*_ACCELERATORS, "cpu") and all("dev" in name for name in called)


def _kind(value: ast.expr) -> str:
    """ "cuda" for "cuda:0"; "" for what is not a text."""
    text = value.value if isinstance(value, ast.Constant) else None
    return text.partition(":")[0] if isinstance(text, str) else ""


def _edits_of_call(call: ast.Call) -> Iterator[_Edit]:
    function = ast.unparse(call.func)
    name = function.rpartition(".")[2]
    if function in _CUDA_ONLY:
        more = ", " if call.args or call.keywords else ""
        yield _edit(call.func, f"{_CUDA_ONLY[function]}(device.type{more}", opening=1)
    elif isinstance(call.func, ast.Attribute) and name == "cuda":
        begin = call.func.value
        if begin.end_lineno == call.end_lineno:
            yield _Edit(call.lineno, begin.end_col_offset or 0, call.end_col_offset or 0, ".to(device)")
    arguments = list(call.args[:1]) if name in _TAKES_DEVICE else []
    arguments += [keyword.value for keyword in call.keywords if keyword.arg in _PLACES]
    for argument in arguments:
        kind = _kind(argument)
        if kind in _ACCELERATORS or (kind == "cpu" and name in ("device", "set_default_device")):
            by_type = name in ("autocast", "GradScaler") or (name == "device" and len(call.args) > 1)
            yield _edit(argument, "device.type" if by_type else "device")


def _edit(node: ast.expr, text: str, opening: int = 0) -> _Edit:
    """``opening``: characters after the node to replace, too."""
    return _Edit(node.end_lineno or node.lineno, node.col_offset, (node.end_col_offset or 0) + opening, text)


def _asks(test: ast.expr) -> bool:
    """Whether an expression checks which devices exist."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in ("is_available", "device_count", "current_accelerator")
        for node in ast.walk(test)
    )
