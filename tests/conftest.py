"""For all tests."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import settings

from hasten.inside.seams import Seams

from .attack import AREAS

settings.register_profile("untimed", deadline=None)  # how long a case takes says nothing on a busy machine
settings.load_profile("untimed")

# Under nohup and in the background they are ignored, as is then what we start: no signal that a test sends
# would end it.
for _name in ("SIGHUP", "SIGINT", "SIGQUIT"):
    _number = getattr(signal, _name, None)
    if _number is not None and signal.getsignal(_number) == signal.SIG_IGN:
        with suppress(ValueError):  # not in the main thread
            signal.signal(_number, signal.default_int_handler if _name == "SIGINT" else signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--thorough",
        action="store_true",
        help="run those, too, that take long and seldom find what others miss",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tell the area of attacks, and leave out what is marked ``thorough``, unless it is asked for; pytest
    counts that as deselected.
    """
    for item in items:
        attack = item.get_closest_marker("attack")
        if attack is not None:
            (area,) = attack.args
            assert area in AREAS, f"{item.nodeid}: there is no area {area!r}"
            item.user_properties.append(("attack", area))
    if config.getoption("--thorough"):
        return
    thorough = [item for item in items if item.get_closest_marker("thorough")]
    if thorough:
        config.hook.pytest_deselected(items=thorough)
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Twelve thousand tests are half a million objects: no collection within a test goes through them."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def seams() -> Iterator[Seams]:
    """They are taken back when the test is over."""
    made = Seams()
    try:
        yield made
    finally:
        made.undo_all()
