"""What the doctor says of a machine."""

from __future__ import annotations

import io

import pytest

from hasten.records.diagnosis import TorchBuild
from hasten.report.console import open_console
from hasten.report.doctor import print_doctor

from ..machine.topologies import recorded


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("epyc-8-nodes", "128 cores, 256 threads, 2 sockets, 8 NUMA nodes, 16 last-level caches"),
        (
            "laptop-hybrid",
            "16 cores, 22 threads, 2 last-level caches, 10 cores slower than the others",
        ),
        ("container-2.5-of-64", "32 cores, 64 threads, 4 last-level caches, quota of 2.5 CPUs"),
        ("one-core", "1 core, 1 thread"),
    ],
)
def test_what_divides_the_cores_is_said(name: str, said: str) -> None:
    stream = io.StringIO()
    machine = recorded(name)
    print_doctor(machine, TorchBuild("2.13.0"), [], open_console(stream, 200))
    (line,) = [line for line in stream.getvalue().splitlines() if line.lstrip().startswith("CPU  ")]
    assert line.partition(": ")[2] == said
