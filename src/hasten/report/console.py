"""Where reports are written: a console without markup that makes control characters visible."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

from ..errors import OutputLost
from ..saying import visible

if TYPE_CHECKING:
    from rich.console import Console

COMMAND = "  hasten "  # begins a line with a command to copy
_PLAIN_WIDTH = 110  # characters, when there is no terminal


def open_console(stream: TextIO, width: int = _PLAIN_WIDTH) -> Console:
    """Prints every string as it is, without markup, and makes control characters visible, in tables too.

    ``width``: in characters, used if ``stream`` is not a terminal. Printing raises OutputLost if ``stream``
    cannot take it.
    """
    from rich.console import Console, ConsoleOptions
    from rich.segment import Segment
    from rich.text import Text

    class VisibleConsole(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            plain = {**options, "markup": False, "emoji": False, "highlight": False}
            return super().render_str(visible(text, lines=True), **plain)  # before its width is measured

        def render(self, renderable: Any, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                if segment.control:  # rich's own, to redraw bars
                    yield segment
                else:
                    yield Segment(visible(segment.text, lines=True), segment.style)

    outlet: Any = Outlet(stream)
    console = VisibleConsole(file=outlet, markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = width
    return console


def print_lines(console: Console, lines: Iterable[str]) -> None:
    """Commands are not wrapped: in several lines they could not be copied."""
    for line in lines:
        console.print(line, soft_wrap=line.startswith(COMMAND))


class Outlet:
    """A stream for reports. Raises OutputLost if the stream cannot take what is written.

    BrokenPipeError passes through: the reader has closed the pipe.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.encoding = getattr(stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> None:
        try:
            self._stream.write(text)
        except BrokenPipeError:
            raise
        except (OSError, ValueError) as error:
            raise lost(error) from None

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            raise
        except (OSError, ValueError) as error:
            raise lost(error) from None

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()


def lost(error: OSError | ValueError) -> OutputLost:
    """The error for a report that could not be written."""
    why = (error.strerror if isinstance(error, OSError) else "") or str(error)
    if isinstance(error, OSError) and error.errno == errno.EBADF:
        why = "it is closed"
    return OutputLost(f"the result could not be written to standard output: {why}")
