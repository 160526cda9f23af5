"""What an engine tells its ranks, and what they make of it."""

from __future__ import annotations

import pytest

from hasten.errors import UsageError
from hasten.launch import told_rank
from hasten.launch.launched_rank import LaunchedRank
from hasten.launch.told_rank import VARIABLE, network_of, take, variables_of
from hasten.records.launch_job import Launched

TOLD = Launched("", interface="eth1", group_timeout_seconds=60.0)


def test_what_is_told_is_taken_and_nothing_of_it_is_left() -> None:
    environment = {"PATH": "/bin", **variables_of(TOLD, {})}
    assert take(environment) == TOLD
    assert "OMP_NUM_THREADS" not in environment  # it was for the launcher
    assert not [name for name in environment if name.startswith("HASTEN")]
    assert take(environment) is None


@pytest.mark.parametrize("text", ["", "{}", "[1]", "no json", "3"])
def test_what_others_have_put_there_is_told(text: str) -> None:
    with pytest.raises(UsageError, match=r"HASTEN_LAUNCHED is hasten's own.*unset it"):
        take({VARIABLE: text})


def test_the_users_own_stand() -> None:
    own = {"OMP_NUM_THREADS": "3", "GLOO_SOCKET_IFNAME": "ib0", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "0"}
    told = Launched("3", interface="eth1")
    environment = {**own, **variables_of(told, own)}
    take(environment)
    assert {name: environment[name] for name in own} == own
    assert environment["NCCL_SOCKET_IFNAME"] == "eth1"


def test_a_launchers_number_of_threads_is_not_taken_for_the_users() -> None:
    environment = {**variables_of(Launched("3"), {}), "OMP_NUM_THREADS": "1"}
    take(environment)
    assert environment["OMP_NUM_THREADS"] == "3"


def test_a_store_is_not_shared_with_ranks_that_may_be_killed() -> None:
    assert variables_of(TOLD, {})["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"


def test_without_an_interface_none_is_set() -> None:
    assert not [name for name in variables_of(Launched(""), {}) if name.endswith("IFNAME")]


ACROSS = LaunchedRank("torchrun", 0, 2, 0, 1, "")


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told_rank, "address_towards", lambda host: "10.0.0.1")
    monkeypatch.setattr(told_rank, "interface_of", lambda address: "eth7")


@pytest.mark.usefixtures("network")
def test_the_interface_that_leads_to_where_ranks_meet_is_taken() -> None:
    found = network_of(ACROSS, {"MASTER_ADDR": "h1", "TP_SOCKET_IFNAME": "ib0"})
    assert found == {"GLOO_SOCKET_IFNAME": "eth7"}


@pytest.mark.usefixtures("network")
def test_ranks_of_one_host_need_none() -> None:
    assert network_of(LaunchedRank("torchrun", 0, 2, 0, 2, ""), {"MASTER_ADDR": "h1"}) == {}


def test_a_name_that_leads_back_to_the_host_itself_is_refused() -> None:
    with pytest.raises(UsageError, match=r"leads back to this host itself \(127\..*--interface"):
        network_of(ACROSS, {"MASTER_ADDR": "127.0.1.1"})
