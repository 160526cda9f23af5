"""Option values, checked before anything starts: their types, and whether files can be written."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import click

from ..errors import UsageError

MOST_PROCESSES = 4096
"""The most a plan may ask for; how many fit the machine is checked later."""
MOST_SEED = 2**63 - 1
"""torch accepts more, numpy and PYTHONHASHSEED less: those get the remainder modulo 2**32."""
MOST_STEPS = 1_000_000
MOST_SEEDS = 1000
LEAST_AGAIN = 1000  # steps after which a run may try again: to try takes hundreds
YEAR_SECONDS = 31_622_400
_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_NUMBER = r"[0-9]{1,9}(?:[.][0-9]{1,9})?"
_SHARE = re.compile(rf"(?P<percent>{_NUMBER}) ?%(?: ?of ?(?P<length>{_NUMBER}) ?(?P<unit>s|min|h|d)?)?")
_WORTH_REPEATING = 60  # characters of what was typed


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """An option's type: a whole number from ``least`` to ``most``."""

    def whole(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            expected = f"expected a whole number from {least} to {most:,}"
            raise click.BadParameter(f"{expected}, found {shortened(text)}")
        return value

    return whole


def positive_seconds(text: str) -> float:
    """An option's type: seconds above zero, a year at most."""
    return _above_zero(text, YEAR_SECONDS, f"seconds above zero, a year ({YEAR_SECONDS:,}) at most")


def amount(text: str) -> float:
    """An option's type: a number above zero."""
    return _above_zero(text, sys.float_info.max, "a number above zero")


def _above_zero(text: str, most: float, expected: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= most:
        raise click.BadParameter(f"expected {expected}, found {shortened(text)}")
    return value


@dataclass(frozen=True)
class ShareOfRun:
    """A ``share`` of a whole training, which takes ``seconds``; None if that was not given."""

    share: float
    seconds: float | None = None

    def __str__(self) -> str:
        return f"{100 * self.share:g}%"


def seconds_or_share(given: str | float) -> float | ShareOfRun:
    """An option's type: seconds, or a part of a training: "5%", or "5% of 2h" where its length is said."""
    text = str(given)  # a default is not text
    found = _SHARE.fullmatch(text)
    if found is None:
        if "%" not in text:
            return positive_seconds(text)
    else:
        percent, length = float(found["percent"]), found["length"]
        seconds = float(length) * _UNITS[found["unit"] or "s"] if length is not None else None
        if 0 < percent <= 100 and (seconds is None or 0 < seconds <= YEAR_SECONDS):
            return ShareOfRun(percent / 100, seconds)
    expected = "expected seconds, or a part of the training such as 5% or '5% of 2h' (s, min, h, d)"
    raise click.BadParameter(f"{expected}, found {shortened(text)}")


def steps_or_minutes(text: str) -> tuple[int | None, float | None]:
    """An option's type: so many steps, or so many minutes as in "30min". One of the two is None."""
    if text.endswith("min"):
        with suppress(ValueError, click.BadParameter):
            return None, positive_seconds(str(60 * float(text.removesuffix("min"))))
    else:
        with suppress(click.BadParameter):
            return whole_number(LEAST_AGAIN, 10**12)(text), None
    expected = f"expected steps, {LEAST_AGAIN} or more, or minutes as in 30min"
    raise click.BadParameter(f"{expected}, found {shortened(text)}")


def file_name(text: str) -> str:
    """An option's type: anything but an empty name, which would count as none."""
    if not text:
        raise click.BadParameter("expected a file, found an empty name")
    return text


def shortened(text: str) -> str:
    """What was typed, quoted, as far as it is worth repeating."""
    return repr(text if len(text) <= _WORTH_REPEATING else f"{text[:_WORTH_REPEATING]}...")


def check_json_target(target: str | None, script: str | None) -> None:
    """Raises UsageError if a result could not be written after measuring. Leaves no trace."""
    if target is None or target == "-":
        return
    path = os.path.realpath(target)
    try:
        if script and os.path.exists(path) and os.path.exists(script) and os.path.samefile(path, script):
            raise UsageError(f"--json {target} would overwrite the script itself")
        if os.path.isdir(path):
            raise UsageError(f"--json {target} is a folder: name a file in it")
        _try_writing(path)
    except OSError as error:
        raise UsageError(f"--json {target} cannot be written: {error.strerror}") from None


def _try_writing(path: str) -> None:
    """A new file is removed again; a pipe is not opened, because its reader may come later."""
    try:
        if stat.S_ISFIFO(os.stat(path).st_mode):
            return
    except FileNotFoundError:
        os.close(os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_CREAT | os.O_EXCL, 0o666))
        os.unlink(path)
        return
    os.close(os.open(path, os.O_WRONLY | os.O_CLOEXEC))
