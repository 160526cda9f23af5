"""What torch does not document is named in one place, and a torch without it is told by name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import hasten
from hasten.inside.internals.parts import PARTS, Part, TorchLacks, check, missing

PACKAGE = Path(hasten.__file__).parent
INTERNALS = PACKAGE / "inside" / "internals"
SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if "examples" not in path.parts)
# a name that hasten's own objects have, too
ALSO_OURS = {"_dataset", "_parameters", "_modules"}
NAMES = {part.name for part in PARTS} - ALSO_OURS


def private_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Names with one underscore that are read off what is not ``self``, handed on as a string, or imported
    from torch; with their lines.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                yield node.attr, node.lineno
        elif isinstance(node, ast.Call):
            for argument in node.args:
                words = str(argument.value).split(".") if isinstance(argument, ast.Constant) else ()
                yield from ((word, node.lineno) for word in words if is_private(word))
        elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").startswith("torch"):
            for name in (*(node.module or "").split("."), *(alias.name for alias in node.names)):
                if is_private(name):
                    yield f"torch.{name}", node.lineno


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name.isidentifier() and name != "_"


def of_torch(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Private names in a chain that begins with ``torch``: torch._C, torch.nn.modules.conv._ConvNd."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            base = node.value
            while isinstance(base, ast.Attribute):
                base = base.value
            if isinstance(base, ast.Name) and base.id in ("torch", "dataloader", "dist"):
                yield node.attr, node.lineno


def test_no_other_room_names_what_torch_does_not_document() -> None:
    found = []
    for path in SOURCES:
        if INTERNALS in path.parents:
            continue
        tree = ast.parse(path.read_text())
        named = [(name, line) for name, line in private_names(tree) if name in NAMES or "." in name]
        found += [f"{path.relative_to(PACKAGE)}:{line} {name}" for name, line in (*named, *of_torch(tree))]
    assert not found


def test_all_of_it_is_listed() -> None:
    named = {
        name
        for path in INTERNALS.glob("*.py")
        if path.name != "parts.py"
        for name, _ in private_names(ast.parse(path.read_text()))
        if "." not in name
    }
    guarded = {  # looked for where they are used, or in what is imported by its name
        "_C", "_autograd", "_profiler", "_distributed_c10d", "_create_work_from_future", "_world", "_values",
        "_dynamo", "_inductor", "_triton", "_is_in_bad_fork", "_step_supports_amp_scaling", "_orig_mod",
        "_dtype_to_storage_type_map", "_storage_type_to_dtype_map", "_version",
        "_getframe",  # of Python's sys
    }  # fmt: skip
    assert named - {part.name for part in PARTS} - guarded == set()


def test_this_torch_has_all_of_it() -> None:
    assert missing() == []


@pytest.mark.parametrize(
    "part",
    [
        Part("torch.nn:Module", "_gone", ""),
        Part("torch.nn:Module", "_gone", "", made=True),
        Part("torch.nn:Gone", "_call_impl", ""),
        Part("torch.gone", "_gone", ""),
        Part("torch._C._gone", "_gone", ""),
    ],
)
def test_what_is_missing_is_told_by_name(part: Part) -> None:
    assert missing((*PARTS[:2], part)) == [part]
    with pytest.raises(
        TorchLacks, match=rf"torch {re.escape(torch.__version__)} has no \S+\.{part.name}, by"
    ):
        check(torch.__version__, (*PARTS[:2], part))


def test_what_one_technique_alone_uses_is_not_asked_for() -> None:
    check(torch.__version__, (Part("torch", "_gone", "fp16: scales gradients", needed=False),))
