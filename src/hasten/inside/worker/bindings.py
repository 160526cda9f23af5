"""Stand-ins for modules that scripts import only to register oneCCL with torch, if they are not installed."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

_NAMES = ("oneccl_bindings_for_pytorch", "torch_ccl")


def stand_in() -> None:
    """From now on importing one of them works; an installed one is found before ours."""
    sys.meta_path.append(_Bindings())


class _Bindings(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_loader(fullname, self) if fullname in _NAMES else None

    def exec_module(self, module: ModuleType) -> None:
        import torch  # noqa: F401  (as they do: what we add to torch comes with it)

        from ..distributed.register import register

        register()
