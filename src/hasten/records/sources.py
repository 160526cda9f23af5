"""The source files that a result depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SourceDigests:
    """A digest of the script, and of each local module that it imported.

    ``modules``: by path, relative if it lies in the script's folder or in the working directory.
    """

    script: str
    modules: Mapping[str, str] = field(default_factory=dict)
