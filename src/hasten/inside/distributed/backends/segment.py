"""Memory that the ranks of one machine share. It leaves no file behind, however they end."""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import secrets
import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...internals.groups import Store

_WAYS = ("inherited", "memory", "file")
_TOKEN_BYTES = 16
_SHARED_FOLDER = "/dev/shm"


class CannotShare(RuntimeError):
    """The ranks cannot share memory, or there is too little of it."""


class Segment:
    """All ``size`` ranks construct it at the same time, and agree on it through ``store``.

    It is memory without a name, which the others open through /proc among rank 0's open files; where a rank
    may not do that, a file that is removed as soon as all have opened it. Each rank holds a lock on one byte
    of it: the kernel releases that when the process ends, so the others can tell.

    ``able``: what this rank can do; ``common``: what all can. ``inherited``: the descriptor of memory that
    the launcher gave to all ranks. Raises CannotShare, in every rank alike.
    """

    def __init__(
        self,
        store: Store,
        rank: int,
        size: int,
        many_bytes: int,
        able: frozenset[str],
        inherited: int | None = None,
    ) -> None:
        self.rank = rank
        self._inherited = inherited
        self.common = frozenset[str]()
        self._descriptor = -1
        reasons = []
        for way in _WAYS if inherited is not None else _WAYS[1:]:
            self.close()
            offer = (
                self._offer(way, store, many_bytes) if rank == 0 else json.loads(store.get(f"{way}/offer"))
            )
            mine = {"failure": offer["failure"] or self._take(offer, many_bytes), "able": sorted(able)}
            store.set(f"{way}/taken/{rank}", json.dumps(mine))
            taken = [json.loads(store.get(f"{way}/taken/{other}")) for other in range(size)]
            offer.get("remove", lambda: None)()
            failed = [f"rank {other}: {one['failure']}" for other, one in enumerate(taken) if one["failure"]]
            if not failed:
                self.common = frozenset.intersection(*(frozenset(one["able"]) for one in taken))
                self._lock(rank)
                store.set(f"locked/{rank}", "")
                store.wait([f"locked/{other}" for other in range(size)])
                return
            reasons += failed
        raise CannotShare(
            f"the ranks cannot share memory ({'; '.join(dict.fromkeys(reasons))}). Are all of them on this "
            "machine, in one container? Between machines, use gloo"
        )

    def _offer(self, way: str, store: Store, many_bytes: int) -> dict[str, Any]:
        """Create the memory and tell all ranks where it is. ``remove``, in this rank, removes its name."""
        token, failure, place, remove = secrets.token_bytes(_TOKEN_BYTES), "", "", lambda: None
        try:
            if way == "inherited" and self._inherited is not None:
                self._descriptor = self._inherited
            else:
                self._descriptor, place, remove = _made(way)
            os.posix_fallocate(self._descriptor, 0, many_bytes)  # fail now, not with SIGBUS during training
            os.pwrite(self._descriptor, token, 0)
        except (OSError, AttributeError) as error:
            failure = f"{error}; {many_bytes} bytes are needed"
        told = {"failure": failure, "place": place, "token": token.hex()}
        store.set(f"{way}/offer", json.dumps(told))
        return {**told, "remove": remove}

    def _take(self, offer: dict[str, Any], many_bytes: int) -> str:
        """Map the memory; returns why that was not possible, or ""."""
        try:
            if self._descriptor < 0 and offer["place"]:
                by_link = offer["place"].startswith("/proc/")  # the kernel's own link; any other was planted
                self._descriptor = os.open(offer["place"], os.O_RDWR | (0 if by_link else os.O_NOFOLLOW))
            elif self._descriptor < 0 and self._inherited is not None:
                self._descriptor = self._inherited
            if os.pread(self._descriptor, _TOKEN_BYTES, 0).hex() != offer["token"]:
                return f"{offer['place'] or 'what was inherited'} is something else here"
            self.memory = mmap.mmap(self._descriptor, many_bytes)
        except OSError as error:
            return str(error)
        return ""

    def _lock(self, rank: int) -> None:
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, rank)

    def is_gone(self, rank: int) -> bool:
        """Whether the process of that rank has ended: its lock is no longer held."""
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, rank)
        except OSError:
            return False
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, rank)
        return True

    def close(self) -> None:
        """Close the descriptor. The memory stays mapped as long as it is used."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _made(way: str) -> tuple[int, str, Callable[[], None]]:
    """An empty file's descriptor, the path for others to open it, and a function that removes its name."""
    if way == "memory":
        descriptor = os.memfd_create("hasten")
        return descriptor, f"/proc/{os.getpid()}/fd/{descriptor}", lambda: None
    folder = _SHARED_FOLDER if os.path.isdir(_SHARED_FOLDER) else None
    descriptor, path = tempfile.mkstemp(prefix="hasten-", dir=folder)

    def remove() -> None:
        with suppress(OSError):
            os.unlink(path)

    return descriptor, path, remove
