"""Passes packets from one interface to another and back, and loses some: ``tc netem loss`` without netem.

``lossy_link.py ONE OTHER SHARE``, in the network namespace that has both. Source: packet(7).
"""

from __future__ import annotations

import random
import select
import socket
import sys

_ALL, _MOST_BYTES = 3, 2**17  # ETH_P_ALL; of a packet that the kernel has not split yet
_SOL_PACKET, _VNET_HEADER, _IGNORE_OUTGOING = 263, 15, 23


def opened(name: str) -> socket.socket:
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL))
    made.bind((name, 0))
    made.setsockopt(_SOL_PACKET, _VNET_HEADER, 1)  # how far checksums and sizes are still to be worked out
    made.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
    return made


def main(one: str, other: str, share: float) -> None:
    ends = opened(one), opened(other)
    drawn = random.Random(0)
    while True:
        for end in select.select(ends, [], [])[0]:
            packet = end.recv(_MOST_BYTES)
            if drawn.random() >= share:
                try:
                    ends[end is ends[0]].send(packet)
                except OSError:
                    continue  # its queue is full: that one is lost, too


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
