"""Whole channels of convolutions and whole rows of linear layers are removed once, after some steps of
training; the smaller model trains on, with the optimizer's state cut in the same way. torch-pruning finds
which layers depend on each other; a channel's worth is the size of its weights. Layers that make the model's
output are never cut, nor are channels that a layer norm, a group norm, an attention or a recurrent layer
mixes. Before the model is changed, copies of it prove that zeros in the removed places compute the same. So
checkpoints keep the shapes of the script's own model, with zeros for removed parts (ones in a batch norm's
running variance), and load into it and into the smaller one.

It helps if layers are large enough for their size to matter: below a few dozen channels, kernels take as long
for fewer. It always costs quality at first, and how much is recovered depends on how long training goes on:
`hasten verify` must judge that. A script that compares its weights with its own copy (an average made by
hand) meets different shapes; a copied module is detected, and nothing is cut.

Source: https://arxiv.org/abs/2301.12900 (DepGraph), https://arxiv.org/abs/1608.08710 (filters by L1 norm)
"""

from __future__ import annotations

import gc
import importlib.util
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...records.facts import Facts
from ...records.machine import Machine
from ...records.plan import Settings
from ...records.trial import Proof
from ..internals.modules import is_compiled
from ..living import Living
from ..seams import Args, Call, Kwargs
from ..training import NotApplicable, Training
from .base import Technique, conflicting
from .support.cutting import (
    CannotCut,
    Cut,
    Wish,
    cut,
)
from .support.full_size import FullSize, can_be_cut

if TYPE_CHECKING:
    from torch.nn import Module

_AFTER = 100  # steps
_MOST_AFTER = 1_000_000
_TOGETHER = 16  # steps within which the models of one training come
_ABSENT = "torch-pruning is not installed here: pip install 'hasten[prune]'"


class Prune(Technique):
    name = "prune"
    summary = "channels of little weight removed after some steps"
    layer = "application"
    risk = "training"
    scope = "process"
    conflicts = conflicting(channels_last="it remembers the strides of the weights that it converted")

    def __init__(self) -> None:
        self._done: _Done | None = None
        self._wish = Wish(0.0, "l1", "local")
        self._after = _AFTER

    @classmethod
    def refuse_machine(cls, machine: Machine) -> list[str]:
        return [] if importlib.util.find_spec("torch_pruning") is not None else [_ABSENT]

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        reasons = cls.refuse_machine(facts.machine)
        roots = facts.observation.roots
        if "compile" in facts.observation.uses or any(root.compiled for root in roots):
            reasons.append("the script compiles its model, whose layers cannot be exchanged then")
        return reasons

    @classmethod
    def options(cls, facts: Facts) -> list[Settings]:
        return [{"ratio": 0.3}, {"ratio": 0.5}]

    @classmethod
    def check(cls, settings: Settings) -> None:
        ratio, after = settings.get("ratio"), settings.get("after", _AFTER)
        if not isinstance(ratio, float) or not 0 < ratio < 1:
            raise ValueError("prune needs ratio, the share of channels to remove, above 0 and below 1")
        if not isinstance(after, int) or isinstance(after, bool) or not 1 <= after <= _MOST_AFTER:
            raise ValueError(f"after must be a number of steps, from 1 to {_MOST_AFTER:,}")
        for key, known in (("criterion", ("l1", "l2")), ("scope", ("local", "global"))):
            if settings.get(key, known[0]) not in known:
                raise ValueError(f"{key} must be one of {', '.join(known)}, found {settings[key]!r}")
        unknown = set(settings) - {"ratio", "after", "criterion", "scope"}
        if unknown:
            raise ValueError(
                f"prune takes ratio, after, criterion and scope, found {', '.join(sorted(unknown))}"
            )

    @classmethod
    def starts_after(cls, settings: Settings) -> int:
        return int(settings.get("after", _AFTER))

    def install(self, training: Training, settings: Settings) -> None:
        torch = training.torch
        if importlib.util.find_spec("torch_pruning") is None:
            raise NotApplicable(_ABSENT)
        for root in training.roots:
            copied = any(isinstance(module, torch.nn.DataParallel) for module in root.modules())
            if copied or training.averages_gradients:
                raise NotApplicable(
                    "the model is one of several copies, which would all have to be cut alike"
                )
            if any(map(is_compiled, root.modules())):
                raise NotApplicable("the model is compiled, and its layers cannot be exchanged")
        self._after = self.starts_after(settings)
        self._wish = Wish(
            float(settings["ratio"]),
            str(settings.get("criterion", "l1")),
            str(settings.get("scope", "local")),
        )
        if self.name not in training.kept:
            training.kept[self.name] = _Done(FullSize(training))
        self._done = done = training.kept[self.name]
        for optimizer in training.optimizers:
            done.full_size.watch_optimizer(optimizer)

        def forward(root: Module, call: Call, args: Args, kwargs: Kwargs) -> object:
            if torch.is_grad_enabled():
                done.called(root, args, kwargs)
            return call(*args, **kwargs)

        def step_ended() -> None:
            done.steps += 1
            for root, args, kwargs in done.due(self._after):
                self._cut(training, done, root, args, kwargs)

        training.forward_wrappers[self.name] = forward
        training.after_steps[self.name] = step_ended

    def _cut(self, training: Training, done: _Done, root: Module, args: Args, kwargs: Kwargs) -> None:
        done.latest = done.steps
        try:
            reason = why_not(training, root)
            if reason:
                raise CannotCut(reason)
            found = cut(training.torch, root, args, kwargs, self._wish)
            done.full_size.make_smaller(root, found)
            done.cuts.append(found)
        except Exception as error:  # of torch-pruning, or of a copy: the model was not touched yet
            known = isinstance(error, CannotCut)
            done.why_not[str(error) if known else f"{type(error).__name__}: {error}"] = None

    def remove(self, training: Training) -> None:
        """What was cut stays cut, and so do the places where checkpoints come to their full size."""
        training.forward_wrappers.pop(self.name, None)
        training.after_steps.pop(self.name, None)

    def proof(self, training: Training) -> Proof:
        """Parameters, and multiply-accumulates of one pass in its layers, are counted before and after; a
        step must have followed.
        """
        done = self._done
        if done is None or done.latest is None:
            taken = done.steps if done is not None else 0
            evidence = f"nothing is cut before step {self._after}, and {taken} were taken"
            return Proof(self.name, False, evidence if taken < self._after else "no model was trained")
        words = [
            f"parameters {c.parameters[0]:,} to {c.parameters[1]:,}, multiply-accumulates of a pass "
            f"{c.operations[0]:,} to {c.operations[1]:,}"
            for c in done.cuts
        ]
        effective = bool(done.cuts) and done.steps > done.latest
        return Proof(self.name, effective, "; ".join([*dict.fromkeys(words), *done.why_not]))

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        ratio, after = settings.get("ratio", 0.3), settings.get("after", _AFTER)
        p = 2 if settings.get("criterion") == "l2" else 1
        together = settings.get("scope") == "global"
        return (
            "import torch_pruning as tp                         # pip install torch-pruning\n"
            "\n"
            f"if step == {after}:\n"
            "    pruner = tp.pruner.BasePruner(\n"
            "        model,\n"
            "        example_inputs=inputs,\n"
            f"        importance=tp.importance.GroupMagnitudeImportance(p={p}),\n"
            f"        global_pruning={together},\n"
            f"        pruning_ratio={ratio},\n"
            "        ignored_layers=[model.head],               # what makes the output\n"
            "    )\n"
            "    model.eval()\n"
            "    pruner.step()\n"
            "    model.train()\n"
            "    # its parameters are new ones: the optimizer starts anew, without the state it had\n"
            "    optimizer = torch.optim.Adam(model.parameters(), lr=optimizer.param_groups[0]['lr'])"
        )


@dataclass
class _Seen:
    """A root: the steps that ended before its training, and its last pass's inputs until it is due."""

    began: int
    inputs: tuple[Args, Kwargs] | None = None
    over: bool = False  # it was due


@dataclass
class _Done:
    """What outlasts a switch: steps taken, roots seen, and cuts made. ``latest``: the step after which
    something was due last.
    """

    full_size: FullSize
    steps: int = 0
    roots: Living[_Seen] = field(default_factory=Living)
    cuts: list[Cut] = field(default_factory=list)
    why_not: dict[str, None] = field(default_factory=dict)
    latest: int | None = None

    def called(self, root: Module, args: Args, kwargs: Kwargs) -> None:
        seen = self.roots.get(root)
        if seen is None:
            self.roots.put(root, seen := _Seen(self._training_began()))
        if not seen.over:
            seen.inputs = args, kwargs

    def _training_began(self) -> int:
        """The step at which the training of a new root began. It comes alone, as in each fold of a
        cross-validation, or with others, as in a GAN.
        """
        others = [seen.began for seen in self.roots.values() if not seen.over]
        return min((began for began in others if self.steps - began < _TOGETHER), default=self.steps)

    def due(self, after: int) -> list[tuple[Module, Args, Kwargs]]:
        """The roots that have trained for so many steps now, each with what it was called with."""
        found = []
        for root, seen in self.roots.items():
            if not seen.over and seen.inputs is not None and self.steps - seen.began >= after:
                found.append((root, *seen.inputs))
                seen.over, seen.inputs = True, None
        return found


def why_not(training: Training, root: Module) -> str:
    """Why ``root`` must stay as it is, though it could be cut; "" if it need not."""
    if not training.is_trained(root):
        return "the script does not train it, and it is to stay as it is"
    mine = {id(parameter) for parameter in root.parameters()}
    owned = {
        id(p): optimizer
        for optimizer in training.optimizers
        for group in optimizer.param_groups
        for p in group["params"]
    }
    for optimizer in {id(owned[key]): owned[key] for key in mine & owned.keys()}.values():
        if not can_be_cut(training.torch, optimizer):
            return (
                f"what {type(optimizer).__name__} keeps for a parameter does not have the parameter's shape"
            )
    shapes = [p.shape for p in root.parameters()]
    gc.collect()  # a model that was dropped does not count as a copy
    for other in gc.get_objects():
        if type(other) is not type(root) or other is root:
            continue
        parameters = list(other.parameters())
        if [p.shape for p in parameters] == shapes and not {id(p) for p in parameters} & {*owned, *mine}:
            return "the script keeps a copy of the model (an average of its weights?), of the full size"
    return ""
