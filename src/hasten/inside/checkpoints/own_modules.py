"""Which modules are the script's own, rather than a library's or ours."""

from __future__ import annotations

import os
import sys

from ..source_files import SourceFiles

_WORKER = "__hasten_worker__"  # our own main module


class OwnModules:
    def __init__(self, sources: SourceFiles) -> None:
        self._sources = sources
        self._known: dict[str, bool] = {}

    def is_own(self, name: str) -> bool:
        known = self._known.get(name)
        if known is None:
            path = getattr(sys.modules.get(name), "__file__", None) if name != _WORKER else None
            known = name == "__main__" or (  # that of torch.ops is "_ops.py"
                isinstance(path, str) and os.path.isabs(path) and self._sources.is_local(path)
            )
            self._known[name] = known
        return known
