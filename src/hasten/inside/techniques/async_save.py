"""``torch.save`` returns when it has a copy of what it saves; the file is written in the background.

It helps scripts that save large checkpoints to file systems slower than memory: over a network, or to a disk
that does not keep up. The copy is taken at once: tensors are copied (from a GPU to main memory), other
objects are pickled; what the script changes later is not in the file, which is the same to the byte. On a
local disk it was measured to gain nothing, since a file goes into the system's cache in about the time of the
copy: no tune tries it, and it is there for ``--use`` where files are saved to a slow file system. Nor does it
gain where a script looks into the folder right after each save, as those do that delete old checkpoints.

The copy takes as much memory as the file. A save is as ever where that is more than a quarter of what is
free or the disk has no room for both files, to anything but a plain file of the user's own, and where
another process may be told of the file: among ranks, and while child processes live that are no DataLoader's
workers.

A file appears whole, under its name, when it is finished; until then an older one stays. Whoever opens,
lists, moves or asks for it in this process waits, and so does the start of any other program; the script's
end waits for all files. What a save could not write is raised by the next, which writes its own file first,
or at the script's end, which then fails. Where a file system cannot rename, the file is written a second
time, under its name. A process that is killed, by SIGTERM as well, leaves the older file and a folder
``.hasten-*`` beside it. ``sync`` writes through to the disk before a file takes its name, which
``torch.save`` does not.

It belongs to the process: a file written in the background takes time of the steps that follow.

Source: https://github.com/NVIDIA-NeMo/Automodel/pull/635
"""

from __future__ import annotations

import atexit
import os
import shutil
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ...records.facts import Facts
from ...records.plan import Settings
from ...records.trial import Proof
from ...records.whole_run import account_of
from ...saying import say
from ..internals.others import ZIP_WRITER, serialization
from ..seams import Call
from ..training import NotApplicable, Training
from .base import Technique
from .support.background_saves import BackgroundSaves, Place, Save, free_bytes, place_for
from .support.child_processes import ChildProcesses
from .support.late_failures import ThenRaises
from .support.waiting_for_saves import let_others_wait

if TYPE_CHECKING:
    from torch import UntypedStorage

_LEAST_SHARE = 0.01  # of a run
_MEMORY_SHARE = 4  # this part of the memory that is free
_ROOM = 1.1  # times the file's size, that the disk must have


class AsyncSave(Technique):
    name = "async_save"
    summary = "torch.save writes its files in the background"
    layer = "application"
    risk = "exact"
    scope = "process"
    not_tried = (
        "on a local disk the copy takes as long as the save: "
        "name it by --use where files are saved to a slow file system"
    )
    parts = ("saving",)

    def __init__(self) -> None:
        self._saves = BackgroundSaves(self._was_written)
        self._children = ChildProcesses()
        self._on = False
        self._synchronous = False
        self._home = os.getpid()
        self._memory = 0
        self._distributed: Any = None
        self._files = self._bytes = self._as_ever = 0
        self._seconds = 0.0  # that the script waited for copies

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        run = facts.observation.run
        if run is None:
            return ["where the time of a run goes was not watched"]
        account = account_of(run)
        if not account.part("saving").count:
            return ["the script was not seen to save anything"]
        share = account.share("saving")
        return [f"saving takes {share:.1%} of a run"] if share < _LEAST_SHARE else []

    @classmethod
    def check(cls, settings: Settings) -> None:
        if set(settings) - {"sync"} or not isinstance(settings.get("sync", False), bool):
            raise ValueError("async_save takes sync, true or false")

    def start(self, training: Training, settings: Settings) -> None:
        module = serialization(training.torch)
        self._distributed = training.torch.distributed
        if not hasattr(module, ZIP_WRITER):
            raise NotApplicable("this torch writes files in another way")
        self._synchronous = bool(settings.get("sync"))
        self._memory = training.available_bytes
        self._on = True
        saves, seams = self._saves, training.seams
        seams.replace(module, ZIP_WRITER, self._around_writer)
        let_others_wait(saves, seams)
        self._children.watch(seams)
        seams.replace(os, "_exit", self._around_exit)
        os.register_at_fork(
            before=saves.about_to_fork, after_in_parent=saves.forked, after_in_child=saves.forked_child
        )
        atexit.register(self._interpreter_ends)
        training.at_end[self.name] = self._script_ends

    def install(self, training: Training, settings: Settings) -> None:
        self._on = True

    def remove(self, training: Training) -> None:
        self._on = False
        self._saves.wait()

    # ---- saves
    def _around_writer(self, original: Any) -> Call:
        def open_writer(name_or_buffer: object) -> object:
            if os.getpid() == self._home and self._saves.any_failed:
                self._saves.wait()
                return ThenRaises(original(name_or_buffer), self._raise_what_failed)
            if not isinstance(name_or_buffer, str):
                return original(name_or_buffer)
            place = place_for(name_or_buffer) if self._on and self._alone() else None
            if place is None:
                self._saves.wait()
                return original(name_or_buffer)
            return _Snapshot(self, place, original, name_or_buffer, self._memory_left())

        return open_writer

    def _alone(self) -> bool:
        """Whether no other process waits for files of this one's: what it waits for is not seen."""
        if os.getpid() != self._home or self._ranks():
            return False
        return self._children.only_workers()

    def _ranks(self) -> bool:
        distributed = self._distributed
        return os.environ.get("WORLD_SIZE", "1") != "1" or (
            distributed.is_available() and distributed.is_initialized()
        )

    def _memory_left(self) -> int:
        """Bytes that copies may take now."""
        return min(self._memory, free_bytes(self._memory)) // _MEMORY_SHARE - self._saves.bytes_under_way

    def taken(self, place: Place, records: list[_Record], original: Any, size: int, seconds: float) -> None:
        """A copy is complete."""

        def write(path: str) -> None:
            with original(path) as writer:
                for record in records:
                    writer.write_record(*record)

        self._seconds += seconds
        self._saves.submit(Save(place, size, write, self._synchronous))

    def goes_as_ever(self) -> None:
        """A copy is given up."""
        self._saves.wait()
        self._as_ever += 1

    def _was_written(self, save: Save) -> None:
        self._files += 1
        self._bytes += save.size

    # ---- the end
    def _raise_what_failed(self) -> None:
        failed = self._saves.take_failures()
        if failed:
            raise RuntimeError("; ".join(failed))

    def _script_ends(self) -> None:
        self._saves.wait()
        self._raise_what_failed()

    def _interpreter_ends(self) -> bool:
        """Whether all was written."""
        self._saves.wait()
        failed = self._saves.take_failures()
        for failure in failed:
            say(f"hasten: async_save: {failure}")
        return not failed

    def _around_exit(self, original: Call) -> Call:
        def _exit(status: int) -> object:
            if os.getpid() == self._home and not self._interpreter_ends():
                status = status or 1
            return original(status)

        return _exit

    def proof(self, training: Training) -> Proof:
        """Counts the files that were written in the background, those under way included."""
        self._saves.wait()
        evidence = (
            f"{self._files} files ({self._bytes / 2**20:.0f} MiB) written in the background, "
            f"{self._seconds:.2f} s for their copies; {self._as_ever} saved as ever, for want of room"
        )
        return Proof(self.name, self._files > 0, evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            "copies = {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}\n"
            "threading.Thread(target=torch.save, args=(copies, path)).start()"
        )


_Record = tuple[str, "str | bytes | UntypedStorage", int]


class _Snapshot:
    """Stands in for torch's writer of a zip file: keeps copies of what it is to write. Where they take more
    than ``limit`` bytes, torch's own writes what there is and all that follows.
    """

    def __init__(self, saves: AsyncSave, place: Place, original: Any, path: str, limit: int) -> None:
        self._technique, self._place, self._original, self._path = saves, place, original, path
        self._limit = limit
        self._records: list[_Record] = []
        self._size = 0
        self._own: Any = None  # torch's, once it is as ever
        self._writer: Any = None
        self._began = time.perf_counter()

    def __enter__(self) -> _Snapshot:
        return self

    def write_record(self, name: str, data: Any, size: int) -> None:
        if self._writer is None and not self._fits(data, size):
            self._as_ever()
        if self._writer is not None:
            self._writer.write_record(name, data, size)
            return
        self._size += size
        self._records.append((name, data if isinstance(data, (str, bytes)) else data.clone(), size))

    def _fits(self, data: Any, size: int) -> bool:
        copied = isinstance(data, (str, bytes)) or hasattr(data, "clone")
        return copied and self._size + size <= self._limit

    def __getattr__(self, name: str) -> Any:
        """Whatever else torch asks of its writer, its own answers."""
        if name.startswith("__"):
            raise AttributeError(name)
        self._as_ever()
        return getattr(self._writer, name)

    def _as_ever(self) -> None:
        if self._writer is not None:
            return
        self._drop_place()
        self._technique.goes_as_ever()
        self._own = self._original(self._path)
        self._writer = self._own.__enter__()
        records, self._records = self._records, []
        for record in records:
            self._writer.write_record(*record)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None and self._writer is None and _room_at(self._place) < _ROOM * self._size:
            self._as_ever()
        if self._writer is not None:
            self._own.__exit__(kind, error, trace)
        elif error is not None:
            self._drop_place()
        else:
            seconds = time.perf_counter() - self._began
            self._technique.taken(self._place, self._records, self._original, self._size, seconds)

    def _drop_place(self) -> None:
        shutil.rmtree(self._place.folder, ignore_errors=True)


def _room_at(place: Place) -> float:
    """Bytes that the disk has left there."""
    try:
        return shutil.disk_usage(place.folder).free
    except OSError:
        return 0.0
