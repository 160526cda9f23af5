"""Which source files something was learnt from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SourceDigests:
    """A digest of the script, and of each local module that it imported.

    ``modules``: by path, relative to the script's folder where it lies there or in the working directory.
    """

    script: str
    modules: Mapping[str, str] = field(default_factory=dict)
