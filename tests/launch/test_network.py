"""Addresses and interfaces of this host."""

from __future__ import annotations

import socket
import sys

import pytest

from hasten.errors import UsageError
from hasten.launch.network import address_of, address_towards, addresses_of, interface_of

linux = pytest.mark.skipif(sys.platform != "linux", reason="interfaces are read as Linux tells them")


@linux
def test_the_loopback_is_found_by_its_address_and_back() -> None:
    assert addresses_of("lo")[0] == address_of("lo") == "127.0.0.1"
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("192.0.2.1") == ""  # an address for documentation, which no machine has


@linux
def test_an_interface_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(UsageError, match=r"--interface nosuch0: there is none .*\blo\b"):
        address_of("nosuch0")


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
def test_what_no_other_host_reaches_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="leads back to this host itself"):
        address_towards(name)


def test_a_name_without_an_address_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(UsageError, match="h1 has no address that is known here: Name or service not known"):
        address_towards("h1")
