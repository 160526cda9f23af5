"""Python's garbage collector goes through all objects at the turns of epochs, not within steps.

It helps if a process holds many Python objects (samples in lists, tokens, file names) and creates many more:
a full collection examines every one of them, and may stop a step for a second. After the first steps all
objects are collected once and frozen (``gc.freeze``), and full collections end. Young objects are collected
as usual, so that cycles left by a step are freed soon. When an epoch begins, older objects are collected, at
most as often as to cost 0.5% of the time; and whenever memory has grown by a bound, of the process or of a
GPU, everything is, including frozen objects.

It does nothing for a training with few objects. It may cost memory, up to that bound, if old objects die in
cycles. The mathematics is the same; finalizers and weak references of old objects in cycles are called later.
If a script calls ``gc.disable``, ``gc.enable``, ``gc.set_threshold``, ``gc.freeze`` or ``gc.unfreeze``, the
call takes effect at once, and the technique steps back; the script's own ``gc.collect()`` collects
everything. Forked processes get the collector as it was.

It belongs to the process: a collection delayed in one block of steps would fall into the next, which may
belong to the other plan.

Source: https://docs.python.org/3/library/gc.html#gc.freeze
"""

from __future__ import annotations

import atexit
import gc
import os
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...records.facts import Facts
from ...records.machine import Machine
from ...records.plan import Settings
from ...records.thresholds import LEAST_SHARE
from ...records.trial import Proof
from ...records.whole_run import breakdown_of
from ...saying import say
from ..process.collector import without_collections
from ..process.forked_children import freeze_again
from ..seams import Call
from ..training import NotApplicable, Training
from .base import Technique
from .support.frozen_collector import OLD, FrozenCollector

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

_WARM_UP = 2  # steps, in which an optimizer makes its state
_COST = 0.005  # of the time, that collections of everything may take
_LOOK_EACH = 32  # steps
_BOUND_LEAST, _BOUND_MOST = 2**26, 2**30  # bytes by which memory may grow
_BOUND_SHARE = 20  # between them, this part of the memory there is
_OWN_WAYS = ("disable", "enable", "set_threshold", "freeze", "unfreeze")


class GcControl(Technique):
    name = "gc_control"
    summary = "full garbage collections at the turns of epochs, not within steps"
    layer = "environment"
    risk = "exact"
    scope = "process"
    restarts = True
    parts = ("garbage",)

    def __init__(self) -> None:
        self._collector = FrozenCollector()
        self._stood_back = ""  # why
        self._home = os.getpid()
        self._steps = 0
        self._waits = False  # until it takes over
        self._bound = _BOUND_MOST
        self._held = 0  # bytes, when everything was collected last
        self._at_turns = self._for_memory = 0
        self._torch: Any = None

    @classmethod
    def refuse_machine(cls, machine: Machine) -> list[str]:
        release = tuple(int(part) for part in machine.python.split(".")[:2] if part.isdigit())
        if release >= (3, 14):
            return [f"it is made for the collector of Python 3.10 to 3.13, and this is {machine.python}"]
        return []

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        reasons = cls.refuse_machine(facts.machine)
        run = facts.observation.run
        if run is None:
            return [*reasons, "where the time of a run goes was not watched"]
        share = breakdown_of(run).share("garbage")
        if share < LEAST_SHARE:
            reasons.append(f"collections take {share:.1%} of a run")
        return reasons

    @classmethod
    def starts_after(cls, settings: Settings) -> int:
        return _WARM_UP

    # ---- the script's own calls
    def start(self, training: Training, settings: Settings) -> None:
        if sysconfig.get_config_var("Py_GIL_DISABLED"):
            raise NotApplicable("Python without its global lock collects in another way")
        self._torch = training.torch
        self._bound = min(max(_BOUND_LEAST, training.available_bytes // _BOUND_SHARE), _BOUND_MOST)
        seams = training.seams
        for name in _OWN_WAYS:
            seams.replace(gc, name, self._standing_back(name))
        for name in ("get_objects", "get_referrers"):
            seams.replace(gc, name, self._thawed)
        seams.replace(gc, "collect", self._collecting)
        seams.replace(gc, "get_threshold", lambda _: lambda: self._collector.thresholds)
        seams.replace(gc, "get_freeze_count", self._counting_frozen)
        seams.on_undo(self._collector.give_back)
        os.register_at_fork(after_in_child=self._in_child)
        from torch.utils.data import DataLoader

        seams.replace(DataLoader, "__iter__", self._at_epoch_turns)

    def _in_child(self) -> None:
        with without_collections():
            self._collector.give_back()
            freeze_again()

    def _standing_back(self, name: str) -> Callable[[Call], Call]:
        def make(original: Call) -> Call:
            def own_way(*args: object, **kwargs: object) -> object:
                self._stood_back = self._stood_back or f"the script calls gc.{name}() itself"
                self._collector.give_back()
                return original(*args, **kwargs)

            return own_way

        return make

    def _thawed(self, original: Call) -> Call:
        def seen_whole(*args: object, **kwargs: object) -> object:
            with self._collector.thawed():
                return original(*args, **kwargs)

        return seen_whole

    def _collecting(self, original: Call) -> Call:
        whole = self._thawed(original)

        def collect(generation: int = OLD) -> object:
            return (whole if generation == OLD else original)(generation)

        return collect

    def _counting_frozen(self, original: Call) -> Call:
        return lambda: 0 if self._collector.in_force else original()

    def _at_epoch_turns(self, original: Call) -> Call:
        def __iter__(loader: DataLoader[object]) -> object:
            if self._collector.in_force and os.getpid() == self._home:
                self._epoch_turns()
            return original(loader)

        return __iter__

    # ---- in force
    def install(self, training: Training, settings: Settings) -> None:
        if not self._stood_back and not gc.isenabled():
            self._stood_back = "the script has switched the collector off"
        if not self._stood_back and gc.get_freeze_count():
            self._stood_back = "the script has frozen objects itself"
        if self._stood_back:
            raise NotApplicable(self._stood_back)
        self._steps, self._waits = 0, True
        training.after_steps[self.name] = self._step_ended

    def remove(self, training: Training) -> None:
        training.after_steps.pop(self.name, None)
        self._collector.give_back()
        atexit.unregister(self._collector.give_back)

    def _step_ended(self) -> None:
        self._steps += 1
        if self._stood_back:
            return
        if self._waits:
            if self._steps >= _WARM_UP and self._is_earned:  # a script may make a model every second
                self._take_over()
        elif self._steps % _LOOK_EACH == 0 and self._collector.in_force:
            grown = self._memory() - self._held
            if grown > self._bound:
                self._collect_everything(grown)

    def _take_over(self) -> None:
        self._waits = False
        self._collector.take_over()
        self._held = self._memory()
        atexit.register(self._collector.give_back)

    @property
    def _is_earned(self) -> bool:
        """Whether the last collection was long enough ago that another may come."""
        collector = self._collector
        return time.monotonic() - collector.collected_at > collector.seconds / _COST

    def _epoch_turns(self) -> None:
        """Collect what came since, if the last collection's cost is earned."""
        if self._is_earned:
            self._collector.collect()
            self._at_turns += 1

    def _collect_everything(self, grown: int) -> None:
        with self._collector.thawed():
            self._collector.collect()
        if not self._for_memory:
            say(f"hasten: gc_control collects everything: memory has grown by {grown / 2**20:.0f} MiB")
        self._for_memory += 1
        self._held = self._memory()

    def _memory(self) -> int:
        """Bytes of this process and of the GPUs' tensors."""
        cuda = self._torch.cuda
        on_gpus = 0
        if cuda.is_available() and cuda.is_initialized():
            on_gpus = sum(cuda.memory_allocated(device) for device in range(cuda.device_count()))
        return _resident_bytes() + int(on_gpus)

    def proof(self, training: Training) -> Proof:
        """Counts the full collections that Python's thresholds requested and that were not made in steps."""
        if self._stood_back:
            return Proof(self.name, False, self._stood_back)
        collector = self._collector
        evidence = (
            f"{collector.put_off} full collections put off, of {collector.objects} objects at last; "
            f"{self._at_turns} at epoch turns, {self._for_memory} as memory grew"
        )
        return Proof(self.name, collector.put_off > 0, evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            "# after the first steps\n"
            "gc.collect()\n"
            "gc.freeze()\n"
            "gc.set_threshold(*gc.get_threshold()[:2], 2**31 - 1)\n"
            "# at the end of each epoch\n"
            "gc.collect()"
        )


def _resident_bytes() -> int:
    """Bytes of this process in main memory; 0 if the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
