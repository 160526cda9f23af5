"""The forward pass, and with it the backward pass, compiled by torch.compile: fewer and larger kernels.

It helps if a step is many small operations, above all elementwise ones, and if Python itself takes the time.
It hurts if training is short (compiling takes seconds to minutes), if shapes keep changing, or if Python code
in the model breaks the graph into pieces. It gains little if large matrix products or convolutions take
nearly all of the time.

Random numbers are drawn as without it (inductor's ``fallback_random``). Evaluation is not compiled, nor are
rare shapes. Compiled code is kept in ~/.cache/hasten for later processes.

Source: https://docs.pytorch.org/docs/stable/generated/torch.compile.html
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...records.facts import Facts
from ...records.operators import small_operators
from ...records.plan import Settings
from ...records.trial import Proof
from ..internals import compiler
from ..internals.modules import calls_compiled, compiled_call, plain_call, put_call
from ..observing.compiling import (
    BlockSlot,
    CompiledCall,
    Tally,
    keep_compiled_code,
    tally,
)
from ..observing.repeated_blocks import repeated_blocks
from ..observing.uses import DIFFERENTIATES_GRADIENTS
from ..seams import Args, Call, Kwargs
from ..structures import map_tensors
from ..training import NotApplicable, Training
from .base import NO_MODULE, Technique, conflicting

if TYPE_CHECKING:
    from torch.nn import Module

MODES = ("default", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
_WITHOUT_LAUNCHES = "reduce-overhead"
_CHOICES = {"mode": MODES, "shapes": ("static", "dynamic"), "regions": ("whole", "blocks")}
_WORTH_BLOCKS = 4  # so many make the region option worth a trial
_DIFFERENTIATES = f"the script differentiates gradients ({DIFFERENTIATES_GRADIENTS}), as no compiled code can"
Around = Callable[["Module", "Module", Call, Args, Kwargs], object]
"""(who owns the compiled code, the module that is called, its call, args, kwargs) -> output."""
_RARELY_USEFUL = ("cudagraphs", "openxla", "tvm", "tensorrt", "onnxrt")  # not for training, or elsewhere


class Compile(Technique):
    name = "compile"
    summary = "forward and backward pass compiled by torch.compile"
    layer = "application"
    risk = "exact"
    scope = "live"
    slow_to_set_up = True  # half a minute and more on a slow processor
    conflicts = conflicting(
        checkpointing="a compiled model's blocks cannot be stepped into",
        fp8="a compiled model's layers cannot be stepped into",
        drop_bias="a compiled model's layers cannot be stepped into",
        prune="a compiled model's layers cannot be exchanged",
    )

    def __init__(self) -> None:
        self._work: _Work | None = None
        self._began = Tally()
        self._undo: list[Callable[[], None]] = []
        self._calls: list[CompiledCall] = []

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        reasons = []
        roots = facts.observation.roots
        if not roots:
            reasons.append(NO_MODULE)
        if "compile" in facts.observation.uses or any(root.compiled for root in roots):
            reasons.append("the script already compiles its model")
        if any(root.scripted for root in roots):
            reasons.append("the model is TorchScript, which torch.compile does not take")
        if DIFFERENTIATES_GRADIENTS in facts.observation.uses:
            reasons.append(_DIFFERENTIATES)
        if facts.on_cpu and not facts.machine.cxx:
            reasons.append(
                "there is no C++ compiler, which torch.compile needs on a CPU: install g++ or set CXX"
            )
        return reasons

    @classmethod
    def options(cls, facts: Facts) -> list[Settings]:
        """The default mode; on a GPU also the modes that remove launches, first if these take the time, and
        that choose kernels by timing; the blocks alone if there are several; then other installed backends.
        """
        modes: Sequence[str] = MODES[:1] if facts.on_cpu else MODES[:3]
        if not facts.on_cpu and small_operators(facts):
            modes = (_WITHOUT_LAUNCHES, *(mode for mode in modes if mode != _WITHOUT_LAUNCHES))
        found: list[Settings] = [{"mode": mode} for mode in modes]
        if any(root.blocks >= _WORTH_BLOCKS for root in facts.observation.roots):
            found.append({"mode": "default", "regions": "blocks"})
        others = (name for name in facts.observation.backends if name not in _RARELY_USEFUL)
        return [*found, *({"backend": name} for name in others)]

    @classmethod
    def check(cls, settings: Settings) -> None:
        for key, value in settings.items():
            if key == "backend":
                if not isinstance(value, str) or not value.isidentifier():
                    raise ValueError("compile: backend is a name that torch._dynamo.list_backends() gives")
            elif key not in _CHOICES:
                raise ValueError(f"compile takes backend, {', '.join(_CHOICES)}, found {key}")
            elif value not in _CHOICES[key]:
                raise ValueError(f"compile: {key} is one of {', '.join(_CHOICES[key])}, found {value}")
        if "mode" in settings and settings.get("backend", "inductor") != "inductor":
            raise ValueError("compile: modes are inductor's, and another backend is asked for")

    def install(self, training: Training, settings: Settings) -> None:
        torch = training.torch
        _check_roots(training)
        self._undo.append(keep_compiled_code())  # before inductor is imported, which then fixes its folder
        how = _how(torch, settings)
        works = training.kept.setdefault(self.name, {})
        self._work = work = works.setdefault(tuple(sorted(settings.items())), _Work())
        self._began = tally()
        graphs = how.get("options", {}).get("triton.cudagraphs", False)

        def compiled(owner: Module) -> CompiledCall:
            if owner not in work.calls:
                static = settings.get("shapes", "static") == "static"
                work.calls[owner] = CompiledCall(torch, f"compiled_{len(work.calls)}", static, **how)
            found: CompiledCall = work.calls[owner]
            if all(found is not call for call in self._calls):
                self._calls.append(found)
                found.begin()
            return found

        def around(owner: Module, module: Module, call: Call, args: Args, kwargs: Kwargs) -> object:
            if not torch.is_grad_enabled() or training.differentiates_gradients:
                return call(*args, **kwargs)
            if not graphs:
                return compiled(owner)(module, call, args, kwargs)
            torch.compiler.cudagraph_mark_step_begin()  # the next run overwrites what this one returns
            return map_tensors(torch, compiled(owner)(module, call, args, kwargs), lambda t: t.clone())

        if settings.get("regions", "whole") == "blocks":
            self._put_into_blocks(training, around)
        else:
            training.wrap_innermost(
                self.name, lambda root, call, args, kwargs: around(root, root, call, args, kwargs)
            )

    def _put_into_blocks(self, training: Training, around: Around) -> None:
        """All blocks of a root share the code compiled for the first."""
        for root in training.roots:
            ref = weakref.ref(root)

            def in_block(block: Module, args: Args, kwargs: Kwargs, ref: weakref.ref[Module] = ref) -> object:
                owner, call = ref(), plain_call(block)
                if owner is None:  # the script has dropped all but a block
                    return call(*args, **kwargs)
                return around(owner, block, call, args, kwargs)

            for block in repeated_blocks(root):
                if compiled_call(block) is None:
                    put_call(block, BlockSlot(block, in_block))
                    self._undo.append(_taking_out(weakref.ref(block)))
        if len(self._undo) < 2:
            self.remove(training)
            raise NotApplicable("no root has children of one class to compile one by one")

    def remove(self, training: Training) -> None:
        training.forward_wrappers.pop(self.name, None)
        if self._work is not None:
            self._work.tally = self._so_far()
            self._work = None
        while self._undo:
            self._undo.pop()()

    def _so_far(self) -> Tally:
        """What compiling with these settings has cost in this process, earlier uses included."""
        assert self._work is not None
        return self._work.tally.plus(tally().since(self._began))

    def seconds_in_steps(self) -> float:
        return self._so_far().seconds if self._work is not None else 0.0

    def proof(self, training: Training) -> Proof:
        """Counts the calls of compiled graphs, the graph breaks, and the graphs that were compiled again
        while it trained.
        """
        calls = sum(call.compiled_calls for call in self._calls)
        found, late = self._so_far(), sum(call.late_graphs for call in self._calls)
        left = sum(call.left_calls for call in self._calls)
        failure = next((call.failure for call in self._calls if call.failure), "")
        parts = [f"{calls} compiled calls of {found.graphs} graphs with {found.breaks} graph breaks"]
        parts += [f"{late} graphs compiled anew later"] if late else []
        parts += [f"{left} calls with rare shapes or hooks not compiled"] if left else []
        if training.differentiates_gradients:
            failure = f"no longer compiled, as {_DIFFERENTIATES}"
        parts += [failure] if failure else []
        remarks = [_counted(found.breaks, "graph break")] if found.breaks else []
        remarks += [f"{_counted(late, 'graph')} compiled anew while it trained"] if late else []
        effective = calls > 0 and found.graphs > 0 and not failure
        return Proof(self.name, effective, "; ".join(parts), ", ".join(remarks))

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        arguments = [f"{key}={value!r}" for key, value in settings.items() if key in ("backend", "mode")]
        arguments.append(f"dynamic={settings.get('shapes') == 'dynamic'}")
        if settings.get("regions") == "blocks":
            compiled = f"block.compile({', '.join(arguments)})"
            return f"for block in model.blocks:    # the repeated layers\n    {compiled}"
        return f"model.compile({', '.join(arguments)})    # before the first step"


class _Work:
    """What was compiled with given settings, kept for their next use."""

    def __init__(self) -> None:
        self.calls: weakref.WeakKeyDictionary[Module, CompiledCall] = weakref.WeakKeyDictionary()
        self.tally = Tally()


def _how(torch: ModuleType, settings: Settings) -> dict[str, Any]:
    """Arguments of torch.compile."""
    backend = settings.get("backend", "inductor")
    if backend != "inductor":
        return {"backend": backend}
    mode = str(settings.get("mode", "default"))
    return {"options": {**compiler.options_of_mode(mode), "fallback_random": True}}


def _check_roots(training: Training) -> None:
    for root in training.roots:
        if calls_compiled(root):
            raise NotApplicable("the script already compiles its model")
    on_gpu = any(p.device.type == "cuda" for root in training.roots for p in root.parameters())
    if on_gpu and not compiler.has_triton():
        raise NotApplicable("there is no working Triton, which torch.compile needs on a GPU")


def _taking_out(ref: weakref.ref[Module]) -> Callable[[], None]:
    def undo() -> None:
        block = ref()
        if block is not None and isinstance(compiled_call(block), BlockSlot):
            put_call(block, None)

    return undo


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"
