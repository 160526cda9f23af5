"""Where ranks meet."""

from __future__ import annotations

import socket

import pytest

from hasten.errors import UsageError
from hasten.launch.rendezvous import as_torchrun, meeting_place


def test_by_default_on_this_machine_at_a_free_port() -> None:
    place = meeting_place({})
    assert place["MASTER_ADDR"] == "127.0.0.1"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", int(place["MASTER_PORT"])))


def test_what_the_user_says_stands() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    own = {"MASTER_ADDR": "localhost", "MASTER_PORT": port}
    assert meeting_place({**own, "PATH": "/bin"}) == own


def test_a_port_that_is_taken_is_told() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        with pytest.raises(UsageError, match=f"MASTER_PORT is {port}, which is taken by another program"):
            meeting_place({"MASTER_PORT": port})


@pytest.mark.parametrize("text", ["", "ssh", "0", "70000", "-1"])
def test_a_port_that_is_none_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="which is not a port"):
        meeting_place({"MASTER_PORT": text})


def test_ranks_are_told_as_by_torchrun() -> None:
    """Those that the pages of torchrun list, without an agent's store: rank 0 makes one."""
    found = as_torchrun(1, 4, {"MASTER_ADDR": "a", "MASTER_PORT": "5"})
    assert found == {
        "RANK": "1", "LOCAL_RANK": "1", "ROLE_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4",
        "ROLE_WORLD_SIZE": "4", "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1", "ROLE_NAME": "default",
        "MASTER_ADDR": "a", "MASTER_PORT": "5", "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "0",
    }  # fmt: skip
