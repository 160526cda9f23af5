"""A store of samples on disk: one folder per data set, written by one process and its children at a time, and
read by any number.

    header.json   which data set it is of; without it the folder is not a store
    index         for each sample where its bytes lie, with checksums: nothing yet where it is all zeros
    data-N        samples one after another, as the Nth filling process wrote them
    seconds       what making them took: a line for each time that some were made

A sample's bytes are written first, then its place in the index, so that a killed writer leaves only complete
samples. Everything is read by pread, never mapped: if a file is truncated under a reader, a sample is
missing, and no signal ends the training. All readers share the kernel's page cache. Files are opened like the
coordinator's in ``safe_files``: no link is followed, and only this user's plain files that nobody else can
write are used.
"""

from __future__ import annotations

import json
import os
import secrets
import struct
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass

from .files_read import FileMark
from .store_folders import HEADER, open_folder, open_ours, remove

FORMAT = 2
INDEX = "index"
_SECONDS = "seconds"
_MOST_SECONDS_READ = 2**16  # bytes
_PLACE = struct.Struct("<HQQI")  # data file + 1, offset, length, checksum of the data; then its own checksum
_OWN = struct.Struct("<I")
_SIZE = _PLACE.size + _OWN.size
_PARTS = struct.Struct("<II")  # bytes of the layout and of the files; the body begins at a multiple of 64
_ALIGNED = 64
_MOST_HEADER = 2**22
_MOST_SAMPLE = 2**31


@dataclass(frozen=True)
class Header:
    """``prefix``: so many transforms were called on what is kept; None: the samples are whole. ``files``:
    open already when the first sample was made. ``family``: as of the key.
    """

    dataset: str
    samples: int
    prefix: int | None = None
    files: tuple[FileMark, ...] = ()
    family: str = ""
    format: int = FORMAT

    @classmethod
    def read_from(cls, content: bytes) -> Header:
        """The header in ``content``. Raises ValueError, KeyError or TypeError if it is not one of ours."""
        told = json.loads(content)
        files = tuple((str(p), int(s), int(t)) for p, s, t in told["files"])
        prefix = None if told["prefix"] is None else int(told["prefix"])
        family = str(told.get("family", ""))
        return cls(str(told["dataset"]), int(told["samples"]), prefix, files, family, int(told["format"]))


@dataclass
class Kept:
    """A sample as it lies in a store: see ``stored_form`` for layout and body."""

    layout: bytes
    files: list[FileMark]
    body: memoryview


class Store:
    """One folder, opened to be read."""

    def __init__(self, path: str, header: Header, folder: int) -> None:
        self.path, self.header = path, header
        self._folder = folder
        self._born = os.stat(HEADER, dir_fd=folder, follow_symlinks=False)
        self._index = open_ours(folder, INDEX, os.O_RDONLY)
        self._data: dict[int, int] = {}  # data file -> descriptor
        self._checked = bytearray(header.samples)  # samples whose checksum this process has verified

    @classmethod
    def open(cls, path: str) -> Store | None:
        """The store at ``path``; None if there is none, or none of this format."""
        folder = -1
        try:
            folder = open_folder(path)
            file = open_ours(folder, HEADER, os.O_RDONLY)
            try:
                header = Header.read_from(os.read(file, _MOST_HEADER))
            finally:
                os.close(file)
            if header.format == FORMAT:
                return cls(path, header, folder)
        except (OSError, ValueError, KeyError, TypeError):
            pass
        if folder >= 0:
            os.close(folder)
        return None

    @classmethod
    def create(cls, path: str, header: Header) -> Store:
        """An empty store that replaces what is there; call it holding the lock. Raises OSError."""
        remove(path)
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
        folder = open_folder(path)
        try:
            index = open_ours(folder, INDEX, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            try:
                _write_zeros(index, header.samples * _SIZE)
            finally:
                os.close(index)
            temporary = f".new-{secrets.token_hex(8)}"
            file = open_ours(folder, temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            with open(file, "wb") as out:
                out.write(json.dumps(asdict(header)).encode())
            os.replace(temporary, HEADER, src_dir_fd=folder, dst_dir_fd=folder)
            return cls(path, header, folder)
        except BaseException:
            os.close(folder)
            with suppress(OSError):
                remove(path)
            raise

    # ---- reading
    def read(self, number: int) -> Kept | None:
        """A sample, in fresh memory; None if missing or corrupt."""
        if not 0 <= number < self.header.samples:
            return None
        place = self._place(os.pread(self._index, _SIZE, number * _SIZE))
        if place is None:
            return None
        file, offset, length, check = place
        content = bytearray(length)
        try:
            if os.preadv(self._data_file(file), [content], offset) != length:
                return None
        except OSError:
            return None
        if not self._checked[number]:
            if zlib.crc32(content) != check:
                return None
            self._checked[number] = 1
        return _unpacked(content)

    def files_of(self, number: int) -> list[FileMark]:
        """What a sample was made from; none if it is not there."""
        place = self._place(os.pread(self._index, _SIZE, number * _SIZE))
        if place is None:
            return []
        with suppress(OSError, ValueError, struct.error):
            data = self._data_file(place[0])
            first, second = _PARTS.unpack(os.pread(data, _PARTS.size, place[1]))
            if second and second <= place[2]:
                found: list[FileMark] = json.loads(os.pread(data, second, place[1] + _PARTS.size + first))
                return found
        return []

    def missing(self) -> list[int]:
        """The samples that are not there yet."""
        index = os.pread(self._index, self.header.samples * _SIZE, 0)
        pieces = (index[n * _SIZE : (n + 1) * _SIZE] for n in range(self.header.samples))
        return [number for number, piece in enumerate(pieces) if self._place(piece) is None]

    def is_current(self) -> bool:
        """Whether it has not been removed or started again."""
        try:
            found = os.stat(os.path.join(self.path, HEADER), follow_symlinks=False)
        except OSError:
            return False
        return os.path.samestat(found, self._born) and found.st_mtime_ns == self._born.st_mtime_ns

    def took(self, seconds: float) -> None:
        """Record time for making samples, or for proving that it is allowed."""
        with suppress(OSError):
            file = open_ours(self._folder, _SECONDS, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            with open(file, "wb") as told:
                told.write(f"{seconds:.3f}\n".encode())

    @property
    def seconds(self) -> float:
        """Time for making its samples so far, by all processes."""
        with suppress(OSError, ValueError):
            file = open_ours(self._folder, _SECONDS, os.O_RDONLY)
            with open(file, "rb") as told:
                return sum(map(float, told.read(_MOST_SECONDS_READ).split()))
        return 0.0

    def used(self) -> None:
        """Mark it as used: it is removed after stores that were not used since."""
        with suppress(OSError):
            os.utime(self.path)

    # ---- removal
    def spoil(self) -> None:
        """No longer a store, for anybody who opens it from now on."""
        if self.is_current():
            with suppress(OSError):
                os.unlink(HEADER, dir_fd=self._folder)

    def drop(self) -> None:
        """Remove it and free its space, although others have it open: their samples are then missing."""
        self.spoil()
        for name in os.listdir(self._folder):
            with suppress(OSError):
                file = open_ours(self._folder, name, os.O_RDWR)
                with suppress(OSError):
                    os.ftruncate(file, 0)
                os.close(file)
        with suppress(OSError):
            remove(self.path)

    def close(self) -> None:
        for descriptor in (self._folder, self._index, *self._data.values()):
            with suppress(OSError):
                os.close(descriptor)

    # ---- inside
    def _place(self, piece: bytes) -> tuple[int, int, int, int] | None:
        if len(piece) != _SIZE or piece[:2] == b"\0\0":
            return None
        file, offset, length, check = _PLACE.unpack_from(piece)
        (own,) = _OWN.unpack_from(piece, _PLACE.size)
        if zlib.crc32(piece[: _PLACE.size]) != own or length > _MOST_SAMPLE:
            return None
        return file - 1, offset, length, check

    def _data_file(self, number: int) -> int:
        found = self._data.get(number)
        if found is None:
            found = self._data[number] = open_ours(self._folder, f"data-{number}", os.O_RDONLY)
        return found


class Writer:
    """Adds samples to a store, in a separate data file; for children of the process that holds ``locked``."""

    def __init__(self, store: Store, number: int, most_bytes: int) -> None:
        """``most_bytes``: of the data file. Raises OSError."""
        folder = open_folder(store.path)
        try:
            self._index = open_ours(folder, INDEX, os.O_WRONLY)
            self._data = open_ours(folder, f"data-{number}", os.O_WRONLY | os.O_CREAT)
        finally:
            os.close(folder)
        self._number, self._most_bytes = number, most_bytes

    def write(self, index: int, layout: bytes, files: Sequence[FileMark], body: bytes) -> bool:
        """Add a sample; False if the file would get larger than allowed. Raises OSError: see ``is_full``."""
        content = _packed(layout, files, body)
        offset = os.fstat(self._data).st_size
        if offset + len(content) > self._most_bytes or len(content) > _MOST_SAMPLE:
            return False
        _write_all(self._data, content, offset)
        place = _PLACE.pack(self._number + 1, offset, len(content), zlib.crc32(content))
        _write_all(self._index, place + _OWN.pack(zlib.crc32(place)), index * _SIZE)
        return True


# ---- bytes
def _packed(layout: bytes, files: Sequence[FileMark], body: bytes) -> bytes:
    told = json.dumps(files).encode() if files else b""
    head = _PARTS.pack(len(layout), len(told)) + layout + told
    return head + bytes(-len(head) % _ALIGNED) + body


def _unpacked(content: bytearray) -> Kept | None:
    view = memoryview(content)
    if len(view) < _PARTS.size:
        return None
    first, second = _PARTS.unpack_from(view)
    head = _PARTS.size + first + second
    files = json.loads(bytes(view[_PARTS.size + first : head])) if second else []
    begins = head + -head % _ALIGNED
    return Kept(bytes(view[_PARTS.size : _PARTS.size + first]), files, view[begins:])


def _write_all(file: int, content: bytes, offset: int) -> None:
    view = memoryview(content)
    while view:
        written = os.pwrite(file, view, offset)
        view, offset = view[written:], offset + written


def _write_zeros(file: int, size: int) -> None:
    """Actually written, so that there is room when they are overwritten."""
    at, piece = 0, bytes(2**20)
    while at < size:
        at += os.pwrite(file, piece[: size - at], at)
