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
import io
import os
import socket
import sysconfig
from collections.abc import Callable, Iterable
from types import AsyncGeneratorType, CoroutineType, GeneratorType

from ...records.facts import Facts
from ...records.plan import Settings
from ...records.trial import Proof
from ..seams import Call
from ..training import NotApplicable, Training
from .base import Technique, conflicting

_freeze, _unfreeze, _get_freeze_count = gc.freeze, gc.unfreeze, gc.get_freeze_count
_STANDARD_STREAMS = (0, 1, 2)
_PAUSED = (GeneratorType, CoroutineType, AsyncGeneratorType)


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

        return [] if GcControl.refuse(facts) else ["gc_control freezes more, and this run has much garbage"]

    def start(self, training: Training, settings: Settings) -> None:
        if sysconfig.get_config_var("Py_GIL_DISABLED"):
            raise NotApplicable("Python without its global lock collects in another way")
        if not gc.isenabled():
            raise NotApplicable("the script has switched the collector off")
        if _get_freeze_count():
            raise NotApplicable("the script has frozen objects itself")
        if waits := with_finalizers(gc.get_objects()):
            raise NotApplicable(f"{waits} made before torch was imported is finalized when it is collected")
        _freeze()
        self._frozen = _get_freeze_count()
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
            _unfreeze()

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


def with_finalizers(objects: Iterable[object]) -> str:
    """The kind of the first object that does something when it is collected, other than what the end of a
    process does anyway; "" for none.
    """
    kinds: dict[type, bool] = {}
    for one in objects:
        kind = type(one)
        if kind not in kinds:
            kinds[kind] = hasattr(kind, "__del__")
        if kinds[kind] and (_is_begun(one) if kind in _PAUSED else not _loses_nothing(one)):
            return kind.__qualname__
    return ""


def _loses_nothing(one: object) -> bool:
    """Sockets and unbuffered files are only closed; the standard streams are flushed by Python."""
    if type(one) in (socket.socket, io.FileIO, io.BytesIO, io.StringIO):
        return True
    if type(one).__module__ != "_io":
        return False
    try:
        return not one.writable() or one.fileno() in _STANDARD_STREAMS  # type: ignore[attr-defined]
    except ValueError:  # it is closed
        return True
    except Exception:  # whatever the object of the script's that it writes to raises
        return False


def _is_begun(one: object) -> bool:
    """Whether what follows its yield or await is to come yet, which may be a ``finally``."""
    frames = (getattr(one, name, None) for name in ("gi_frame", "cr_frame", "ag_frame"))
    return any(frame is not None for frame in frames)
