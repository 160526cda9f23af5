"""What importing torch leaves in memory is never searched for garbage.

What it does: importing torch makes 160,000 objects that live as long as the process. Python's garbage
collector looks at all of them whenever it collects everything: several times while the script imports and
sets up the rest, and again when the process ends. They are frozen (``gc.freeze``) as soon as torch was
imported, so that it never does.

When it helps: runs are short, a minute or two; it saves some tenths of a second of a start, and as much at
the end, which a tune does not compare. When it hurts: what was made before torch was imported is frozen, too,
and if it is part of a cycle, its memory is not freed before the end. Where that would keep a finalizer from
running, such as that of a file which the script has opened, nothing is frozen. If the script looks at all
objects (``gc.get_objects``), or calls ``gc.unfreeze``, everything is as usual from then on. Where a run has
much garbage, gc_control does more.

Source: https://docs.python.org/3/library/gc.html#gc.freeze
"""

from __future__ import annotations

import gc
import os
import sysconfig
from collections.abc import Callable

from ...records.facts import Facts
from ...records.plan import Settings
from ...records.trial import Proof
from ..observing.uses import FINALIZES
from ..process import collector
from ..process.finalizers import tracked_objects, with_finalizers
from ..seams import Call
from ..training import NotApplicable, Training
from .base import Technique, conflicting

_WAITS = "something made before torch was imported is finalized when it is collected"


class FrozenImports(Technique):
    name = "frozen_imports"
    summary = "what importing torch leaves in memory is never searched for garbage"
    layer = "environment"
    risk = "exact"
    scope = "process"
    restarts = True
    parts = ("start",)
    conflicts = conflicting(gc_control="it freezes more, and later")

    def __init__(self) -> None:
        self._home = os.getpid()
        self._frozen = 0  # objects; 0 once they are thawed
        self._at_first_step: int | None = None

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        from .gc_control import GcControl  # a run does without it

        if not GcControl.refuse(facts):
            return ["gc_control freezes more, and this run has much garbage"]
        return [_WAITS] if FINALIZES in facts.observation.uses else []

    def start(self, training: Training, settings: Settings) -> None:
        if sysconfig.get_config_var("Py_GIL_DISABLED"):
            raise NotApplicable("Python without its global lock collects in another way")
        if not gc.isenabled():
            raise NotApplicable("the script has switched the collector off")
        if collector.get_freeze_count():
            raise NotApplicable("the script has frozen objects itself")
        if waits := with_finalizers(tracked_objects()):
            raise NotApplicable(f"{_WAITS}: {waits}")
        collector.freeze()
        self._frozen = collector.get_freeze_count()
        seams = training.seams
        for name in ("get_objects", "get_referrers"):
            seams.replace(gc, name, self._seen_whole)
        seams.replace(gc, "get_freeze_count", self._but_ours)
        seams.replace(gc, "unfreeze", self._thawing)
        seams.on_undo(self._thaw)

    def _seen_whole(self, original: Call) -> Call:
        def seen(*args: object, **kwargs: object) -> object:
            self._thaw()  # for good: what has come since must not be frozen
            return original(*args, **kwargs)

        return seen

    def _but_ours(self, original: Callable[[], int]) -> Call:
        return lambda: max(0, original() - self._frozen)

    def _thawing(self, original: Call) -> Call:
        def unfreeze() -> object:
            self._frozen = 0
            return original()

        return unfreeze

    def _thaw(self) -> None:
        if self._frozen and os.getpid() == self._home:  # children may have frozen more
            self._frozen = 0
            collector.unfreeze()

    def install(self, training: Training, settings: Settings) -> None:
        if self._at_first_step is None:
            self._at_first_step = self._frozen

    def proof(self, training: Training) -> Proof:
        """Counts the objects that were frozen when the first step came."""
        if not self._at_first_step:
            return Proof(self.name, False, "nothing was frozen, or the script has thawed it")
        return Proof(self.name, True, f"{self._at_first_step} objects are left out of garbage collections")

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return "import gc\nimport torch\n\ngc.freeze()  # before anything else is made"
