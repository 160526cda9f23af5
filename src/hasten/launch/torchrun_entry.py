"""torchrun on this host, told by which address the others reach it.

Run by path: ``python torchrun_entry.py TOWARDS INTERFACE TORCHRUN-WORDS...``. ``TOWARDS`` is the host where
ranks meet, ``INTERFACE`` a network's or empty; both empty where all ranks are on this host. torchrun itself
would tell the others this host's name, which often leads nowhere. Nothing is imported from the working
directory, as ``python -m`` would.
"""

from __future__ import annotations

import os
import runpy
import socket
import sys
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hasten.launch.host_watch import HostWatch


def local_address(towards: str, interface: str) -> list[str]:
    """This host's address as arguments for torchrun. Raises UsageError if others cannot reach any."""
    from hasten.launch.network import address_of, address_towards

    if not towards:
        return []
    return ["--local-addr", address_of(interface) if interface else address_towards(towards)]


def check_port(words: list[str]) -> None:
    """Raises UsageError where ranks are to meet on this host, at a port that is not free. torchrun
    would take another job's for its own, and lose it where that one ends.
    """
    from hasten.errors import UsageError

    told = dict(pairwise(words))
    if "is_host=1" not in told.get("--rdzv-conf", "").split(","):
        return
    port = told["--rdzv-endpoint"].rpartition(":")[2]
    try:
        socket.create_server(("", int(port))).close()
    except OSError as error:
        where = f"port {port} on host {socket.gethostname()}"
        raise UsageError(
            f"{where}, where ranks are to meet, is not free ({error.strerror}): another job may have it. "
            "Leave --rdzv-endpoint out, and each job gets a port of its own, or name another"
        ) from None


def main(towards: str, interface: str, words: list[str]) -> None:
    """Does not return where torchrun fails: it raises SystemExit, once this was told in a line."""
    from hasten.errors import UsageError
    from hasten.launch.host_watch import HostWatch
    from hasten.launch.pulse import deadline_of
    from hasten.saying import say

    try:
        check_port(words)
        sys.argv[1:] = [*local_address(towards, interface), *words]
        watch = HostWatch(deadline_of(os.environ))
    except UsageError as error:
        say(f"hasten: {error}")
        raise SystemExit(error.exit_code) from None
    watch.begin()
    try:
        runpy.run_module("torch.distributed.run", run_name="__main__", alter_sys=True)
    except Exception as error:
        raise SystemExit(_told(error, watch, towards)) from None


def _told(error: Exception, watch: HostWatch, towards: str) -> int:
    """Say why torchrun ends, and return the code to end with. Raises what is torchrun's own affair."""
    from torch.distributed import DistError
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous.api import RendezvousError

    from hasten.saying import say

    if isinstance(error, ChildFailedError):
        rank, failure = error.get_first_failure()
        watch.ended(str(rank), failure.exitcode)
        return 1
    if isinstance(error, SignalException):
        return 128 + error.sigval
    if isinstance(error, (RendezvousError, DistError)):
        host, why = socket.gethostname(), str(error).partition("\n")[0]
        there = towards or host
        say(
            f"hasten: torchrun on host {host} does not reach the place where ranks meet, on {there}: that "
            f"host is gone, or torchrun there has ended, or the network is cut ({why})"
        )
        return 1
    raise error


if __name__ == "__main__":
    from entry import find_ourselves  # type: ignore[import-not-found]

    find_ourselves()
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
