"""How a launcher's process finds rank 0's, and proves to it that it belongs to the same job."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import UsageError
from ..inside.distributed.meeting import Meeting, NoMeeting, OtherKey
from .job_key import VARIABLE, job_key
from .keeper import Keeper
from .launched_rank import LaunchedRank
from .own_address import listening_address, master_of, ports_from

_RETRY_SECONDS = 0.2


@dataclass(frozen=True)
class Joined:
    """``address``: where all meet. ``keeper``: rank 0's, which keeps what processes send there."""

    meeting: Meeting
    address: str
    key: bytes
    keeper: Keeper | None


def join(launched: LaunchedRank, environment: Mapping[str, str], deadline_seconds: float) -> Joined:
    """Find rank 0 and join. Raises UsageError if it is not found within twice the deadline."""
    host, port = master_of(environment)
    ports = ports_from(port, environment)
    key = job_key(environment, f"{host}:{port} {launched.job} {launched.size}")
    if launched.rank:
        return _reach(launched, [f"{host}:{one}" for one in ports], key, deadline_seconds)
    address = listening_address(host, launched.local_size == launched.size)
    try:
        keeper = Keeper(address, ports, key, deadline_seconds)
    except OSError as error:
        raise UsageError(
            f"rank 0 cannot listen at {address}, ports {ports[0]} to {ports[-1]}: {error}. Set MASTER_PORT "
            "to one that is free, on all hosts"
        ) from None
    return Joined(Meeting(keeper.address, key, deadline_seconds), keeper.address, key, keeper)


def _reach(launched: LaunchedRank, where: Sequence[str], key: bytes, deadline_seconds: float) -> Joined:
    until = time.monotonic() + 2 * deadline_seconds
    found: dict[str, NoMeeting] = {}
    while True:
        for address in where:
            try:
                return Joined(Meeting(address, key, deadline_seconds), address, key, None)
            except NoMeeting as error:
                if not isinstance(found.get(address), OtherKey):  # which says most; later it may be gone
                    found[address] = error
        if time.monotonic() > until:
            raise UsageError(_why_not(launched, where, found, 2 * deadline_seconds))
        time.sleep(_RETRY_SECONDS)


def _why_not(
    launched: LaunchedRank, where: Sequence[str], found: Mapping[str, NoMeeting], seconds: float
) -> str:
    other = next((address for address, error in found.items() if isinstance(error, OtherKey)), "")
    if other:
        return (
            f"what listens at {other} has another secret, or is of another job: set {VARIABLE} to the "
            "same secret on all hosts (openssl rand -hex 16), and give all the same MASTER_ADDR, "
            "MASTER_PORT, job and number of ranks"
        )
    return (
        f"rank {launched.rank} on {socket.gethostname()} did not find rank 0 within {seconds:g} s: "
        f"{found[where[0]]}. Is rank 0 started, is MASTER_ADDR its machine, and does a firewall let "
        f"{where[0]} to {where[-1].rpartition(':')[2]} through?"
    )
