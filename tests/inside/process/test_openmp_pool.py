"""Ending the threads that wait for the next operator, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ...patience import PATIENCE_SECONDS

_ASK = """
import os, torch
from hasten.inside.process.openmp_pool import end_idle_threads

def threads():
    return len(os.listdir("/proc/self/task"))

torch.set_num_threads(2)
end_idle_threads()  # there is no pool yet
one = torch.ones(2**20).add_(1)
with_pool = threads()
end_idle_threads()
without = next(filter(lambda count: count < with_pool, iter(threads, None)))  # it may show for a while
two = torch.ones(2**20).add_(1)
print(with_pool - without, threads() - without, torch.get_num_threads(), torch.equal(one, two))
"""


_FORKED = """
import os, torch
from hasten.inside.process.openmp_pool import end_idle_threads

torch.set_num_threads(2)
torch.ones(2**20).add_(1)
child = os.fork()
if child == 0:
    torch.set_num_threads(1)
    end_idle_threads()
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""


def test_a_forked_process_does_not_wait_for_threads_that_it_has_not() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FORKED], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
    )
    assert done.stdout.strip() == "0"


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="it does not say how many threads there are")
@pytest.mark.parametrize("wait", ["active", "passive"])
def test_waiting_threads_end_and_the_next_operator_starts_new_ones(wait: str) -> None:
    environment = {**os.environ, "OMP_WAIT_POLICY": wait}
    done = subprocess.run(
        [sys.executable, "-c", _ASK],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    assert done.stdout.split() == ["1", "1", "2", "True"]
