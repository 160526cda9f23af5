"""Collections are held back where many objects are made, and then go on as they did."""

from __future__ import annotations

import gc

import pytest

from hasten.inside.process.collector import without_collections


def _fails() -> None:
    assert not gc.isenabled()
    raise KeyError


@pytest.mark.parametrize("enabled", [True, False])
def test_collections_go_on_as_before_also_after_an_error(enabled: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with pytest.raises(KeyError), without_collections():
            _fails()
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()
