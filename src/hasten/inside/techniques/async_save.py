"""``torch.save`` returns once it has a copy of what it saves; the file is written in the background.

So are safetensors files, which ``save_pretrained`` writes. It helps scripts that save large checkpoints to
file systems slower than memory: over a network, or to a disk that does not keep up. The copy is taken at
once: tensors are copied (from a GPU to main memory), other objects are pickled. What the script changes later
is not in the file, which is the same to the byte. On a local disk that keeps up, no gain was measured,
because a file goes into the system's cache in about the time of the copy. Nor does it gain if a script looks
into the folder right after each save, or removes an older checkpoint then.

A tune tries it if saving takes 1% of a run or more and the layer for a trial's files is on the file system
that the script saves to: writes to an overlay go to its layer, and take as long there. If the script saves
elsewhere, for example over a network, a trial would time the wrong disk; then the report says what could be
gained at most, and how to see it.

The copy takes as much memory as the file. A save runs as usual if that is more than a quarter of free memory,
if the disk has no room for both files, or for anything but a plain file of the user's own. So it does if
another process may learn about the file: among ranks, and while child processes live that are not a
DataLoader's workers. Saves into memory (BytesIO) or to a file that the script opened itself run as usual,
too.

A file appears whole, under its name, when it is finished; until then an older one stays. Whatever opens,
moves or looks up the file in this process waits; so do listing its folder, removing any file, and starting
another program. The script's end waits for all files, also after SIGTERM and SIGHUP. An error in writing is
raised by the next save, which writes its own file first, or at the script's end, which then fails. If a file
system cannot rename, the file is written a second time, under its name. A process killed by SIGKILL leaves
the older file and a folder ``.hasten-*`` next to it. ``sync`` writes through to the disk before a file takes
its name, which ``torch.save`` does not do.

It belongs to the process: a file written in the background takes time from the steps that follow.

Source: https://github.com/NVIDIA-NeMo/Automodel/pull/635
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from ...records.facts import Facts
from ...records.plan import Settings
from ...records.thresholds import LEAST_SHARE
from ...records.trial import Proof
from ...records.whole_run import breakdown_of
from ...saying import say
from ..internals.other_functions import ZIP_WRITER, serialization
from ..process.own_memory import free_bytes, private_bytes
from ..seams import Call
from ..training import NotApplicable, Training
from .base import Technique
from .support.background_saves import BackgroundSaves, Place, Save, place_for
from .support.child_processes import ChildProcesses
from .support.deadly_signals import DeadlySignals
from .support.late_failures import ThenRaises
from .support.safetensors_files import File, defer_files
from .support.snapshots import Record, Snapshot
from .support.waiting_for_saves import let_others_wait

_MEMORY_SHARE = 4  # this part of the memory that is free
_TWICE = 2  # a content is made before it is bytes


class AsyncSave(Technique):
    name = "async_save"
    summary = "torch.save and save_pretrained write their files in the background"
    layer = "application"
    risk = "exact"
    scope = "process"
    parts = ("saving",)

    def __init__(self) -> None:
        self._saves = BackgroundSaves(self._was_written)
        self._children = ChildProcesses()
        self._deadly = DeadlySignals(self._saves.wait)
        self._on = False
        self._synchronous = False
        self._home = os.getpid()
        self._memory = self._own = 0  # bytes: what was available, and what this process had
        self._after_steps: dict[str, Callable[[], None]] = {}
        self._distributed: Any = None
        self._files = self._bytes = self._as_ever = 0
        self._seconds = 0.0  # that the script waited for copies

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        run = facts.observation.run
        if run is None:
            return ["where the time of a run goes was not watched"]
        breakdown = breakdown_of(run)
        if not breakdown.part("saving").count:
            return ["the script was not seen to save anything"]
        share = breakdown.share("saving")
        if share < LEAST_SHARE:
            return [f"saving takes {share:.1%} of a run"]
        return [_elsewhere(run.saved_elsewhere, share)] if run.saved_elsewhere else []

    @classmethod
    def check(cls, settings: Settings) -> None:
        if set(settings) - {"sync"} or not isinstance(settings.get("sync", False), bool):
            raise ValueError("async_save takes sync, true or false")

    def start(self, training: Training, settings: Settings) -> None:
        module = serialization(training.torch)
        self._distributed = training.torch.distributed
        if not hasattr(module, ZIP_WRITER):
            raise NotApplicable("this version of torch writes files in a way that hasten does not know")
        self._synchronous = bool(settings.get("sync"))
        self._memory, self._own = training.available_bytes, private_bytes() or 0
        self._after_steps = training.after_steps
        self._on = True
        saves, seams = self._saves, training.seams
        seams.replace(module, ZIP_WRITER, self._around_writer)
        let_others_wait(saves, seams)
        defer_files(self._save_file, seams)
        self._children.watch(seams)
        self._deadly.watch(seams)
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
        self._step_ended()

    # ---- saves
    def _around_writer(self, original: Any) -> Call:
        def open_writer(name_or_buffer: object) -> object:
            if os.getpid() == self._home and self._saves.any_failed:
                self._saves.wait()
                return ThenRaises(original(name_or_buffer), self._raise_what_failed)
            if not isinstance(name_or_buffer, str):
                return original(name_or_buffer)
            place = self._place_for(name_or_buffer)
            if place is None:
                self._saves.wait()
                return original(name_or_buffer)
            return Snapshot(self, place, original, name_or_buffer, self._memory_left())

        return open_writer

    def _save_file(self, file: File) -> object:
        """Save a safetensors file: its content is made at once."""
        if os.getpid() == self._home and self._saves.any_failed:
            self._saves.wait()
            file.as_ever()
            self._raise_what_failed()
            return None
        place = self._place_for(os.fsdecode(file.path))
        if place is None or _TWICE * file.size > self._memory_left() or not place.has_room_for(file.size):
            if place is not None:
                place.drop()
                self._as_ever += 1
            self._saves.wait()
            return file.as_ever()
        began = time.perf_counter()
        try:
            content = file.content()
        except BaseException:
            place.drop()
            raise
        place = replace(place, mode=None)  # that of an older file is not kept
        write = partial(file.write, content=content)
        self._submit(Save(place, len(content), write, self._synchronous), began)
        return None

    def _place_for(self, path: str) -> Place | None:
        """Where to write the file in the background; None if it is saved as usual."""
        place = place_for(path) if self._on and self._alone() else None
        if place is not None and not self._deadly.hold():
            place.drop()
            return None
        self._after_steps[self.name] = self._step_ended
        return place

    def _alone(self) -> bool:
        """Whether no other process may wait for files of this one: that could not be seen."""
        if os.getpid() != self._home or self._ranks():
            return False
        return self._children.only_workers()

    def _ranks(self) -> bool:
        distributed = self._distributed
        return os.environ.get("WORLD_SIZE", "1") != "1" or (
            distributed.is_available() and distributed.is_initialized()
        )

    def _memory_left(self) -> int:
        """Bytes that copies may take now: a part of what was available less what this process has taken
        since, or of what is free, if that is less.
        """
        left = self._memory - max(0, (private_bytes() or 0) - self._own)
        free = free_bytes()
        left = left if free is None else min(left, free)
        return left // _MEMORY_SHARE - self._saves.bytes_under_way

    def taken(self, place: Place, records: list[Record], original: Any, size: int, began: float) -> None:
        """A copy is complete."""

        def write(path: str) -> None:
            with original(path) as writer:
                for record in records:
                    writer.write_record(*record)

        self._submit(Save(place, size, write, self._synchronous), began)

    def _submit(self, save: Save, began: float) -> None:
        self._seconds += time.perf_counter() - began
        self._saves.submit(save)

    def _step_ended(self) -> None:
        if not self._saves.any_under_way:
            self._deadly.release()
            self._after_steps.pop(self.name, None)

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
        """Wait for all files; whether all were written. Failures are reported."""
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
            f"{self._seconds:.2f} s for their copies; {self._as_ever} saved as usual, for lack of room"
        )
        return Proof(self.name, self._files > 0, evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            "copies = {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}\n"
            "threading.Thread(target=torch.save, args=(copies, path)).start()"
        )


def _elsewhere(folder: str, share: float) -> str:
    """Why a trial cannot tell what it gains, and who can."""
    return (
        f"files are saved in {folder}, and what a trial saves goes to another disk, so that would not show "
        f"the gain, {share:.0%} of a run at most: time runs with `hasten run --use async_save` and without"
    )
