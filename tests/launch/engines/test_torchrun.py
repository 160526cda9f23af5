"""What is started for torchrun: on each host by ssh, or here by hand."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import pytest

from hasten.errors import UsageError
from hasten.launch.engines.ssh import REMOTE_ENTRY
from hasten.launch.engines.torchrun import ENTRY, Torchrun
from hasten.records.launch_job import Nodes

from .jobs import HOSTILE, HOSTILE_WORDS, JOB, TWO

PYTHON = "/env/bin/python"


def test_two_hosts_by_ssh() -> None:
    first, second = Torchrun().render(TWO).starts
    assert first.argv == (
        *("ssh", "-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4"),
        *("--", "h1", f"exec {PYTHON} {REMOTE_ENTRY}"),
    )
    assert first.there is not None
    assert second.there is not None
    assert json.loads(first.there.line) == {
        "folder": "/home/me/project",
        "environment": {"OMP_NUM_THREADS": "1", "HASTEN_LAUNCHED": "{}"},
        "argv": [
            *(PYTHON, str(ENTRY), "h1", "", "--nnodes", "2", "--nproc-per-node", "2"),
            *("--rdzv-backend", "c10d", "--rdzv-endpoint", "h1:29400", "--rdzv-id", "hasten-0123456789ab"),
            *("--rdzv-conf", "is_host=1", "--max-restarts", "0", "--no-python", *JOB.command),
        ],
    }
    assert (second.there.host, second.argv[-2]) == ("h2", "h2")
    assert "is_host=0" in second.there.argv


def test_a_host_that_is_silent_for_the_deadline_is_lost_to_ssh() -> None:
    soon = replace(TWO, environment={"HASTEN_DEADLINE": "8"})
    assert "ServerAliveInterval=2" in Torchrun().render(soon).starts[0].argv
    with pytest.raises(UsageError, match="HASTEN_DEADLINE is 'soon'"):
        Torchrun().render(replace(TWO, environment={"HASTEN_DEADLINE": "soon"}))


def test_users_are_for_ssh_alone() -> None:
    (start, _) = Torchrun().render(replace(TWO, hosts=("me@h1", "me@h2"))).starts
    assert start.argv[-2] == "me@h1"
    assert start.there is not None
    assert start.there.argv[2] == "h1"
    assert "h1:29400" in start.there.argv


def test_by_hand_it_is_torchrun_itself() -> None:
    job = replace(JOB, nodes=Nodes(2, 2), address="h1", node_rank=0, interface="eth1")
    (start,) = Torchrun().render(job).starts
    assert start.there is None
    assert start.argv[:4] == (PYTHON, str(ENTRY), "h1", "eth1")
    assert start.argv[start.argv.index("--rdzv-conf") + 1] == "is_host=1"
    (other,) = Torchrun().render(replace(job, node_rank=None)).starts
    assert "--rdzv-conf" not in other.argv


def test_one_host_meets_by_itself() -> None:
    (start,) = Torchrun().render(replace(JOB, nproc_per_node=4)).starts
    assert start.argv == (
        *(PYTHON, str(ENTRY), "", "", "--nnodes", "1", "--nproc-per-node", "4", "--standalone"),
        *("--local-addr", "127.0.0.1", "--max-restarts", "0", "--no-python", *JOB.command),
    )


def test_ranks_of_one_other_host_need_not_be_reached() -> None:
    (start,) = Torchrun().render(replace(JOB, hosts=("h2",))).starts
    assert start.there is not None
    assert start.there.argv[:4] == (PYTHON, str(ENTRY), "", "")
    assert "--standalone" in start.there.argv


def test_hosts_may_come_and_go() -> None:
    job = replace(TWO, nodes=Nodes(1, 2), max_restarts=3)
    (start, _) = Torchrun().render(job).starts
    assert start.there is not None
    words = start.there.argv
    assert words[words.index("--nnodes") + 1] == "1:2"
    assert words[words.index("--rdzv-conf") + 1] == "is_host=1,last_call_timeout=15"
    assert words[words.index("--max-restarts") + 1] == "3"


def test_addresses_of_ipv6_are_bracketed() -> None:
    (start,) = Torchrun().render(replace(JOB, nodes=Nodes(2, 2), address="fd00::1")).starts
    assert "[fd00::1]:29400" in start.argv


def test_hosts_that_are_not_named_are_asked_for() -> None:
    with pytest.raises(UsageError, match="--nnodes 2: say which hosts, by --hosts h1,h2 or --hostfile FILE"):
        Torchrun().render(replace(JOB, nodes=Nodes(2, 2)))


def test_hosts_are_numbered_by_their_place() -> None:
    with pytest.raises(UsageError, match="--node-rank: ssh starts it on all hosts and numbers them"):
        Torchrun().render(replace(TWO, node_rank=0))


def test_as_many_hosts_as_nodes() -> None:
    with pytest.raises(UsageError, match="--nnodes 3 and 2 hosts"):
        Torchrun().render(replace(TWO, nodes=Nodes(3, 3)))


@pytest.mark.attack("arguments")
def test_no_shell_sees_what_is_started() -> None:
    for start in Torchrun().render(HOSTILE).starts:
        assert shlex.split(start.argv[-1]) == ["exec", PYTHON, str(REMOTE_ENTRY)]
        assert start.there is not None
        told = json.loads(start.there.line)
        assert start.there.line.count("\n") == 1  # the end of what is told
        assert tuple(told["argv"][-len(HOSTILE_WORDS) :]) == HOSTILE_WORDS
        assert told["folder"] == HOSTILE.folder
        assert told["environment"] == HOSTILE.environment


@pytest.mark.attack("arguments")
def test_a_python_with_a_strange_path_is_quoted_for_the_shell_there() -> None:
    python = "/my envs/it's; $(id)/python"
    (start, _) = Torchrun().render(replace(TWO, python=python)).starts
    assert shlex.split(start.argv[-1]) == ["exec", python, str(REMOTE_ENTRY)]
