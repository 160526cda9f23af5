"""Copy the next batch to the GPU on a separate stream while the model trains on this one.

What it does: a loader that is read with gradients enabled is asked for its next batch when it hands out one,
and that batch's tensors are copied through page-locked memory on a side stream. The script gets its batch in
main memory as usual; if it sends one of its tensors to the device, unchanged, it gets the copy, for which the
script's stream waits. When it helps: copies take long compared to the computation. When it hurts: GPU memory
is short by one batch; or the loader is slow, because the script then waits for the next batch before it
trains on this one.

The risk is ``exact`` if making samples is proven deterministic, otherwise ``draws``: samples of the next
batch are drawn before this one's step.

Sources: https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-streams,
https://docs.pytorch.org/docs/stable/generated/torch.Tensor.record_stream.html
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING

from ...records.facts import Facts
from ...records.machine import Machine
from ...records.plan import Settings
from ...records.trial import Proof
from ..internals.loaders import NEXT_DATA, iterators_that_fetch, pass_of
from ..observing.batches import tensors_in
from ..seams import Args, Call, Kwargs
from ..training import NotApplicable, Training
from .base import Risk, Technique
from .support.device_copies import needs_cuda, sending, target_of

if TYPE_CHECKING:
    from torch import Tensor
    from torch import device as Device
    from torch.cuda import Event, Stream

    from ..internals.loaders import LoaderIterator


class DevicePrefetch(Technique):
    name = "device_prefetch"
    summary = "the next batch is copied to the GPU while the model trains on this one"
    layer = "data"
    risk = "exact"
    scope = "process"
    device = "cuda"

    def __init__(self) -> None:
        self._copies: Copies | None = None

    @classmethod
    def risk_for(cls, facts: Facts) -> Risk:
        loaders = facts.observation.training_loaders
        drawn_here = [loader for loader in loaders if not loader.workers]
        return "exact" if all(loader.random == "" for loader in drawn_here) else "draws"

    @classmethod
    def refuse_machine(cls, machine: Machine) -> list[str]:
        return [] if machine.accelerators else ["there is no GPU to copy batches to"]

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        return needs_cuda(facts)

    @classmethod
    def ahead(cls, settings: Settings) -> int:
        return 1

    def start(self, training: Training, settings: Settings) -> None:
        torch = training.torch
        if not torch.cuda.is_available():
            raise NotApplicable("torch finds no CUDA device")
        copies = self._copies = Copies(torch, self.device)
        ahead, home = Ahead(copies), os.getpid()

        def fetching(original: Call) -> Call:
            def _next_data(iterator: LoaderIterator) -> object:
                if os.getpid() != home or not (torch.is_grad_enabled() or ahead.holds(iterator)):
                    return original(iterator)
                return ahead.next(iterator, original, torch.is_grad_enabled())

            return _next_data

        def send(original: Call, tensor: Tensor, args: Args, kwargs: Kwargs) -> object:
            target = target_of(torch, tensor, args, kwargs)
            copy = copies.take(tensor, target) if target is not None else None
            return original(tensor, *args, **kwargs) if copy is None else copy

        for kind in iterators_that_fetch():
            training.seams.replace(kind, NEXT_DATA, fetching)
        sending(training, send)

    def proof(self, training: Training) -> Proof:
        """Counts the tensors that were copied ahead and then used."""
        made, taken = (self._copies.made, self._copies.taken) if self._copies is not None else (0, 0)
        evidence = f"{made} tensors were copied ahead, {taken} of them were used"
        return Proof(self.name, taken > 0, evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            "side = torch.cuda.Stream()\n"
            "with torch.cuda.stream(side):  # while the model trains on the batch before\n"
            "    following = batch.pin_memory().to(device, non_blocking=True)\n"
            "torch.cuda.current_stream().wait_stream(side)\n"
            "following.record_stream(torch.cuda.current_stream())"
        )


class Copies:
    """Copies of tensors on a device, made on a side stream; each is handed out once."""

    def __init__(self, torch: ModuleType, device: str) -> None:
        self.made = 0
        self.taken = 0
        self._torch = torch
        self._device = device
        self._stream: Stream | None = None
        self._held: dict[int, tuple[weakref.ref[Tensor], int, Tensor, Event]] = {}  # by id: version, copy

    def make(self, batch: object) -> None:
        """Start copying the batch's tensors. Unused copies of tensors that are gone are dropped."""
        cuda = self._torch.cuda
        self._held = {key: held for key, held in self._held.items() if held[0]() is not None}
        if self._stream is None:
            self._stream = cuda.Stream()
        for tensor in tensors_in(batch):
            if type(tensor) is not self._torch.Tensor or tensor.device.type != "cpu" or tensor.requires_grad:
                continue
            pinned = tensor if tensor.is_pinned() else tensor.pin_memory()
            with cuda.stream(self._stream):
                copy = pinned.to(device=self._here(), non_blocking=True)
                event = cuda.Event()
                event.record(self._stream)
            self._held[id(tensor)] = (weakref.ref(tensor), tensor._version, copy, event)
            self.made += 1

    def take(self, tensor: Tensor, target: Device) -> Tensor | None:
        """The copy of ``tensor`` on device ``target``, in order with what the script's stream does from now
        on; None if there is none, or the tensor was written into since.
        """
        held = self._held.get(id(tensor))
        if held is None:
            return None
        reference, version, copy, event = held
        is_ours = reference() is tensor
        if not is_ours or tensor._version != version:
            return None
        index = target.index if target.index is not None else self._here().index
        if target.type != self._device or copy.device.index != index:
            return None
        del self._held[id(tensor)]
        stream = self._torch.cuda.current_stream()
        stream.wait_event(event)
        copy.record_stream(stream)
        self.taken += 1
        return copy

    def _here(self) -> Device:
        here: Device = self._torch.device(self._device, self._torch.cuda.current_device())
        return here


class Ahead:
    """Holds one batch of each iterator back while the previous one is trained on."""

    def __init__(self, copies: Copies) -> None:
        self._copies = copies
        self._kept: weakref.WeakKeyDictionary[LoaderIterator, _Kept] = weakref.WeakKeyDictionary()

    def holds(self, iterator: LoaderIterator) -> bool:
        """Whether a batch, or the end, was fetched in this pass and not handed out."""
        kept = self._kept.get(iterator)
        return kept is not None and kept.epoch is pass_of(iterator)

    def next(self, iterator: LoaderIterator, fetch: Call, go_on: bool) -> object:
        """The batch whose turn it is; with ``go_on`` the one after it is fetched and copied, too.

        What fetching raises is raised in its turn.
        """
        kept = self._kept.pop(iterator).outcome if self.holds(iterator) else _outcome(fetch, iterator)
        if isinstance(kept, _Raised):
            raise kept.error
        if go_on:
            following = _outcome(fetch, iterator)
            self._kept[iterator] = _Kept(pass_of(iterator), following)
            if not isinstance(following, _Raised):
                with suppress(Exception):  # e.g. no room on the device: the script then copies it itself
                    self._copies.make(following)
        return kept


class _Raised:
    def __init__(self, error: BaseException) -> None:
        self.error = error


class _Kept:
    def __init__(self, epoch: Iterator[object], outcome: object) -> None:
        self.epoch = epoch  # the pass that it belongs to: an iterator may be used for several
        self.outcome = outcome


def _outcome(fetch: Call, iterator: LoaderIterator) -> object:
    try:
        return fetch(iterator)
    except Exception as error:  # StopIteration, too
        return _Raised(error)
