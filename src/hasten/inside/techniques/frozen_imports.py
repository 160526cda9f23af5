"""What importing torch leaves in memory is never searched for garbage.

What it does: importing torch makes 160,000 objects that live as long as the process. Python's garbage
collector looks at all of them whenever it collects everything: several times while the script imports and
sets up the rest, and again when the process ends. They are frozen (``gc.freeze``) as soon as torch was
imported, so that it never does.

When it helps: runs are short, a minute or two; it saves some tenths of a second of a start, and as much at
the end, which a tune does not compare. When it hurts: no case known. What was made before torch was imported
is frozen, too, and not collected at the end if it is part of a cycle; where that would keep a finalizer from
running, such as that of a file which the script has opened, nothing is frozen. If a script calls
``gc.unfreeze`` or ``gc.get_objects``, it gets what it asks for.

Source: https://docs.python.org/3/library/gc.html#gc.freeze
"""

from __future__ import annotations

import gc
import io
import socket
import sysconfig
from collections.abc import Callable, Iterable
from types import AsyncGeneratorType, CoroutineType, GeneratorType

from ...records.plan import Settings
from ...records.trial import Proof
from ..seams import Call
from ..training import NotApplicable, Training
from .base import Technique, conflicting

_freeze, _unfreeze, _get_freeze_count = gc.freeze, gc.unfreeze, gc.get_freeze_count
_STANDARD_STREAMS = (0, 1, 2)


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
        self._frozen = 0  # objects; 0 once the script has thawed them

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
            if not self._frozen:
                return original(*args, **kwargs)
            _unfreeze()
            try:
                return original(*args, **kwargs)
            finally:
                _freeze()

        return seen

    def _but_ours(self, original: Callable[[], int]) -> Call:
        return lambda: max(0, original() - self._frozen)

    def _thawing(self, original: Call) -> Call:
        def unfreeze() -> object:
            self._frozen = 0
            return original()

        return unfreeze

    def _thaw(self) -> None:
        if self._frozen:
            self._frozen = 0
            _unfreeze()

    def proof(self, training: Training) -> Proof:
        """Counts the objects that are frozen."""
        if not self._frozen:
            return Proof(self.name, False, "nothing was frozen, or the script has thawed it")
        return Proof(self.name, True, f"{self._frozen} objects are left out of garbage collections")

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
        if _is_begun(one) or (kinds[kind] and not _loses_nothing(one)):
            return kind.__qualname__
    return ""


def _loses_nothing(one: object) -> bool:
    """Sockets and unbuffered files are only closed; the standard streams are flushed by Python."""
    if type(one) is socket.socket or isinstance(one, (io.FileIO, io.BytesIO, io.StringIO)):
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
    """A generator that waits in the middle: what follows its yield may be a ``finally``."""
    kind = type(one)
    if kind is GeneratorType:
        return one.gi_frame is not None  # type: ignore[attr-defined]
    if kind is CoroutineType:
        return one.cr_frame is not None  # type: ignore[attr-defined]
    return kind is AsyncGeneratorType
