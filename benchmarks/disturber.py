"""A program that keeps every core busy for a third of the time, at random moments."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

SHARE = 1 / 3
BURST_SECONDS = (0.5, 6.0)


@contextmanager
def disturber(seed: int) -> Iterator[None]:
    """Other programs at work, now and then."""
    start, arguments = multiprocessing.get_context("spawn").Process, (seed, os.getpid())
    cores = [start(target=work_now_and_then, args=arguments, daemon=True) for _ in range(os.cpu_count() or 1)]
    for core in cores:
        core.start()
    try:
        yield
    finally:
        for core in cores:
            core.kill()
            core.join()


def work_now_and_then(seed: int, parent: int) -> None:
    """All with one seed begin and end at about the same time. They end where ``parent`` was killed."""
    source = random.Random(seed)
    while os.getppid() == parent:
        burst = source.uniform(*BURST_SECONDS)
        time.sleep(source.expovariate(SHARE / (1 - SHARE) / (sum(BURST_SECONDS) / 2)))
        until = time.monotonic() + burst
        while time.monotonic() < until:
            pass
