"""Options back into the words that were typed, for another process of ours."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from types import SimpleNamespace

import click


def words_of(
    parameters: Iterable[click.Parameter], arguments: SimpleNamespace, leaving_out: Collection[str]
) -> list[str]:
    """The words for those ``parameters`` that have a value in ``arguments``, except some by name."""
    made: list[str] = []
    for parameter in parameters:
        value = getattr(arguments, str(parameter.name), None)
        if not isinstance(parameter, click.Option) or parameter.name in leaving_out:
            continue
        option = parameter.opts[0]
        if parameter.is_flag:
            made += [option] * bool(value)
        elif parameter.multiple:
            made += [f"{option}={word}" for word in value or ()]
        elif value is not None:
            made.append(f"{option}={value}")
    return made
