"""What a script fetches after a restart is compared with what it had fetched, as far as the next clock."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hasten.inside.checkpoints import script_journal
from hasten.inside.checkpoints.cannot import Diverged
from hasten.inside.checkpoints.repeating import Repeated
from hasten.inside.checkpoints.script_journal import Writer


def failing(error: Exception) -> None:
    raise error


def repeated(*records: tuple[bytes, object]) -> tuple[Repeated, SimpleNamespace]:
    writer = Writer()
    for kind, value in records:
        writer.add(kind, value)
    recording = SimpleNamespace(check="as before")
    return Repeated(writer.take(), recording, failing), recording


def test_another_value_is_named() -> None:
    found, _ = repeated((script_journal.STEP, None), (script_journal.VALUE, 1.0))
    with pytest.raises(Diverged, match=r"the script read 2.0 from a tensor, where it had read 1.0"):
        found.check(2.0)


def test_after_a_clock_nothing_is_compared() -> None:
    found, recording = repeated(
        (script_journal.VALUE, 1.0), (script_journal.CLOCK, 5.0), (script_journal.VALUE, 2.0)
    )
    found.check(1.0)
    found.check(3.0)
    assert recording.check is None
