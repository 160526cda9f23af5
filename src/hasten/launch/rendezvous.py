"""Where ranks meet, in the variables that torchrun sets.

Source: https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from ..errors import UsageError

LOCAL = "127.0.0.1"


@dataclass(frozen=True)
class Place:
    """Where our ranks meet. ``store`` and ``memory`` as in ``inside.job.Ranks``; ``inherited``: the
    descriptors that each rank must have open.
    """

    store: str
    memory: tuple[int, ...] = ()
    inherited: tuple[int, ...] = ()


@contextmanager
def private_place() -> Iterator[Place]:
    """Anonymous memory for one launch: invisible to others, and nothing of it stays behind.

    If there is no such memory (macOS): a free port of this machine.
    """
    if not hasattr(os, "memfd_create"):
        yield Place(f"tcp://{LOCAL}:{free_port()}")
        return
    with ExitStack() as stack:
        made = []
        for name in ("store", "now", "in turn"):
            made.append(os.memfd_create(f"hasten {name}"))
            stack.callback(os.close, made[-1])
        yield Place(f"file:///proc/self/fd/{made[0]}", tuple(made[1:]), tuple(made))


def meeting_place(environment: Mapping[str, str]) -> dict[str, str]:
    """MASTER_ADDR and MASTER_PORT: the user's own, or this machine and a port that is free.

    Raises UsageError if the user's port is invalid, or taken.
    """
    address = environment.get("MASTER_ADDR", LOCAL)
    wanted = environment.get("MASTER_PORT")
    return {"MASTER_ADDR": address, "MASTER_PORT": str(free_port() if wanted is None else _usable(wanted))}


def as_torchrun(number: int, size: int, place: Mapping[str, str]) -> dict[str, str]:
    """The variables of rank ``number`` of ``size`` on one machine."""
    return {
        **place,
        "RANK": str(number), "LOCAL_RANK": str(number), "ROLE_RANK": str(number),
        "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size), "ROLE_WORLD_SIZE": str(size),
        "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1", "ROLE_NAME": "default",
        "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "0",
    }  # fmt: skip


def free_port() -> int:
    """A port that is free now. Rank 0 takes it a moment later: it cannot be reserved for a rank."""
    with socket.socket() as probe:
        probe.bind((LOCAL, 0))
        return int(probe.getsockname()[1])


def _usable(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 2**16:
        raise UsageError(
            f"MASTER_PORT is {text!r}, which is not a port: unset it, or set one from 1 to 65535"
        )
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # like torch's store
        try:
            probe.bind(("", int(text)))
        except OSError as error:
            why = "taken by another program" if error.errno == errno.EADDRINUSE else f"not free ({error})"
            raise UsageError(
                f"MASTER_PORT is {text}, which is {why}: unset it, and a free one is found"
            ) from None
    return int(text)
