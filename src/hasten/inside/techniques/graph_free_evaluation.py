"""Evaluate without recording a graph if the script left out ``torch.no_grad``.

What it does: a script that calls its model in eval mode with gradients enabled records a graph, and keeps
every activation, for a backward pass that never comes. The first evaluation runs as usual and is watched: no
gradient may come back through the model's outputs, and the model may keep no tensor with a graph. From the
next evaluation on, the model's passes run without recording. Their outputs require gradients as before. If a
backward pass does come, the forward pass is run again from the same tensors and RNG states with recording on.
Then gradients are what they would have been, and the technique stays off for that model.

When it helps: evaluations take a good part of the run, above all on a CPU, where kept activations take new
memory in every pass. When it hurts: no case known; it does nothing if the script evaluates under ``no_grad``
or ``inference_mode``, or if hooks look into the model. A script that prints its model's outputs sees a
different name after ``grad_fn=``.

Source: https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation
"""

from __future__ import annotations

from dataclasses import is_dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...records.facts import Facts
from ...records.plan import Settings
from ...records.trial import Proof
from ..internals.modules import has_hooks
from ..internals.other_functions import leaves
from ..living import Living
from ..observing.uses import RECORDS_EVALUATIONS
from ..seams import Args, Call, Kwargs
from ..structures import tensors_of
from ..training import Training
from .base import NO_MODULE, Technique, conflicting, saw_evaluation
from .support.harmless_calls import graphs_of
from .support.recomputed import NeedsGraph, Recomputed

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

_PLAIN = (int, float, str, dict, type(None))


class GraphFreeEvaluation(Technique):
    name = "graph_free_evaluation"
    summary = "evaluation passes record no graph where the script forgot no_grad"
    layer = "application"
    risk = "exact"
    scope = "live"
    restarts = True
    # steps do not tell passes in eval mode that record a graph from a training's
    not_tried = "what it gains cannot be compared yet: name it by --use"
    parts = ("evaluation",)
    from_second = True
    conflicts = conflicting(processes="ranks share the passes of an evaluation among them")

    def __init__(self) -> None:
        self._passes: Recomputed | None = None
        self._seen: Living[_Seen] = Living(self._gone)
        self._why_not_gone: dict[str, None] = {}  # why models that are gone were left alone

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        seen = facts.observation
        if not seen.roots:
            return [NO_MODULE]
        if RECORDS_EVALUATIONS in seen.uses:
            return []
        if saw_evaluation(facts):
            return ["the script evaluates without gradients already, or not at all"]
        # a run under a plan tells of neither
        return ["no evaluation was seen yet, with gradients or without"] if seen.steps else []

    def install(self, training: Training, settings: Settings) -> None:
        self._passes = Recomputed(training.torch)
        training.forward_wrappers[self.name] = self._forward

    def remove(self, training: Training) -> None:
        training.forward_wrappers.pop(self.name, None)

    def _forward(self, root: Module, call: Call, args: Args, kwargs: Kwargs) -> object:
        assert self._passes is not None
        torch = self._passes.torch
        if not torch.is_grad_enabled():
            return call(*args, **kwargs)
        seen = self._seen.get(root)
        if seen is None:
            self._seen.put(root, seen := _Seen())
        if root.training:
            seen.ended = seen.ended or seen.watched > 0
            return call(*args, **kwargs)
        if seen.why_not or any(part.training or has_hooks(part) for part in root.modules()):
            return call(*args, **kwargs)
        if not seen.ended:
            output = call(*args, **kwargs)
            seen.watch(torch, root, output)
            return output
        given = _given(torch, root, (args, kwargs))
        if not any(tensor.requires_grad for tensor in given):
            return call(*args, **kwargs)
        try:
            return self._passes(
                lambda: call(*args, **kwargs),
                given,
                seen.gradient_came,
                lambda: _in_eval_mode(root, call, args, kwargs),
            )
        except NeedsGraph as error:  # where it is the script's own, the call raises it again
            seen.why_not = f"without a graph a pass fails with {error}"
        return call(*args, **kwargs)

    def _gone(self, seen: _Seen) -> None:
        if seen.why_not:
            self._why_not_gone[seen.why_not] = None

    def proof(self, training: Training) -> Proof:
        """Counts the passes that ran without a graph, and those that had to run again."""
        passes, again = (self._passes.passes, self._passes.again) if self._passes is not None else (0, 0)
        evidence = [f"{passes} passes of evaluations recorded no graph, {again} were run again"]
        reasons = [*self._why_not_gone, *(seen.why_not for seen in self._seen.values() if seen.why_not)]
        evidence += dict.fromkeys(reasons)
        return Proof(self.name, passes > again, "; ".join(evidence))

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return "model.eval()\nwith torch.no_grad():\n    ...  # the evaluation"


class _Seen:
    """What is known of one model. ``ended``: its first evaluation is over, and it trained again."""

    def __init__(self) -> None:
        self.watched = 0
        self.ended = False
        self.why_not = ""

    def watch(self, torch: ModuleType, root: Module, output: object) -> None:
        """Look at a pass of the first evaluation."""
        self.watched += 1
        tensor: Any  # torch declares no types of what registers a hook
        for tensor in tensors_of(torch, output):
            if tensor.requires_grad:
                tensor.register_hook(lambda gradient: self.gradient_came())
            elif tensor.is_floating_point() or tensor.is_complex():
                self.why_not = "the model returns numbers without a graph"
        for part in leaves(torch, output):
            if not (torch.is_tensor(part) or isinstance(part, _PLAIN) or is_dataclass(part)):
                self.why_not = f"the model returns a {type(part).__name__}, which may hold tensors"
        if self.watched == 1 and (kept := graphs_of(root)):
            self.why_not = f"the model keeps a tensor with a graph in {kept[0][0]}"

    def gradient_came(self) -> None:
        self.why_not = "a backward pass came after a pass in eval mode"


def _given(torch: ModuleType, root: Module, given: object) -> list[Tensor]:
    """The tensors that a pass's gradients may go to, each once."""
    every = [*tensors_of(torch, given), *(p for p in root.parameters() if p.requires_grad)]
    return list({id(tensor): tensor for tensor in every}.values())


def _in_eval_mode(root: Module, call: Call, args: Args, kwargs: Kwargs) -> object:
    """The call with all modules in the mode in which passes are run; then they are as they were."""
    trained = [module for module in root.modules() if module.training]
    for module in trained:
        module.training = False
    try:
        return call(*args, **kwargs)
    finally:
        for module in trained:
            module.training = True
