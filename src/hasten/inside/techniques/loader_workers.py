"""Make the training's samples in worker processes, more or fewer than the script asks for.

What it does: a loader that is read with gradients enabled is read by ``count`` processes, which make batches
ahead while the model trains; order and content stay, and the main process draws the same random numbers.
Workers stay for the next epoch if a new one would make the same (``kept_workers``). Loaders of an evaluation
under ``no_grad`` stay as they are. With none, samples that are made alike each time can be kept in the
training process: then a tune tries it in combination with ``dataset_in_ram`` and ``batched_fetch``. When it
helps: making samples takes long and a core is free; with fewer workers or none, samples are cheap. When it
hurts: samples are cheap, so that passing them on costs more than making them; workers take cores from the
training; memory is short.

The risk is ``exact`` if making samples is proven deterministic, otherwise ``draws``: each worker has its own
RNG states. There are cases that ``exact`` cannot cover. A script that gives its loader a generator, and
leaves an epoch within its last few batches, draws from it earlier than without workers. So does a sampler
that draws from the global RNG state batch by batch; and one that looks at how the training goes, at losses
for example, is asked a few batches too early. What a script changes of its data set within an epoch does not
reach the workers before the next one: where plain values are changed (``read_ahead``), the technique says so
and leaves that loader to the script from the next pass on.

Sources: https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading,
https://docs.pytorch.org/docs/stable/notes/randomness.html#dataloader
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from multiprocessing.reduction import ForkingPickler
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...records.facts import Facts
from ...records.machine import Machine
from ...records.plan import Settings
from ...records.trial import Proof
from ..internals.loaders import reads_indices
from ..observing.batches import tensors_in
from ..samples.added_workers import AddedWorkers
from ..samples.batch_proof import BatchProofs
from ..samples.kept_workers import KeptWorkers
from ..samples.loader_override import LoaderOverride, context_of, is_forked, workers
from ..samples.read_ahead import ReadAhead
from ..samples.sampling_proof import chain
from ..training import Training
from .base import Risk, Technique, conflicting

if TYPE_CHECKING:
    from torch import Tensor
    from torch.utils.data import DataLoader

_MOST = 16  # workers that options name
_PREFETCH = 2  # batches a worker makes ahead, as in torch
_SOCKET_PATH = 107  # bytes that the path of a socket may have (unix(7)) ...
_SOCKET_NAME = len("/pymp-01234567/listener-01234567")  # ... and those that multiprocessing adds
_CONTEXTS = ("fork", "forkserver", "spawn")


class LoaderWorkers(Technique):
    name = "loader_workers"
    summary = "another number of worker processes makes the samples"
    layer = "data"
    risk = "exact"
    scope = "process"
    restarts = True
    phases = ("data",)
    conflicts = conflicting(
        dataset_in_ram="it serves the training process alone",
        batched_fetch="it serves the training process alone",
    )

    def __init__(self) -> None:
        self._override: LoaderOverride | None = None
        self._ahead = ReadAhead()
        self._settings: Settings = {}
        self._home = os.getpid()
        self._why_not: dict[str, None] = {}

    @classmethod
    def risk_for(cls, facts: Facts) -> Risk:
        loaders = facts.observation.training_loaders
        return "exact" if all(loader.random == "" for loader in loaders) else "draws"

    @classmethod
    def refuse_machine(cls, machine: Machine) -> list[str]:
        if machine.system == "Linux":
            return []
        return [f"on {machine.system} worker processes import the script again, which may not be made for it"]

    @classmethod
    def loader_workers(cls, settings: Settings) -> int:
        return int(settings["count"])

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        reasons = cls.refuse_machine(facts.machine)
        loaders = facts.observation.training_loaders
        if not loaders:
            return [*reasons, "the training reads from no DataLoader"]
        if all(loader.iterable for loader in loaders):
            reasons.append(
                f"{loaders[0].dataset} is read as a stream, which every worker would give from its beginning"
            )
        elif not cls.options(facts):
            reasons.append("there is no other number of workers to try")
        return reasons

    @classmethod
    def options(cls, facts: Facts) -> list[Settings]:
        """Half of the usable CPUs, all of them, one; for a script with workers also fewer, and none."""
        loaders = [loader for loader in facts.observation.loaders if loader.training and not loader.iterable]
        now = max((loader.workers for loader in loaders), default=0)
        usable = min(_MOST, facts.machine.usable_cpus)
        counts = [max(1, usable // 2), usable, 1]
        if now:
            counts = [usable, max(1, now // 2), 0]
        made: list[Settings] = []
        for count in dict.fromkeys(counts):
            if count != now:
                ahead = {"prefetch_factor": _PREFETCH, "persistent_workers": True} if count else {}
                made.append({"count": count, **ahead})
        return made

    @classmethod
    def together_with(cls, settings: Settings, facts: Facts) -> dict[str, Settings]:
        """Leave cores to the worker processes: torch's threads, which wait for each other after every
        operator, would take theirs.
        """
        count = max(1, facts.machine.usable_cpus - int(settings["count"]))
        return (
            {"threads": {"count": count}} if settings["count"] and count < facts.observation.threads else {}
        )

    @classmethod
    def facts_under(cls, settings: Settings, facts: Facts) -> Facts:
        """Without worker processes, the training process may keep its samples. Where they are made with
        random draws, most of the work is left, and all of it would be the training process's.
        """
        seen, loaders = facts.observation, facts.observation.training_loaders
        if settings["count"] or not any(one.workers for one in loaders) or any(one.random for one in loaders):
            return facts
        here = [replace(one, workers=0) if one.training else one for one in seen.loaders]
        return replace(facts, observation=replace(seen, loaders=tuple(here)))

    @classmethod
    def check(cls, settings: Settings) -> None:
        known = {"count", "prefetch_factor", "persistent_workers", "context"}
        expected = (
            "loader_workers needs count, a whole number from 0 to 256; it may have prefetch_factor, from 1 "
            f"to 64, persistent_workers, true or false, and context, one of {', '.join(_CONTEXTS)}"
        )
        fits = (
            set(settings) <= known
            and _is_whole(settings.get("count"), 0, 256)
            and _is_whole(settings.get("prefetch_factor", 1), 1, 64)
            and isinstance(settings.get("persistent_workers", True), bool)
            and settings.get("context", "fork") in _CONTEXTS
        )
        if not fits:
            raise ValueError(expected)

    @classmethod
    def excludes(cls, settings: Settings, other: str, others: Settings) -> str:
        """Without worker processes, nothing is excluded."""
        return "" if settings.get("count") == 0 else super().excludes(settings, other, others)

    @classmethod
    def ahead(cls, settings: Settings) -> int:
        return int(settings["count"]) * int(settings.get("prefetch_factor", _PREFETCH))

    def start(self, training: Training, settings: Settings) -> None:
        self._settings = settings
        torch, kept, proofs = training.torch, KeptWorkers(training), BatchProofs(training.torch)
        AddedWorkers(training)

        def choose(loader: DataLoader[object]) -> Mapping[str, object] | None:
            if os.getpid() != self._home or not torch.is_grad_enabled():
                return None
            try:
                reason = self._ahead.why_not(loader) or self._reason(loader)
                if not reason and self._settings["count"] and self._lets_stay(loader):
                    reason = kept.why_no_more(loader)
                reason = reason or proofs.why_not(loader)
                if not reason:
                    return self._options(torch, loader)
            except Exception as error:  # what the script's own objects raise when they are looked at
                reason = f"{type(error).__name__}: {error}"
            self._why_not[reason] = None
            return None

        self._override = LoaderOverride(training, choose, kept, self._ahead)

    def _options(self, torch: ModuleType, loader: DataLoader[object]) -> dict[str, object]:
        context = self._context(loader)
        in_order = {} if loader.num_workers or "in_order" not in vars(loader) else {"in_order": True}
        return in_order | workers(
            int(self._settings["count"]),
            int(self._settings.get("prefetch_factor", _PREFETCH)),
            self._lets_stay(loader),
            torch.multiprocessing.get_context(context) if isinstance(context, str) else context,
        )

    def _lets_stay(self, loader: DataLoader[object]) -> bool:
        return bool(self._settings.get("persistent_workers", True)) or loader.persistent_workers

    def _context(self, loader: DataLoader[object]) -> Any:
        """As set; else as the script wants it; else by fork, which needs nothing of the dataset."""
        own = context_of(loader)
        return self._settings.get("context", own if own is not None or loader.num_workers else "fork")

    def _reason(self, loader: DataLoader[object]) -> str:
        """Why a loader is left as it is; "" if it is not."""
        dataset, count = loader.dataset, int(self._settings["count"])
        name = type(dataset).__name__
        if not reads_indices(loader):
            return f"{name} is read as a stream"
        if count == loader.num_workers:
            return f"{name} has {count} workers already"
        if not count:
            if loader.timeout or loader.worker_init_fn is not None:
                return f"{name} is read with a timeout or a worker_init_fn, which are for workers"
            return f"{name} keeps its workers from epoch to epoch" if loader.persistent_workers else ""
        if multiprocessing.current_process().daemon:
            return "this process cannot start others"
        if len(os.fsencode(tempfile.gettempdir())) + _SOCKET_NAME > _SOCKET_PATH:
            return f"the folder for temporary files, {tempfile.gettempdir()}, is too long for a socket's path"
        if any(tensor.device.type != "cpu" for part in chain(dataset) for tensor in _tensors_of(part)):
            return f"{name} holds tensors of a device, which worker processes cannot use"
        return "" if is_forked(self._context(loader)) else _unpicklable(loader)

    def proof(self, training: Training) -> Proof:
        """Counts the batches that came from worker processes as they were asked for."""
        batches = self._override.batches if self._override is not None else 0
        made_by = f"{self._settings.get('count', 0)} worker processes"
        changed = self._ahead.reasons
        reasons = dict.fromkeys([*changed, *self._why_not])
        evidence = "; ".join([f"{batches} batches came from {made_by}", *reasons])
        return Proof(self.name, batches > 0 and not changed, evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        if not settings["count"]:
            return "loader = DataLoader(dataset, ..., num_workers=0)"
        ahead = settings.get("prefetch_factor", _PREFETCH)
        kept = settings.get("persistent_workers", True)
        context = f', multiprocessing_context="{settings["context"]}"' if "context" in settings else ""
        return (
            f"loader = DataLoader(dataset, ..., num_workers={settings['count']}, prefetch_factor={ahead}, "
            f"persistent_workers={kept}{context})"
        )


def _is_whole(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _tensors_of(part: object) -> list[Tensor]:
    """The first tensors that an object holds, in lists and dicts too."""
    found = []
    for value in list(vars(part).values())[:64] if hasattr(part, "__dict__") else []:
        items = list(value.values()) if isinstance(value, dict) else value
        found += tensors_in(list(items[:4]) if isinstance(items, (list, tuple)) else value)
    return found


def _unpicklable(loader: DataLoader[object]) -> str:
    """Why what workers need cannot be handed to a process that is not forked."""
    try:
        ForkingPickler.dumps((loader.dataset, loader.collate_fn, loader.worker_init_fn))
    except Exception as error:
        return f"{type(loader.dataset).__name__} cannot be handed to a new process: {error}"
    return ""
