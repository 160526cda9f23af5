"""For scripts of tests in which it does not matter how they train."""

from __future__ import annotations

import re

_IMPORTS_TORCH = re.compile(r"^import (.*, )?torch$", re.MULTILINE)
_LINE = "from hasten.inside.internals import lazy_dynamo; lazy_dynamo.put_in_place()"


def quickly(source: str) -> str:
    """The script without torch's compiler, which its first optimizer would take a second to import."""
    found = _IMPORTS_TORCH.search(source)
    assert found is not None, source
    return f"{source[: found.end()]}\n{_LINE}{source[found.end() :]}"
