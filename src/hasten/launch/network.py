"""By which address and interface this host reaches another: what the others will reach it by, too.

Sources: ip(7), netdevice(7) for SIOCGIFADDR, proc(5) for /proc/net/if_inet6.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from contextlib import suppress
from pathlib import Path

from ..errors import UsageError

_ADDRESS_OF = 0x8915  # SIOCGIFADDR
_ANY_PORT = 9  # nothing is sent


def address_towards(host: str) -> str:
    """This host's address on the way to ``host``. Raises UsageError if others cannot reach any."""
    try:
        found = socket.getaddrinfo(host, _ANY_PORT, type=socket.SOCK_DGRAM)
    except OSError as error:
        raise UsageError(f"{host} has no address that is known here: {error.strerror or error}") from None
    for family, kind, protocol, _, place in found:
        with suppress(OSError), socket.socket(family, kind, protocol) as probe:
            probe.connect(place)
            address = str(probe.getsockname()[0]).partition("%")[0]
            if ipaddress.ip_address(address).is_loopback:
                raise UsageError(
                    f"{host} leads back to this host itself ({address}), where no other host reaches it: "
                    "name it by its address in the network, or say which network by --interface"
                )
            return address
    raise UsageError(f"there is no route from here to {host}: is the network up?")


def interface_of(address: str) -> str:
    """The name of the interface that has ``address``; "" if none is known to have it."""
    for name in _names():
        if address in addresses_of(name):
            return name
    return ""


def addresses_of(interface: str) -> list[str]:
    """The first of IPv4, then all of IPv6 that are not link-local."""
    found = []
    if hasattr(socket, "AF_PACKET"):
        import fcntl

        with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asked = struct.pack("256s", interface.encode()[:15])
            found.append(socket.inet_ntoa(fcntl.ioctl(asking, _ADDRESS_OF, asked)[20:24]))
    with suppress(OSError):
        for line in Path("/proc/net/if_inet6").read_text().splitlines():
            text, _, _, scope, _, name = line.split()
            if name == interface and scope != "20":
                found.append(str(ipaddress.IPv6Address(int(text, 16))))
    return found


def address_of(interface: str) -> str:
    """The interface's address that others reach. Raises UsageError if there is no such interface."""
    found = addresses_of(interface)
    if not found:
        there = ", ".join(_names()) or "none"
        raise UsageError(
            f"--interface {interface}: there is none of that name with an address here ({there})"
        )
    return found[0]


def _names() -> list[str]:
    with suppress(OSError, AttributeError):
        return [name for _, name in socket.if_nameindex()]
    return []
