"""Why a run cannot be kept, or not be continued: the message says what, and what to do."""

from __future__ import annotations


class Cannot(Exception):
    """A checkpoint cannot be taken of this script, or not be put back."""


class Diverged(Cannot):
    """The script does not do what it did in the run that is continued."""


def told(error: Exception) -> str:
    """Why, or that it is a bug."""
    return str(error) if isinstance(error, Cannot) else f"a bug in hasten ({type(error).__name__}: {error})"


def why_not_continued(error: Exception) -> str:
    """For the line that ends a restart."""
    why = told(error)
    if not isinstance(error, Diverged):
        return why
    return (
        f"this training cannot be continued: {why}. To train from the beginning, name another folder, or "
        "leave out --checkpoint"
    )
