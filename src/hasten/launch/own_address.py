"""At which of this machine's addresses its ranks meet those of others, and at which ports they look."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from contextlib import suppress

from ..errors import UsageError

_TRIED = 8  # ports after MASTER_PORT
_MOST_PORT = 2**16 - 1
_FAR = ("192.0.2.1", 9)  # of no machine (RFC 5737): it is only asked which way would lead there


def master_of(environment: Mapping[str, str]) -> tuple[str, int]:
    """Where rank 0 is, as its launcher says. Raises UsageError."""
    host, port = environment.get("MASTER_ADDR", ""), environment.get("MASTER_PORT", "")
    if not host or not port.isdecimal() or not 0 < int(port) <= _MOST_PORT:
        raise UsageError(
            f"MASTER_ADDR is {host or 'not set'} and MASTER_PORT {port or 'not set'}: set both on all hosts "
            "to an address of rank 0's machine and a port that is free there (torchrun does; mpirun: -x "
            "MASTER_ADDR=... -x MASTER_PORT=...)"
        )
    return host, int(port)


def ports_from(port: int, environment: Mapping[str, str]) -> list[int]:
    """The ports to meet at, in the order in which they are tried. ``port`` itself is left out if torchrun's
    agent says that it listens there.
    """
    taken = environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    after = [port + n for n in range(1, _TRIED + 1) if port + n <= _MOST_PORT]
    before = [port - n for n in range(1, _TRIED + 1 - len(after))]
    return [*([] if taken else [port]), *after, *before]


def listening_address(host: str, alone: bool) -> str:
    """The address of this machine that ``host`` means. ``alone``: all ranks are on this machine. Raises
    UsageError if it is not one of this machine's.
    """
    found = _addresses(host)
    mine = [address for address in found if _is_mine(address)]
    beyond = [address for address in mine if not ipaddress.ip_address(address).is_loopback]
    if mine and (alone or host == "localhost" or host in mine):
        return mine[0]
    if not beyond and (mine or alone):  # a name that /etc/hosts gives to the loopback, as Debian does
        way = _on_the_way_out()
        beyond = [way] if way else mine if alone else []
    if not beyond:
        raise UsageError(
            f"MASTER_ADDR is {host} ({', '.join(found) or 'an unknown name'}), by which other hosts cannot "
            f"reach rank 0 on {socket.gethostname()}: set MASTER_ADDR to an address of rank 0's machine that "
            "the others reach"
        )
    return beyond[0]


def _addresses(host: str) -> list[str]:
    with suppress(OSError):
        return list(dict.fromkeys(str(one[4][0]) for one in socket.getaddrinfo(host, None, socket.AF_INET)))
    with suppress(OSError):
        return list(dict.fromkeys(str(one[4][0]) for one in socket.getaddrinfo(host, None)))
    return []


def _is_mine(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def _on_the_way_out() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(_FAR)  # sends nothing
        return str(probe.getsockname()[0])
    return ""
