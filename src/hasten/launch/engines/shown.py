"""What would be started or submitted, for a person to read, copy and run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from .engine import Rendered, Start

HIDDEN = "(not shown)"


def shown(rendered: Rendered, secrets: frozenset[str]) -> str:
    """Lines for a shell, and files with their text; where a file is all there is, it alone.

    Values of ``secrets``, variables, are left out.
    """
    return "\n".join(_lines(rendered, secrets)) + "\n"


def _lines(rendered: Rendered, secrets: frozenset[str]) -> Iterator[str]:
    for path, text in rendered.files.items():
        if rendered.starts:
            yield f"# {path}"
        yield text.rstrip("\n")
        if rendered.starts:
            yield "# (end of the file)"
    for start in rendered.starts:
        yield from _of_start(start, secrets)


def _of_start(start: Start, secrets: frozenset[str]) -> Iterator[str]:
    yield from _exports(start.environment, secrets)
    yield shlex.join(start.argv)
    if start.there is not None:
        yield f"# on its standard input it is told what to start on {start.there.host}:"
        inner = [f"cd {shlex.quote(start.there.folder)}", *_exports(start.there.environment, secrets)]
        for line in "\n".join([*inner, shlex.join(start.there.argv)]).split("\n"):
            yield f"#   {line}"


def _exports(environment: Mapping[str, str], secrets: frozenset[str]) -> Iterator[str]:
    for name, value in environment.items():
        yield f"export {name}={HIDDEN if name in secrets else shlex.quote(value)}"
