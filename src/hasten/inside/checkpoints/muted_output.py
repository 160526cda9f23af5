"""What the script prints and writes while it is brought to the step where it stopped.

It printed and wrote that before: standard output and error go nowhere, files that it opens for writing are
left as they are, and what it deletes or renames is left alone. A file that is still open at that step is
written on from where it was.
"""

from __future__ import annotations

import builtins
import io
import os
import sys
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import FrameType, ModuleType
from typing import IO, TYPE_CHECKING, Any

from ..package import PACKAGE
from ..seams import when_it_comes
from .cannot import Diverged
from .later_files import LaterFiles, check_there, is_asked_by, size_and_time
from .unnamed_copies import UnnamedCopies
from .written_list import WrittenList

if TYPE_CHECKING:
    from ..seams import Call, Seams

_BETWEEN = ("/shutil.py", "/pathlib.py", "/os.py", "<frozen os>")
_MACHINERY = (
    *("/multiprocessing/", "/tempfile.py", "/torch/_inductor/", "/torch/_dynamo/", "/torch/_functorch/"),
    *("/triton/", "/torch/utils/cpp_extension.py", PACKAGE + os.sep),
)
_MANY = 1000  # files opened, after which those closed are forgotten
_LEFT = ("remove", "unlink", "rmdir", "truncate")
_RENAMING = ("rename", "replace", "link", "symlink")


class Muted:
    """Descriptors 1 and 2 lead nowhere, until ``end``."""

    def __init__(self) -> None:
        _flush()
        self._kept = [os.dup(descriptor) for descriptor in (1, 2)]
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for descriptor in (1, 2):
            os.dup2(nowhere, descriptor)
        os.close(nowhere)

    def end(self) -> None:
        _flush()
        for descriptor, kept in zip((1, 2), self._kept, strict=False):
            os.dup2(kept, descriptor)
            os.close(kept)
        self._kept = []


class Files:
    """Files that the script has open for writing. ``playing``: none of them is written to. ``aside``: whether
    what is written now does not depend on the training, as where samples are made.
    """

    def __init__(
        self,
        seams: Seams,
        playing: bool,
        stop: Callable[[Exception], None],
        written: WrittenList,
        aside: Callable[[], bool],
    ) -> None:
        self.playing = playing
        self._stop, self._written, self._aside = stop, written, aside
        self._copies = UnnamedCopies()
        self._saved: set[str] = set()  # written so far
        self._later = LaterFiles(stop)
        self._written_on: dict[str, int] = {}  # of these, those that were only added to: a descriptor of ours
        self._open: list[tuple[weakref.ref[Any], str]] = []
        self._seams = seams

    def install(self, is_local: Callable[[str], bool]) -> None:
        """``is_local``: whether a file is the script's own."""
        self._is_local = is_local
        self._seams.replace(builtins, "open", self._opening)
        self._seams.replace(io, "open", self._opening)
        for name in _RENAMING:
            self._seams.replace(os, name, self._renaming)
        if self.playing:
            for name in _LEFT:
                self._seams.replace(os, name, self._leaving)
            self._seams.replace(os, "mkdir", self._making)
            for name in ("listdir", "scandir"):
                self._seams.replace(os, name, self._listing)
            for name in ("glob", "rglob", "iterdir"):  # which keep scandir from before, in some versions
                self._seams.replace(Path, name, self._listing)
        else:
            self._written.clear()

    def install_saves(self, torch: Any) -> None:
        """Weights that are not yet put back must not get into a file: what writes it past ``open``."""
        compiled = torch.jit.ScriptModule, torch.jit.RecursiveScriptModule, torch.jit.ScriptFunction
        for owner in (torch, *compiled):
            self._seams.replace(owner, "save", self._saving)
        when_it_comes(self._seams, "torch.export", self._install_exports)
        when_it_comes(self._seams, "safetensors", self._install_safetensors)

    def _install_exports(self, module: ModuleType) -> None:
        self._seams.replace(module, "save", self._saving)

    def _install_safetensors(self, module: ModuleType) -> None:
        self._seams.replace(module, "serialize_file", self._not_written)

    def follows(self, file: object) -> bool:
        """Whether it goes on where it was."""
        return any(ref() is file for ref, _ in self._open)

    def _not_written(self, original: Call) -> Call:
        """A function that writes files by itself, left out while playing."""
        return lambda *given, **more: None if self.playing else original(*given, **more)

    def _opening(self, original: Any) -> Any:
        def open(file: Any, mode: str = "r", *given: Any, **more: Any) -> Any:
            if isinstance(file, int) or by_machinery(sys._getframe(1)):
                return original(file, mode, *given, **more)
            path = os.path.abspath(os.fsdecode(file))
            if not set(mode) & set("wa"):
                self._reads(path)
                if not set(mode) & set("x+"):
                    return original(file, mode, *given, **more)
            self._writes(path, adds="a" in mode)
            if not self.playing or not _is_plain(path):
                opened = original(file, mode, *given, **more)
            elif "+" in mode:
                opened = self._copy_of(original, path, mode, given, more)
            else:
                opened = original(os.devnull, mode.replace("x", "w"), *given, **more)
            with suppress(TypeError):
                self._open.append((weakref.ref(opened), path))
            if len(self._open) > _MANY:
                self._living()
            return opened

        return open

    def _copy_of(self, original: Any, path: str, *how: Any) -> Any:
        try:
            return self._copies.opened(original, path, *how)
        except Diverged as error:
            self._stop(error)

    def _saving(self, original: Call) -> Call:
        """Of a thing and a file, both by position or by name."""

        def save(*given: Any, **more: Any) -> Any:
            file = given[1] if len(given) > 1 else more.get("f", more.get("filename"))
            if isinstance(file, (str, os.PathLike)):
                self._writes(os.path.abspath(os.fsdecode(file)))
                if self.playing:
                    return None
            return original(*given, **more)

        return save

    def _leaving(self, original: Call) -> Call:
        def leave(*given: Any, **more: Any) -> Any:
            if not self.playing or by_machinery(sys._getframe(1)):
                return original(*given, **more)
            return None

        return leave

    def _renaming(self, original: Call) -> Call:
        def rename(src: Any, dst: Any, *given: Any, **more: Any) -> Any:
            if by_machinery(sys._getframe(1)):
                return original(src, dst, *given, **more)
            if not os.path.isdir(src):
                self._reads(os.path.abspath(os.fsdecode(src)))
                self._writes(os.path.abspath(os.fsdecode(dst)))
            return None if self.playing else original(src, dst, *given, **more)

        return rename

    def _listing(self, original: Call) -> Call:
        def listing(path: Any = ".", *given: Any, **more: Any) -> Any:
            if not (path is None or isinstance(path, int)) and is_asked_by(sys._getframe(1), self._is_local):
                self._later.is_listed(os.path.abspath(os.fsdecode(path)))
            return original(path, *given, **more)

        return listing

    def _making(self, original: Call) -> Call:
        def mkdir(path: Any, *given: Any, **more: Any) -> Any:
            return None if self.playing and os.path.isdir(path) else original(path, *given, **more)

        return mkdir

    def _writes(self, path: str, adds: bool = False) -> None:
        self._end_where_written(path)
        self._saved.add(path)
        if adds:
            self._later.is_added_to(path)
        else:
            self._later.drop(path)
        if not (self.playing or self._aside()):
            self._written.add(path)

    def _reads(self, path: str) -> None:
        self._end_where_written(path)
        self._later.is_read(path)

    def _end_where_written(self, path: str) -> None:
        """What comes behind is of the run that ended: the script is not to read it."""
        descriptor = self._written_on.pop(path, None)
        if descriptor is None:
            return
        for file, of in self._living():
            if of == path:
                file.flush()
        os.ftruncate(descriptor, os.lseek(descriptor, 0, os.SEEK_CUR))
        os.close(descriptor)
        self._later.drop(path)

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps, for ``go_on``."""
        later = {"written": self._written.position(), "later": self._later.names()}
        return {"files": self.positions(), "saved": self.saved(), **later}

    def saved(self) -> dict[str, list[int]]:
        """Size and time of each file that was written and is there."""
        return {path: found for path in sorted(self._saved) if (found := size_and_time(path))}

    def positions(self) -> dict[str, int]:
        """Where the next byte goes, in each open file. What was printed so far is out, too."""
        _flush()
        found = {}
        for file, path in self._living():
            with suppress(OSError, ValueError):
                file.flush()
                found[path] = file.buffer.tell() if hasattr(file, "buffer") else file.tell()
        return found

    def go_on(self, header: dict[str, Any], made_again: list[str], others: Iterable[str] = ()) -> None:
        """From here on files are written. ``made_again``: temporary folders. ``others``: files that other
        ranks wrote after the checkpoint. Raises Diverged.
        """
        positions, saved = header["files"], header["saved"]
        check_there(saved, made_again)
        self._copies.check()
        changed = {path for path in self._saved if size_and_time(path) != saved.get(path, [])}
        written = self._written.since(header.get("written", 0)) - (self._saved & set(saved))
        self._later.begin(changed | written | set(header.get("later", ())), saved, others)
        for file, path in self._living():
            if not _is_plain(path):
                continue
            if path not in positions or not os.path.exists(path):
                raise Diverged(f"{path} is open for writing, and was not in the run that is continued")
            file.flush()
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            os.dup2(descriptor, file.fileno(), inheritable=False)
            file.seek(positions[path])
            if path in self._later and saved.get(path, [-1])[0] == positions[path]:
                self._written_on[path] = descriptor  # at the same place in it as the script's, also if closed
            else:
                os.close(descriptor)
        self.playing = False

    def _living(self) -> list[tuple[IO[Any], str]]:
        living = [(ref, file, path) for ref, path in self._open if (file := ref()) is not None]
        self._open = [(ref, path) for ref, file, path in living if not file.closed]
        return [(file, path) for _, file, path in living if not file.closed]


def _is_plain(path: str) -> bool:
    """Devices, pipes and what is below /proc are nothing that could be written twice."""
    return not path.startswith(("/dev/", "/proc/", "/sys/")) and (
        os.path.isfile(path) or not os.path.exists(path)
    )


def by_machinery(frame: FrameType | None, between: tuple[str, ...] = ()) -> bool:
    """Whether a call comes from what makes processes, temporary files or compiled code: those are new each
    time.
    """
    while frame is not None and frame.f_code.co_filename.endswith((*_BETWEEN, *between)):
        frame = frame.f_back
    return frame is not None and any(part in frame.f_code.co_filename for part in _MACHINERY)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
