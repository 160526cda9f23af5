"""What is wrong with hosts before they train together, and how it is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hasten.inside.job import Job
from hasten.launch.host_facts import facts_of
from hasten.launch.links import pairs_of
from hasten.launch.preflight import faults_of
from hasten.launch.split_worlds import FRESH_SECONDS, another_world, faults_of_world
from hasten.records.codec import from_json, to_json
from hasten.records.preflight import Fault, Host, HostFacts, Link, Preflight
from hasten.report.preflight import lines_of, summary
from hasten.scripts.workspace import Script

from ..bench.made_up import machine

GIB = 2**30
FACTS = HostFacts(
    {"Python": "3.11.7", "torch": "2.13.0", "the plan": "no plan (00)"},
    {"train.py": "aa", "net.py": "bb"},
    {"data": "9 files (cc)"},
    {"out.pt": "10 bytes (dd)"},
    cpus=4,
    memory_bytes=8 * GIB,
    disk_bytes=50 * GIB,
)
LINK = Link(0, 1, 50e-6, 1.2e9)


def hosts(*changed: HostFacts) -> list[Host]:
    """Three; the last ones are ``changed``."""
    facts = [*[FACTS] * (3 - len(changed)), *changed]
    return [Host(f"h{n}", (n,), f"10.0.0.{n}", one) for n, one in enumerate(facts, 1)]


def test_where_all_is_alike_nothing_is_wrong() -> None:
    assert faults_of(hosts(), [LINK]) == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"alike": {**FACTS.alike, "torch": "2.12.0"}}, "torch differs: 2.13.0 on h1, h2; 2.12.0 on h3"),
        ({"alike": {**FACTS.alike, "torch": ""}}, "torch differs: 2.13.0 on h1, h2; none on h3"),
        ({"files": {**FACTS.files, "net.py": "xx"}}, "net.py differs on h3"),
        ({"files": {"train.py": "aa"}}, "net.py differs on h3"),
        ({"given": {"data": "8 files (xx)"}}, "data holds something else on h3"),
        ({"given": {}}, "data is not there, or is something else, on h3"),
    ],
)
def test_the_odd_host_is_named_and_cannot_train_with_the_others(change: dict[str, object], text: str) -> None:
    (fault,) = faults_of(hosts(replace(FACTS, **change)), [LINK])  # type: ignore[arg-type]
    assert fault.text == text
    assert fault.stops


def test_what_the_script_may_write_itself_stops_no_host() -> None:
    (fault,) = faults_of(hosts(replace(FACTS, named={})), [LINK])
    assert (fault.text, fault.stops) == ("out.pt is not there, or is something else, on h3", False)


def test_the_host_is_told_even_of_two() -> None:
    two = hosts(FACTS, replace(FACTS, files={"train.py": "xx", "net.py": "bb"}))[1:]
    assert faults_of(two, [LINK])[0].text == "train.py differs on h3"


def test_what_is_short_slow_or_wrong_is_remarked_upon() -> None:
    three = hosts(replace(FACTS, memory_bytes=GIB // 2, disk_bytes=0))
    three[1] = replace(three[1], clock_seconds=-90.0)
    slow = replace(LINK, bytes_per_second=2e6, latency_seconds=3e-3)
    found = faults_of(three, [slow])
    assert [fault.text for fault in found] == [
        "the link between h1 and h2 is slow: 3.00 ms, 2 MB/s",
        "the clock of h2 is -90.0 s from that of h1",
        "h3 has 512 MB of memory left",
        "h3 has 0 MB of disk left",
    ]
    assert not any(fault.stops for fault in found)


def test_what_does_not_come_through_stops_them_and_comes_first() -> None:
    cut = replace(LINK, failed="10.0.0.2: timed out")
    first, second = faults_of(hosts(replace(FACTS, disk_bytes=0)), [cut])
    assert first.text == "nothing comes through between h1 and h2: 10.0.0.2: timed out"
    assert (first.stops, second.stops) == (True, False)


@pytest.mark.parametrize(
    ("environment", "hosts", "text"),
    [
        ({"SLURM_STEP_NUM_NODES": "2"}, 1, "srun has 2 hosts (SLURM_STEP_NUM_NODES), and this world has 1"),
        ({"HASTEN_NNODES": "3"}, 2, "the job has 3 hosts (HASTEN_NNODES), and this world has 2"),
        (
            {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"},
            1,
            "mpirun has started 2 processes, 1 of them here, and this world has one host",
        ),
        ({"SLURM_STEP_NUM_NODES": "2"}, 2, ""),
        ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, 1, ""),
        ({}, 1, ""),
    ],
)
def test_a_world_of_its_own_is_found(environment: dict[str, str], hosts: int, text: str) -> None:
    found = faults_of_world(environment, hosts)
    assert [fault.text.startswith(text) for fault in found] == ([True] if text else [])
    assert all("--rdzv-endpoint" in fault.advice and fault.stops for fault in found)


def test_another_world_of_the_same_command_is_seen_in_a_folder_that_both_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path(".hasten/train")

    def look(hosts: list[str], words: str = "j1 train.py", at: float = 1000.0) -> str:
        return another_world(folder, hosts, words, sleep=lambda seconds: None, clock=lambda: at)

    assert look(["h1"]) == ""
    assert look(["h1"]) == "", "the same host, once more"
    assert look(["h2"], at=1004.0).startswith(
        "h1 is checking the same command in a world of its own, which began 4 s"
    )
    assert look(["h3"], "j2 train.py") == "", "another job"
    assert look(["h1", "h2"]) == "", "those that were alone found each other"
    assert look(["h4"], at=1005.0 + FRESH_SECONDS) == "", "of long ago"


def test_few_hosts_are_measured_in_all_pairs_and_many_in_a_ring() -> None:
    assert pairs_of(1) == []
    assert pairs_of(3) == [(0, 1), (0, 2), (1, 2)]
    assert pairs_of(6) == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)]
    assert len(pairs_of(500)) <= 32


# ---- what a host tells of itself
def test_what_a_host_has_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {"train.py": "import net\nopen('out.txt')\n", "net.py": "", "out.txt": "x"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.bin").write_bytes(b"12345")
    script = Script(Path("train.py"), ("--data=data", "--lr", "0.1", "."))
    found = facts_of(Job(script.argv, machine()), script, {"PYTHONHASHSEED": "3"}, "0.1")
    assert sorted(found.files) == ["net.py", "train.py"]
    assert sorted(found.given) == ["data"]
    assert sorted(found.named) == ["out.txt"]
    assert found.alike["PYTHONHASHSEED"] == "3"
    assert found.alike["the command line"] == "train.py --data=data --lr 0.1 ."
    assert found.memory_bytes > 0
    assert from_json(HostFacts, to_json(found)) == found
    (tmp_path / "data" / "a.bin").write_bytes(b"123456")
    assert facts_of(Job(script.argv, machine()), script, {}, "0.1").given != found.given


# ---- how it is told
def test_the_table_has_a_column_for_each_host() -> None:
    found = Preflight(tuple(hosts()[:2]), (LINK,), (Fault("h2 has little", "make room"),))
    assert lines_of(found) == [
        "host                 h1            h2",
        "ranks                1             2",
        "address              10.0.0.1      10.0.0.2",
        "Python               3.11.7        3.11.7",
        "torch                2.13.0        2.13.0",
        "the plan             no plan (00)  no plan (00)",
        "files of the script  2             2",
        "CPUs                 4             4",
        "memory left          8.0 GiB       8.0 GiB",
        "disk left            50.0 GiB      50.0 GiB",
        "clock                +0.000 s      +0.000 s",
        "",
        "link     latency   bandwidth",
        "h1 - h2  0.050 ms  1200 MB/s",
        "",
        "warning: h2 has little. make room",
        "2 hosts, 2 ranks: alike; the slowest link, h1 - h2, has 0.05 ms and 1200 MB/s",
    ]


def test_what_stops_them_is_the_last_word() -> None:
    found = Preflight(tuple(hosts()), (), (Fault("torch differs", "install it", stops=True),))
    assert not found.ready
    assert "error: torch differs. install it" in lines_of(found)
    assert summary(found) == "3 hosts, 3 ranks: they cannot train together as they are"
