"""What the script already does of its own: techniques must not do it twice."""

from __future__ import annotations

from typing import Any

from .training import Training


class Uses:
    """Names of what was seen in use: "autocast", "GradScaler", "compile", "channels_last" and the like."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}

    def names(self) -> tuple[str, ...]:
        return tuple(self._names)

    def watch(self, training: Training) -> None:
        torch = training.torch
        replace = training.seams.replace
        replace(torch.amp.autocast_mode.autocast, "__enter__", self._noting("autocast", _enabled_by_script))
        replace(torch.amp.GradScaler, "__init__", self._noting("GradScaler"))
        replace(torch.nn.Module, "compile", self._noting("compile"))
        replace(torch, "compile", self._noting("compile"))
        for name in ("set_num_interop_threads", "set_flush_denormal"):
            replace(torch, name, self._noting(name))
        for owner in (torch.optim.Optimizer, torch.nn.Module):
            replace(owner, "zero_grad", self._noting("zero_grad(set_to_none=False)", _to_zeros))
        for name in ("clip_grad_norm_", "clip_grad_value_", "get_total_norm"):
            replace(torch.nn.utils, name, self._noting("clipping"))

    def _noting(self, name: str, counts: Any = lambda *_, **__: True) -> Any:
        def make(original: Any) -> Any:
            def noted(*args: Any, **kwargs: Any) -> Any:
                if counts(*args, **kwargs):
                    self._names[name] = None
                return original(*args, **kwargs)

            return noted

        return make


def _to_zeros(owner: Any, set_to_none: bool = True) -> bool:
    return not set_to_none


def _enabled_by_script(autocast: Any, *_: Any) -> bool:
    return bool(getattr(autocast, "_enabled", False)) and not getattr(autocast, "_by_hasten", False)
