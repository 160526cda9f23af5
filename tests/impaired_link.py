"""Passes packets between interfaces, loses some and delays all: ``tc netem`` without netem.

``impaired_link.py LOSS DELAY ONE OTHER [ONE OTHER ...]``, in the network namespace that has all of them. LOSS
is a share, DELAY in seconds, one way. Source: packet(7).
"""

from __future__ import annotations

import random
import select
import socket
import sys
import time
from collections import deque

_ALL, _MOST_BYTES = 3, 2**17  # ETH_P_ALL; of a packet that the kernel has not split yet
_SOL_PACKET, _VNET_HEADER, _IGNORE_OUTGOING = 263, 15, 23
_SLEEP_ENDS_LATE = 1e-4  # seconds; what is due so soon is waited for awake


def opened(name: str) -> socket.socket:
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL))
    made.bind((name, 0))
    made.setsockopt(_SOL_PACKET, _VNET_HEADER, 1)  # how far checksums and sizes are still to be worked out
    made.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
    return made


def main(loss: float, delay: float, names: list[str]) -> None:
    ends = [*map(opened, names)]
    across = {end: ends[place ^ 1] for place, end in enumerate(ends)}
    drawn, under_way = random.Random(0), deque[tuple[float, socket.socket, bytes]]()
    while True:
        for end in select.select([*across], [], [], _until(under_way))[0]:
            packet = end.recv(_MOST_BYTES)
            if drawn.random() >= loss:
                under_way.append((time.monotonic() + delay, across[end], packet))
        while under_way and under_way[0][0] <= time.monotonic():
            _, end, packet = under_way.popleft()
            try:
                end.send(packet)
            except OSError:
                continue  # its queue is full: that one is lost, too


def _until(under_way: deque[tuple[float, socket.socket, bytes]]) -> float | None:
    """Seconds to wait for more packets; None: until there is one."""
    if not under_way:
        return None
    left = under_way[0][0] - time.monotonic()
    return max(0.0, left - _SLEEP_ENDS_LATE)


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
