"""Everything that hasten itself prints goes through here, so that text from others cannot control a terminal.

Names of classes and files, plans, tracebacks, /proc: none of it may move the cursor, hide, or look like a
line of ours. What the script prints is its own and never comes here.
"""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from typing import TextIO

# control characters (C0, DEL, C1), what hides or reverses text, other ends of lines, halves of a character
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")


def visible(text: str, lines: bool = False) -> str:
    """``text`` with all that would not be seen, or would do something, written out: ``\\x1b``, ``\\u202e``.

    ``lines``: it may have several of them, and tabs; otherwise an end of a line is written out, too.
    """
    if lines:
        text = text.replace("\r\n", "\n")
    return _HIDDEN.sub(lambda found: found[0] if lines and found[0] in "\n\t" else _written(found[0]), text)


def without_colours(text: str) -> str:
    """``text`` of a program that took its output for a terminal."""
    return _COLOURS.sub("", text)


def say(text: str, lines: bool = False, stream: TextIO | None = None) -> None:
    """Write ``text`` to ``stream``, or to standard error. If that is full or closed, nothing happens: there
    is nowhere left to report it.
    """
    stream = stream if stream is not None else sys.stderr
    with suppress(OSError, ValueError, AttributeError):  # a script may have put anything in its place
        if stream is not None:
            stream.write(visible(text, lines) + "\n")
            stream.flush()


def _written(character: str) -> str:
    return ascii(character)[1:-1]
