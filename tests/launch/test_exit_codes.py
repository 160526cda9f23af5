"""How a rank ended, in words."""

from __future__ import annotations

import signal

import pytest

from hasten.launch.exit_codes import WAITED, how_it_ended


@pytest.mark.parametrize(
    ("code", "for_memory", "said"),
    [
        (3, False, "ended with exit code 3"),
        (WAITED, False, "waited for another in vain"),
        (3, True, "ended with exit code 3"),
        (-signal.SIGSEGV, False, "was killed by SIGSEGV"),
        (-signal.SIGKILL, False, "was killed by SIGKILL (out of memory?)"),
        (-signal.SIGKILL, True, "was killed by SIGKILL: the machine or its container ran out of memory"),
        (-40, False, "was killed by signal 40"),
    ],
)
def test_the_cause_is_named(code: int, for_memory: bool, said: str) -> None:
    assert how_it_ended(code, for_memory) == said


def test_too_little_shared_memory_is_told_with_what_helps() -> None:
    assert "--shm-size=1g" in how_it_ended(-signal.SIGBUS)
