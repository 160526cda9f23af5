"""A forked child of a process that uses CUDA destroys nothing that was there before."""

from __future__ import annotations

import subprocess
import sys

import pytest

CHILD = """
import gc, os, sys
from types import SimpleNamespace
from hasten.inside.process.forked_children import freeze_again, spare_cuda_objects
from hasten.inside.techniques.support.frozen_collector import FrozenCollector

uses_cuda, is_garbage, enabled = (word == "True" for word in sys.argv[1:4])
spare_cuda_objects(SimpleNamespace(cuda=SimpleNamespace(is_initialized=lambda: uses_cuda)))

class Event:
    def __init__(self):
        self.itself = self
    def __del__(self):
        os.write(1, b"destroyed in the parent\\n" if os.getpid() == home else b"destroyed in a child\\n")

home = os.getpid()
frozen = FrozenCollector()
if sys.argv[4] == "gc_control":
    frozen.take_over()
    os.register_at_fork(after_in_child=lambda: (frozen.give_back(), freeze_again()))
if not enabled:
    gc.disable()
event = Event()
if is_garbage:
    del event
if os.fork():
    os.wait()
    assert gc.isenabled() == enabled
else:
    assert gc.isenabled() == enabled
    event = None
    gc.collect()
    os._exit(0)
event = None
gc.collect()
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "register_at_fork"), reason="no process forks here")
@pytest.mark.parametrize("technique", ["none", "gc_control"])
@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("garbage_comes", ["before", "in the child"])
@pytest.mark.parametrize("uses_cuda", [True, False])
def test_what_is_garbage(uses_cuda: bool, garbage_comes: str, enabled: bool, technique: str) -> None:
    words = [str(uses_cuda), str(garbage_comes == "before"), str(enabled), technique]
    ended = subprocess.run([sys.executable, "-c", CHILD, *words], capture_output=True, text=True, check=True)
    in_child = [] if uses_cuda else ["destroyed in a child"]
    assert ended.stdout.splitlines() == [*in_child, "destroyed in the parent"]
    assert not ended.stderr
