"""There is one way out."""

from __future__ import annotations

import ast

import pytest

from .test_layering import SOURCES, module_name

OF_STREAMS = {"hasten.saying", "hasten.report.console"}
OTHER_WAYS = {
    "print", "Console", "Text.from_markup", "sys.stdout.write", "sys.stderr.write", "traceback.print_exc",
}  # fmt: skip


def ways_out(source: str) -> list[str]:
    """Calls by which text would come to a terminal as it is, with their lines."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return sorted(
        f"{call.lineno}: {name}" for call in calls if (name := ast.unparse(call.func)) in OTHER_WAYS
    )


@pytest.mark.attack("intruders")
def test_nothing_writes_past_it() -> None:
    ours = [path for path in SOURCES if module_name(path) not in OF_STREAMS]
    assert {path.name: found for path in ours if (found := ways_out(path.read_text()))} == {}


def test_the_rule_can_fail() -> None:
    assert ways_out("def f():\n    print(x)\n    Console().print(x)\n    sys.stderr.write(x)") == [
        "2: print",
        "3: Console",
        "4: sys.stderr.write",
    ]
