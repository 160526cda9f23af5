"""All samples of a data set, left by the process of a trial that made them for those of later trials.

A run makes them itself. In a tune it is the same samples in dozens of processes, and reading them back takes
a tenth of the time; so what counts as set-up there is what making them took, whichever process did. They lie
in the trials' own folder, as plain bytes (``made_records``), and are deleted with it. They are found again by
what identifies a store (``store_key``), and used if some of them are what the data set makes.
"""

from __future__ import annotations

import mmap
import os
import random
import secrets
import struct
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from ..training import Training
from .dataset_traits import length_of
from .files_read import files_open, has_changed
from .made_records import Made, RecordWriter, read_records
from .private_mapping import map_privately
from .sampling_proof import drawn_apart, same_sample
from .store_folders import locked, open_folder, open_ours
from .store_key import key_of

_SUFFIX = ".left"
_COLD = ".cold"  # after the name: they were made once, of files that were not in memory
_MOST = 2  # data sets of which samples are left: a script may create a different one in each process
_HEAD = struct.Struct("<dQ")  # seconds that making them took, and how many there are
_HEAD_BYTES = 64
_OPEN_FILES = 2**62  # index of the record of files that were open, from which samples may come, too
_COMPARED = 8  # samples
_DISK_SHARE = 0.2  # of what is free


@dataclass(frozen=True)
class Left:
    """``made``: by index, each with the files it was made from. ``seconds`` that making them took."""

    made: dict[int, Made]
    seconds: float


class LeftSamples:
    """Of one data set. ``prefix``: so many transforms were called on what is kept; None: whole ones are."""

    def __init__(self, training: Training, dataset: object, prefix: int | None) -> None:
        self._training, self._dataset, self._prefix = training, dataset, prefix
        self._folder = training.sample_folder if training.in_a_trial else ""
        self._known_name: str | None = None

    def read(self, make: Callable[[int], object]) -> Left | None:
        """What an earlier process has left; None for nothing, or if it is not what ``make`` makes here."""
        with suppress(Exception):  # whatever is wrong with the file: the data set can make them
            if self._names() and self._name:
                left = self._read()
                return left if left is not None and self._is_as_here(left, make) else None
        return None

    def leave(self, made: Iterable[tuple[int, Made]], seconds: float) -> bool:
        """Whether later processes will find them; not if leaving them takes over a third of ``seconds``."""
        with suppress(Exception):  # the disk may be full, and samples may be no plain bytes
            names = self._names()  # what is there already was not right for this process
            if self._folder and self._name and self._name not in names and len(names) < _MOST:
                os.makedirs(self._folder, 0o700, exist_ok=True)
                with locked(os.path.join(self._folder, self._name)) as alone:
                    return alone and self._write(made, seconds)
        return False

    def put_off(self) -> bool:
        """Whether the next process of a tune is to make them, too. Once: to read files from a disk took this
        one longer than it will take later ones, and runs.
        """
        with suppress(Exception):
            if self._folder and self._name:
                os.makedirs(self._folder, 0o700, exist_ok=True)
                Path(self._folder, self._name + _COLD).touch(0o600, exist_ok=False)
                return True
        return False

    # ---- inside
    def _names(self) -> list[str]:
        """Of all such files."""
        if not (self._folder and os.path.isdir(self._folder)):
            return []
        return [name for name in os.listdir(self._folder) if name.endswith(_SUFFIX)]

    @property
    def _name(self) -> str:
        """Of the file; "" where a later process could not recognise the data set."""
        if self._known_name is None:
            torch, length = self._training.torch, length_of(self._dataset) or 0
            key = key_of(torch, self._dataset, length, self._training.made_of(), lasting=False)
            self._known_name = "" if isinstance(key, str) else f"{key.name}-{self._prefix}{_SUFFIX}"
        return self._known_name

    def _read(self) -> Left | None:
        folder = open_folder(self._folder)
        try:
            file = open_ours(folder, self._name, os.O_RDONLY)
        finally:
            os.close(folder)
        try:
            torch = self._training.torch
            whole = map_privately(torch, file, os.fstat(file).st_size)
        finally:
            os.close(file)
        seconds, count = _HEAD.unpack_from(whole)
        _touch(torch, whole)
        made = read_records(torch, whole[_HEAD_BYTES:])
        files = [mark for _, marks in made.values() for mark in marks]
        del made[_OPEN_FILES]
        complete = len(made) == count == length_of(self._dataset)
        return Left(made, seconds) if complete and not has_changed(files) else None

    def _is_as_here(self, left: Left, make: Callable[[int], object]) -> bool:
        """Whether some samples, chosen at random, are the same when they are made in a separate process."""
        chosen = random.Random().sample(sorted(left.made), min(len(left.made), _COMPARED))

        def compare() -> tuple[str, int]:
            same = all(same_sample(make(index), left.made[index][0]) for index in chosen)
            return ("" if same else "another sample"), 0

        return not drawn_apart(self._training.torch, self._dataset, compare)[0]

    def _write(self, made: Iterable[tuple[int, Made]], seconds: float) -> bool:
        folder = open_folder(self._folder)
        temporary = f".new-{secrets.token_hex(8)}"
        try:
            disk = os.fstatvfs(folder)
            most = int(_DISK_SHARE * disk.f_frsize * disk.f_bavail)
            file = open_ours(folder, temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            try:
                complete = self._write_to(file, made, seconds, most)
            finally:
                os.close(file)
            if complete:
                os.replace(temporary, self._name, src_dir_fd=folder, dst_dir_fd=folder)
            return complete
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
            os.close(folder)

    def _write_to(self, file: int, made: Iterable[tuple[int, Made]], seconds: float, most_bytes: int) -> bool:
        """False if that is more than ``most_bytes``, or takes too long."""
        os.write(file, bytes(_HEAD_BYTES))
        writer, count, until = RecordWriter(file), 0, time.monotonic() + max(1.0, seconds / 3)
        writer.add(_OPEN_FILES, (None, files_open(self._folder)))
        for index, one in made:
            writer.add(index, one)
            count += 1
            if writer.written > most_bytes or time.monotonic() > until:
                return False
        writer.flush()
        os.pwrite(file, _HEAD.pack(seconds, count), 0)
        return writer.written <= most_bytes


def _touch(torch: ModuleType, whole: memoryview) -> None:
    """Have all of it in memory, as samples that were made here are: no step is to wait for a disk."""
    torch.frombuffer(whole, dtype=torch.uint8)[:: mmap.PAGESIZE].sum()
