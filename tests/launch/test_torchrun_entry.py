"""What is looked at before torchrun starts on a host."""

from __future__ import annotations

import socket

import pytest

from hasten.errors import UsageError
from hasten.launch.torchrun_entry import check_port


def words(port: int, conf: str) -> list[str]:
    return ["--rdzv-endpoint", f"h1:{port}", "--rdzv-conf", conf, "--max-restarts", "0"]


def test_a_port_that_another_job_has_is_refused_where_ranks_meet() -> None:
    with socket.create_server(("", 0)) as other:
        port = other.getsockname()[1]
        check_port(words(port, "is_host=0"))
        with pytest.raises(UsageError, match=f"port {port} on host .* is not free"):
            check_port(words(port, "is_host=1,last_call_timeout=15"))
    check_port(words(port, "is_host=1"))


def test_one_host_meets_nowhere() -> None:
    check_port(["--standalone", "--local-addr", "127.0.0.1"])
