"""Where ranks of several hosts meet: at an address of rank 0's machine, and at no more than that."""

from __future__ import annotations

import pytest

from hasten.errors import UsageError
from hasten.launch import own_address
from hasten.launch.own_address import listening_address, master_of, ports_from


def test_it_is_where_the_launcher_says() -> None:
    assert master_of({"MASTER_ADDR": "h1", "MASTER_PORT": "29500"}) == ("h1", 29500)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"MASTER_ADDR": "h1"},
        {"MASTER_PORT": "29500"},
        {"MASTER_ADDR": "h1", "MASTER_PORT": "none"},
        {"MASTER_ADDR": "h1", "MASTER_PORT": "0"},
        {"MASTER_ADDR": "h1", "MASTER_PORT": "65536"},
    ],
)
def test_what_says_nothing_is_refused(environment: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"set both on all hosts"):
        master_of(environment)


def test_a_port_that_an_agent_holds_is_left_to_it() -> None:
    assert ports_from(29500, {})[:2] == [29500, 29501]
    assert ports_from(29500, {"TORCHELASTIC_USE_AGENT_STORE": "True"})[0] == 29501


@pytest.mark.parametrize("port", [1024, 65530, 65535])
def test_there_are_as_many_ports_at_the_end_of_the_range(port: int) -> None:
    found = ports_from(port, {})
    assert len(set(found)) == len(found) == 9
    assert all(0 < one < 2**16 for one in found)


@pytest.mark.attack("intruders")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("alone", [True, False])
def test_what_is_meant_for_this_machine_alone_stays_there(host: str, alone: bool) -> None:
    assert listening_address(host, alone) == "127.0.0.1"


def test_a_name_that_means_the_loopback_is_reached_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Debian's /etc/hosts has it for a machine's own name."""
    monkeypatch.setattr(own_address, "_addresses", lambda host: ["127.0.1.1"])
    monkeypatch.setattr(own_address, "_on_the_way_out", lambda: "10.1.2.3")
    assert listening_address("this-machine", alone=False) == "10.1.2.3"
    assert listening_address("this-machine", alone=True) == "127.0.1.1"


@pytest.mark.parametrize("found", [["203.0.113.7"], []])
def test_an_address_of_another_machine_is_refused(monkeypatch: pytest.MonkeyPatch, found: list[str]) -> None:
    monkeypatch.setattr(own_address, "_addresses", lambda host: found)
    with pytest.raises(UsageError, match="set MASTER_ADDR to an address of rank 0's machine"):
        listening_address("elsewhere", alone=False)
