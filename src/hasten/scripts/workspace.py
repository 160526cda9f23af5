"""Where hasten keeps what it learnt about a script: ``.hasten/NAME/`` below the working directory."""

from __future__ import annotations

import os
import re
import shlex
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import PathFinder
from itertools import count
from pathlib import Path

from .. import safe_files
from ..errors import UnsafeFile, UsageError
from ..inside.worker.notebook import read_notebook
from .folder_names import folder_name
from .sources import digest_of

_NUMBER = re.compile(r"[0-9]{1,9}")  # of a trial
_MOST_BYTES = 64 * 2**20  # of a script, or of a notebook with its pictures


@dataclass(frozen=True)
class Script:
    """The user's program and its arguments: a file, a notebook, or a module as with ``python -m``."""

    path: Path  # as typed; a module's file
    arguments: tuple[str, ...]
    module: str | None = None

    @property
    def argv(self) -> tuple[str, ...]:
        """What follows ``python``, or ``python -m``: the file or the module, then its own arguments."""
        return (self.module or self._file, *self.arguments)

    @property
    def label(self) -> str:
        """As it is typed on hasten's command line."""
        return f"-m {self.module}" if self.module else self._file

    @property
    def command(self) -> str:
        """The same, with its arguments, for a shell."""
        program = ("-m", self.module) if self.module else (self._file,)
        return shlex.join((*program, *self.arguments))

    @property
    def _file(self) -> str:
        """Cannot be mistaken for an option, Python's or ours."""
        path = str(self.path)
        return os.path.join(".", path) if path.startswith("-") else path

    @property
    def is_notebook(self) -> bool:
        return self.path.suffix == ".ipynb"

    @property
    def folders(self) -> tuple[str, ...]:
        """The working directory and the script's own folder, without links: which a trial must not touch."""
        own = () if self.module and _is_installed(self.path) else (str(self.path.resolve().parent),)
        return tuple(dict.fromkeys((str(Path.cwd().resolve()), *own)))

    def digest(self) -> str:
        """Digest of its current content, see ``sources.digest_of``."""
        return digest_of(self.path)


def find_script(path: str, arguments: list[str]) -> Script:
    """Raises UsageError if ``path`` is not a readable Python script or notebook."""
    script = Script(Path(path), tuple(arguments))
    _check_file(path, script.path)
    what = "notebook" if script.is_notebook else "Python script"
    try:
        if script.is_notebook:
            read_notebook(path)
        else:
            compile(script.path.read_bytes(), path, "exec", dont_inherit=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{path} is not a {what}: {error}") from None
    except (RecursionError, MemoryError):  # from Python's own compiler
        raise UsageError(f"{path} is not a {what}: it is nested too deeply for Python") from None
    return script


def _check_file(typed: str, path: Path) -> None:
    """Raises UsageError if reading ``path`` would fail or block."""
    missing = f"there is no script at {typed} (looked from {Path.cwd()})"
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: not a valid name
        raise UsageError(missing) from None
    except OSError as error:
        raise UsageError(f"{typed} cannot be read: {error.strerror}") from None
    if stat.S_ISDIR(found.st_mode):
        raise UsageError(f"{typed} is a folder: name the Python script that trains")
    if not stat.S_ISREG(found.st_mode):  # a pipe or a device
        raise UsageError(f"{typed} is not a file: name the Python script that trains")
    if found.st_size > _MOST_BYTES:
        raise UsageError(f"{typed} has {found.st_size / 2**20:,.0f} MB: name the Python script that trains")


def find_module(name: str, arguments: list[str]) -> Script:
    """The module that ``python -m name`` would run from here. Raises UsageError if there is none.

    Nothing is imported: a package's own code runs in the worker, not here.
    """
    first, *rest = name.split(".")
    spec = PathFinder.find_spec(first, [str(Path.cwd()), *sys.path])
    if spec is None or not all(part.isidentifier() for part in (first, *rest)):
        raise UsageError(f"there is no module named {name} (looked from {Path.cwd()} and in {sys.prefix})")
    stems = [Path(folder, *rest) for folder in spec.submodule_search_locations or ()]
    candidates = [path for stem in stems for path in (stem / "__main__.py", stem.with_suffix(".py"))]
    if not rest and spec.origin and not spec.submodule_search_locations:
        candidates = [Path(spec.origin)]
    for path in candidates:
        if path.is_file() and path.suffix == ".py" and path.name != "__init__.py":
            return Script(path, tuple(arguments), name)
    raise UsageError(f"{name} has no module that can be run (a package needs a __main__.py)")


def _is_installed(path: Path) -> bool:
    return bool({"site-packages", "dist-packages"} & set(path.resolve().parts))


@dataclass(frozen=True)
class Workspace:
    """The folder of one script, and the journal shared by all scripts run from here."""

    script: Script

    @property
    def root(self) -> Path:
        """``.hasten``, relative to the working directory, as are all paths here."""
        return Path(safe_files.ROOT)

    @property
    def folder(self) -> Path:
        return self.root / folder_name(self.script.path, self.script.module)

    @property
    def plan_path(self) -> Path:
        return self.folder / "plan.toml"

    @property
    def unconfirmed_path(self) -> Path:
        """The best plan of a running or unfinished tune."""
        return self.folder / "plan.unconfirmed.toml"

    @property
    def journal_path(self) -> Path:
        return self.root / "journal.db"

    @property
    def lock_path(self) -> Path:
        """A file that is locked while anything is measured in this working directory, whatever script."""
        return self.root / ".lock"

    def new_trial(self) -> Path:
        """Create the folder of the next trial; those of earlier tunes stay."""
        trials = self.folder / "trials"
        safe_files.make_folder(trials)
        taken = [int(name) for name in safe_files.names(trials) if _NUMBER.fullmatch(name)]
        for number in count(max(taken, default=-1) + 1):
            made = trials / f"{number:03}"
            with suppress(FileExistsError):  # another hasten was faster
                safe_files.make_new_folder(made)
                break
        return made

    def make(self) -> None:
        """Raises UsageError if the working directory cannot be written, or if what is there is not
        ours.
        """
        try:
            safe_files.make_folder(self.folder)
        except (OSError, UnsafeFile) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise UsageError(
                f"hasten keeps its plan and trials in {self.folder.absolute()}, which cannot be made: {why}"
            ) from None
