"""Where hasten keeps what it learnt of a script: ``.hasten/NAME/`` below the working directory."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from .errors import UsageError


@dataclass(frozen=True)
class Script:
    """The user's program and its arguments."""

    path: Path  # as typed
    arguments: tuple[str, ...]

    @property
    def argv(self) -> tuple[str, ...]:
        return (str(self.path), *self.arguments)

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def folders(self) -> tuple[str, ...]:
        """The working directory and the script's own folder, without links: what a trial must not touch."""
        return tuple(dict.fromkeys((str(Path.cwd().resolve()), str(self.path.resolve().parent))))

    def digest(self) -> str:
        return hashlib.blake2b(self.path.read_bytes(), digest_size=16).hexdigest()


def find_script(path: str, arguments: list[str]) -> Script:
    """Raises UsageError where ``path`` is no readable Python script."""
    script = Script(Path(path), tuple(arguments))
    if script.path.is_dir():
        raise UsageError(f"{path} is a folder: name the Python script that trains")
    if not script.path.exists():
        raise UsageError(f"there is no script at {path} (looked from {Path.cwd()})")
    try:
        compile(script.path.read_bytes(), path, "exec", dont_inherit=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{path} is not a Python script: {error}") from None
    return script


@dataclass(frozen=True)
class Workspace:
    """The folder of one script, and the journal shared by all scripts run from here."""

    script: Script

    @property
    def root(self) -> Path:
        return Path(".hasten")

    @property
    def folder(self) -> Path:
        return self.root / self.script.name

    @property
    def plan_path(self) -> Path:
        return self.folder / "plan.toml"

    @property
    def journal_path(self) -> Path:
        return self.root / "journal.db"

    def new_trial(self) -> Path:
        """Make the folder of the next trial; those of earlier tunes stay."""
        trials = self.folder / "trials"
        taken = [int(path.name) for path in trials.glob("[0-9]*") if path.name.isdigit()]
        made = trials / f"{max(taken, default=-1) + 1:03}"
        made.mkdir(parents=True)
        return made

    def make(self) -> None:
        """Raises UsageError where the working directory cannot be written."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"hasten keeps its plan and trials in {self.folder.absolute()}, which cannot be made: "
                f"{error.strerror}"
            ) from None
