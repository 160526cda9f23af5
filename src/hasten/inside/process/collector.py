"""Python's garbage collector, by functions of its own: a script may find others of ours in their place.

Source: https://docs.python.org/3/library/gc.html
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

collect, disable, enable, is_enabled = gc.collect, gc.disable, gc.enable, gc.isenabled
freeze, unfreeze, get_freeze_count = gc.freeze, gc.unfreeze, gc.get_freeze_count
get_objects, set_threshold, get_threshold = gc.get_objects, gc.set_threshold, gc.get_threshold


@contextmanager
def without_collections() -> Iterator[None]:
    """Within, nothing is collected. For what makes many objects that stay: collections would go through all
    of them, and through torch's own, again and again, and find nothing.
    """
    was_enabled = is_enabled()
    disable()
    try:
        yield
    finally:
        if was_enabled:
            enable()
