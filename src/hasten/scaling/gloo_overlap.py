"""When the last bucket is reduced by Gloo, which hides part of a link's latency behind its bandwidth.

Two all-reduces are under way at once, and each sends what it holds in two segments: while one waits for its
neighbour's word, others are sent. First all ranks add up, then they spread the sums. All do the same at the
same time, so that one link is enough to look at; a message waits for the receiver's word that it is ready,
and for the data: twice the latency.

Sources: Gloo's ``allreduce.cc`` (``ring``) and ``transport/tcp/pair.cc``; torch's ``ProcessGroupGloo``, whose
threads are two
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

AT_ONCE = 2  # all-reduces
SEGMENTS = 2  # of what a rank sends in one message of a ring
WAYS = 2  # before data are there
_PHASES = 2
_MOST_PLAYED = 128  # messages of one all-reduce; of more, several count as one


@dataclass(frozen=True)
class Sending:
    """A bucket's all-reduce: ``messages`` one after another, each ``link_seconds`` on the link and before
    that ``waiting_seconds``. It can begin when the bucket is ``ready``, and what is done within hosts takes
    ``before_seconds``.
    """

    ready: float
    messages: int
    link_seconds: float
    waiting_seconds: float
    before_seconds: float = 0.0


def last_reduced(buckets: Sequence[Sending]) -> float:
    """Seconds from the start of the backward pass, as ``ready`` is."""
    waiting, link_free, end = deque(map(_played, buckets)), 0.0, 0.0
    asking: list[tuple[float, int, int]] = []  # when a segment asks for the link, whose it is, messages left
    begun: list[Sending] = []
    segments_left: list[int] = []  # by bucket, of both phases

    def begin_phase(number: int, at: float) -> None:
        bucket = begun[number]
        for _ in range(SEGMENTS):
            heapq.heappush(asking, (at + bucket.waiting_seconds, number, bucket.messages // _PHASES))

    def begin(at: float) -> None:
        bucket = waiting.popleft()
        begun.append(bucket)
        segments_left.append(_PHASES * SEGMENTS)
        begin_phase(len(begun) - 1, max(at, bucket.ready) + bucket.before_seconds)

    while waiting and len(begun) < AT_ONCE:
        begin(0.0)
    while asking:
        at, number, left = heapq.heappop(asking)
        bucket = begun[number]
        link_free = max(at, link_free) + bucket.link_seconds / SEGMENTS
        if left > 1:
            heapq.heappush(asking, (link_free + bucket.waiting_seconds, number, left - 1))
            continue
        segments_left[number] -= 1
        if segments_left[number] == 0:
            end = link_free
            if waiting:
                begin(end)
        elif segments_left[number] % SEGMENTS == 0:
            begin_phase(number, link_free)
    return end


def _played(bucket: Sending) -> Sending:
    """With few enough messages, which take as long together."""
    if bucket.messages <= _MOST_PLAYED:
        return bucket
    times = bucket.messages / _MOST_PLAYED
    return Sending(
        bucket.ready,
        _MOST_PLAYED,
        times * bucket.link_seconds,
        times * bucket.waiting_seconds,
        bucket.before_seconds,
    )
