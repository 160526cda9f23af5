"""One fused kernel for the whole optimizer update instead of several passes over every tensor.

It helps if the update takes a good part of a step: many parameters, small batches. It gains little if forward
and backward pass take nearly all of it. If torch has no fused form of an optimizer, ``form`` ``foreach``
takes all tensors in one call for each operation, which saves the calls and needs memory for a copy of the
gradients.

Source: https://docs.pytorch.org/docs/stable/optim.html (the ``fused`` and ``foreach`` arguments)
"""

from __future__ import annotations

import importlib
import weakref
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...records.facts import Facts
from ...records.plan import Settings
from ...records.trial import Proof
from ..internals.other_functions import mark_scaling_supported, step_dtype
from ..observing.identify import (
    FUSED_FUNCTIONS,
    can_foreach,
    foreach_function,
    sparsely_trained,
    why_not_fused,
)
from ..seams import Call
from ..training import NotApplicable, Training
from .base import Technique
from .support.memory_format import companions, is_dense, lie_alike, restore_strides

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

_ATTRIBUTES = ("_step_supports_amp_scaling", "_need_device_dtype_check_for_fused")  # set by us, or by a step


class FusedOptimizer(Technique):
    name = "fused_optimizer"
    summary = "the optimizer's update in one fused kernel"
    layer = "application"
    risk = "exact"
    scope = "live"
    restarts = True
    phases = ("optimizer",)

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._updates = 0
        self._form = "fused"

    @classmethod
    def options(cls, facts: Facts) -> list[Settings]:
        found = facts.observation.optimizers
        return [{}] if any(o.can_fuse and not o.fused for o in found) else [{"form": "foreach"}]

    @classmethod
    def check(cls, settings: Settings) -> None:
        if set(settings) - {"form"} or settings.get("form", "fused") not in ("fused", "foreach"):
            raise ValueError("fused_optimizer takes form, fused or foreach")

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        optimizers = facts.observation.optimizers
        if not optimizers:
            return ["the script has no torch optimizer"]
        if all(optimizer.fused for optimizer in optimizers):
            return ["the script already asks for the fused form"]
        if not any((o.can_fuse and not o.fused) or o.can_foreach for o in optimizers):
            return sorted({optimizer.why_not for optimizer in optimizers if optimizer.why_not})
        return []

    def install(self, training: Training, settings: Settings) -> None:
        torch = training.torch
        if settings.get("form") == "foreach":
            self._install_foreach(training)
            return
        sparse = sparsely_trained(torch, training.roots)
        suitable = [
            o
            for o in training.optimizers
            if not why_not_fused(torch, o, sparse) and not o.param_groups[0].get("fused")
        ]
        if not suitable:
            reasons = {
                why_not_fused(torch, o, sparse) or "the script asks for it" for o in training.optimizers
            }
            raise NotApplicable(f"no optimizer of the script's can be fused: {'; '.join(sorted(reasons))}")
        whole = [o for o in suitable if not _has_slices(o)]
        if not whole:
            raise NotApplicable("a parameter is a slice of a larger tensor, all of which would be updated")
        chosen = [o for o in whole if not any(_lying_otherwise(torch, o))]
        if not chosen:
            raise NotApplicable("the optimizer's state has other strides than its parameters")
        self._count(training, {FUSED_FUNCTIONS[type(o).__name__] for o in chosen})
        for optimizer in chosen:
            self._fuse(torch, optimizer)

    def _install_foreach(self, training: Training) -> None:
        chosen = [o for o in training.optimizers if can_foreach(training.torch, o)]
        if not chosen:
            raise NotApplicable("no optimizer of the script's has a foreach form that it does not use")
        self._form = "foreach"
        self._count(training, {found for o in chosen if (found := foreach_function(o)) is not None})
        for optimizer in chosen:
            self._fuse(training.torch, optimizer)

    def _count(self, training: Training, functions: set[tuple[str, str]]) -> None:
        for module, function in functions:
            of_torch = importlib.import_module(f"torch.optim.{module}")
            if function == "_fused_sgd":
                self._undo.append(training.seams.replace(of_torch, function, _first_steps_apart))
            self._undo.append(training.seams.replace(of_torch, function, self._counting))

    def _counting(self, original: Call) -> Call:
        def fused(*args: object, **kwargs: object) -> object:
            self._updates += 1
            return original(*args, **kwargs)

        return fused

    def _fuse(self, torch: ModuleType, optimizer: Optimizer) -> None:
        flag, fused = self._form, self._form == "fused"
        ref = weakref.ref(optimizer)  # the script decides when it is freed
        before = [group.get(flag) for group in optimizer.param_groups]
        own = {name: vars(optimizer)[name] for name in _ATTRIBUTES if name in vars(optimizer)}

        def set_fused(optimizer: Optimizer) -> None:
            for group in optimizer.param_groups:
                group[flag] = True

        def as_the_script_set_it(optimizer: Optimizer, groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
            """The groups with the script's flag; one that was added since has the optimizer's default."""
            flags = [*before, *[optimizer.defaults.get(flag)] * (len(groups) - len(before))]
            return [{**group, flag: own} for group, own in zip(groups, flags, strict=False)]

        def loaded(optimizer: Optimizer) -> None:
            if fused and _has_slices(optimizer):
                return
            set_fused(optimizer)
            if not fused:
                return
            _place_counts(optimizer, on_device=True)
            for tensor, strides in _lying_otherwise(torch, optimizer):  # a checkpoint brings its own strides
                restore_strides(torch, tensor, strides)

        def saved(optimizer: Optimizer, state: dict[str, Any]) -> dict[str, Any]:
            kept = {number: {**own, **_plain_count(own)} for number, own in state["state"].items()}
            groups = as_the_script_set_it(optimizer, state["param_groups"])
            return {**state, "state": kept, "param_groups": groups}

        def leave(optimizer: Optimizer) -> None:
            plain = as_the_script_set_it(optimizer, optimizer.param_groups)
            for group, own_group in zip(optimizer.param_groups, plain, strict=True):
                group[flag] = own_group[flag]
            if not fused:
                return
            _place_counts(optimizer, on_device=False)
            for name in _ATTRIBUTES:
                vars(optimizer).pop(name, None)
            vars(optimizer).update(own)

        hooks = [
            optimizer.register_load_state_dict_post_hook(loaded),
            optimizer.register_state_dict_post_hook(saved),
        ]
        set_fused(optimizer)
        if fused:
            hooks.append(optimizer.register_step_pre_hook(_KeepsLying(torch, leave)))
            _place_counts(optimizer, on_device=True)
            mark_scaling_supported(optimizer)

        def undo() -> None:
            optimizer = ref()
            if optimizer is None:
                return
            for hook in hooks:
                hook.remove()
            leave(optimizer)

        self._undo.append(undo)

    def remove(self, training: Training) -> None:
        while self._undo:
            self._undo.pop()()

    def proof(self, training: Training) -> Proof:
        """Counts the calls of torch's fused (or foreach) update function."""
        return Proof(self.name, self._updates > 0, f"{self._updates} {self._form} updates")

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        form = settings.get("form", "fused")
        return f"optimizer = torch.optim.Adam(model.parameters(), ..., {form}=True)"


def _first_steps_apart(original: Call) -> Call:
    """``_fused_sgd`` takes momentum of all its parameters or of none: those without are stepped in a call of
    their own. They stay without if ``GradScaler`` skips the step; torch would leave them momentum from memory
    that nothing was written to.
    """

    def fused_sgd(
        params: list[Tensor], grads: list[Tensor], momenta: list[Tensor | None], *scaling: Any, **how: Any
    ) -> None:
        new = [number for number, momentum in enumerate(momenta) if momentum is None]
        if not new or not how["momentum"]:
            original(params, grads, momenta, *scaling, **how)
            return
        old = [number for number, momentum in enumerate(momenta) if momentum is not None]
        for numbers in filter(None, (old, new)):
            own = [momenta[number] for number in numbers]
            original([params[n] for n in numbers], [grads[n] for n in numbers], own, *scaling, **how)
            for number, momentum in zip(numbers, own, strict=True):
                momenta[number] = momentum
        found_inf = scaling[1] if len(scaling) > 1 else how.get("found_inf")
        if found_inf is not None and found_inf.item():
            for number in new:
                momenta[number] = None

    return fused_sgd


def _place_counts(optimizer: Optimizer, on_device: bool) -> None:
    """Put Adam's step counts where its kernels expect them: fused ones in float32 on the parameter's device,
    others in main memory.
    """
    for parameter in [p for group in optimizer.param_groups for p in group["params"]]:
        state = optimizer.state.get(parameter, {})
        if not on_device:
            state.update(_plain_count(state))
        elif "step" in state:
            state["step"] = state["step"].to(parameter.device).float()


def _plain_count(state: dict[str, Any]) -> dict[str, Tensor]:
    """The step count, if there is one, as an optimizer that is not fused keeps it."""
    return {"step": state["step"].to("cpu", step_dtype())} if "step" in state else {}


class _KeepsLying:
    """Before each step: a script may lay its weights out anew, or put others in their place that lie
    otherwise. Looks at all of them, at 0.1 us each. The optimizer is left alone from when one is a slice.
    """

    def __init__(self, torch: ModuleType, leave: Callable[[Optimizer], None]) -> None:
        self._torch, self._leave = torch, leave
        self._strides: list[tuple[int, ...]] = []

    def __call__(self, optimizer: Optimizer, args: object, kwargs: object) -> None:
        strides = [p.stride() for group in optimizer.param_groups for p in group["params"]]
        if strides == self._strides:
            return
        self._strides = strides
        if _has_slices(optimizer):
            self._leave(optimizer)
            return
        for tensor, others in _lying_otherwise(self._torch, optimizer, gradients=True):
            restore_strides(self._torch, tensor, others)


def _has_slices(optimizer: Optimizer) -> bool:
    """Whether a parameter is a part of a larger tensor, and has gaps. The fused kernel would update these."""
    return not all(is_dense(p) for group in optimizer.param_groups for p in group["params"])


def _lying_otherwise(
    torch: ModuleType, optimizer: Optimizer, gradients: bool = False
) -> Iterator[tuple[Tensor, tuple[int, ...]]]:
    """State tensors whose elements lie in another order than their parameter's, each with the parameter's
    strides; ``gradients`` too, if asked for. The fused kernel reads them side by side without looking at
    strides.
    """
    for parameter in [p for group in optimizer.param_groups for p in group["params"]]:
        for tensor in companions(torch, parameter, optimizer.state):
            if (gradients or tensor is not parameter.grad) and not lie_alike(tensor, parameter):
                yield tensor, parameter.stride()
