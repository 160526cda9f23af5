from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest

from hasten.machine import cpu
from hasten.records.machine import Core

from .conftest import Record

XEON = """\
processor\t: {cpu}
model name\t: Intel(R) Xeon(R)  Platinum 8480+
physical id\t: {socket}
core id\t\t: {core}
flags\t\t: fpu sse4_2 amx_bf16 avx2 avx512f avx512_bf16 amx_tile
"""
GRAVITON = """\
processor\t: {cpu}
BogoMIPS\t: 2100.00
Features\t: fp asimd evtstrm aes asimdhp asimddp sve i8mm bf16
CPU implementer\t: 0x41
CPU architecture: 8
CPU part\t: {part}
"""


def two_sockets() -> dict[str, str]:
    """Eight logical CPUs: 0 and 4, 1 and 5 share a core on socket 0; 2 and 6, 3 and 7 on socket 1."""
    places = {cpu: (cpu % 4 // 2, cpu % 2) for cpu in range(8)}
    blocks = [XEON.format(cpu=cpu, socket=socket, core=core) for cpu, (socket, core) in places.items()]
    return {"proc/cpuinfo": "\n".join(blocks)}


def topology(name: str) -> dict[str, str]:
    return {f"sys/devices/system/cpu/cpu{n}/topology/{name}": f"{n % 4},{n % 4 + 4}\n" for n in range(8)}


def arm(*parts: str) -> dict[str, str]:
    return {"proc/cpuinfo": "\n".join(GRAVITON.format(cpu=cpu, part=part) for cpu, part in enumerate(parts))}


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of a machine without any of the files, of no special system."""
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    return tmp_path


@pytest.mark.parametrize("name", ["core_cpus_list", "thread_siblings_list"])
@pytest.mark.parametrize(
    ("cpus", "cores"),
    [
        (range(8), 4),
        ([0, 1, 4, 5], 2),  # one socket, both threads of each core
        ([0, 1, 2, 3], 4),  # one thread of each core on both
        ([3], 1),
    ],
)
def test_cores_are_counted_by_siblings_within_the_mask(
    record: Record, name: str, cpus: list[int], cores: int
) -> None:
    assert cpu.physical_cores(cpus, record(topology(name))) == cores


def test_cores_come_from_cpuinfo_without_a_topology_and_differ_between_sockets(record: Record) -> None:
    root = record(two_sockets())
    assert cpu.physical_cores(range(8), root) == 4
    assert cpu.physical_cores([0, 1, 4, 5], root) == 2


def test_a_topology_known_in_part_is_not_mixed_with_cpuinfo(record: Record) -> None:
    known = dict(list(topology("core_cpus_list").items())[:1])
    assert cpu.physical_cores(range(8), record(two_sockets() | known)) == 4


def placed(cores: dict[str, tuple[int, int]]) -> dict[str, str]:
    """A topology: {"0,8": (socket, node)} names a core's CPUs and where it lies."""
    files: dict[str, str] = {}
    nodes: dict[int, list[str]] = {}
    for siblings, (socket, node) in cores.items():
        nodes.setdefault(node, []).append(siblings)
        for number in siblings.split(","):
            folder = f"sys/devices/system/cpu/cpu{number}/topology"
            files |= {f"{folder}/core_cpus_list": siblings, f"{folder}/physical_package_id": f"{socket}\n"}
    lists = {f"sys/devices/system/node/node{n}/cpulist": ",".join(cpus) for n, cpus in nodes.items()}
    return files | lists


TWO_SOCKETS_FOUR_NODES = placed(
    {"0,8": (0, 0), "1,9": (0, 0), "2,10": (0, 1), "3,11": (0, 1)}
    | {"4,12": (1, 2), "5,13": (1, 2), "6,14": (1, 3), "7,15": (1, 3)}
)


@pytest.mark.parametrize(
    ("files", "cpus", "cores"),
    [
        pytest.param(
            TWO_SOCKETS_FOUR_NODES,
            range(16),
            tuple(Core((n, n + 8), n // 4, n // 2) for n in range(8)),
            id="two sockets of two nodes each, two threads a core",
        ),
        pytest.param(
            TWO_SOCKETS_FOUR_NODES,
            [3, 4, 11],
            (Core((3, 11), 0, 1), Core((4,), 1, 2)),
            id="a cpuset with half of a core",
        ),
        pytest.param(
            two_sockets(), [0, 2, 4], (Core((0, 4), 0), Core((2,), 1)), id="cpuinfo alone, without nodes"
        ),
        pytest.param({}, [0, 1], (), id="nothing told"),
    ],
)
def test_cores_with_their_threads_and_where_they_lie(
    record: Record, files: dict[str, str], cpus: list[int], cores: tuple[Core, ...]
) -> None:
    assert cpu.cores(cpus, record(files | {"proc/uptime": ""})) == cores


def test_every_cpu_is_a_core_where_nothing_tells(record: Record, plain: Path) -> None:
    assert cpu.physical_cores([2, 3, 5], plain) == 3
    assert cpu.physical_cores([0, 1], record(arm("0xd40", "0xd40"))) == 2


def test_model_is_one_name_for_equal_cpus_with_single_blanks(record: Record) -> None:
    assert cpu.model(record(two_sockets())) == "Intel(R) Xeon(R) Platinum 8480+"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("AMD EPYC", "AMD EPYC (family 25 model 1)"),
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", "Intel(R) Xeon(R) CPU @ 2.20GHz (family 25 model 1)"),
        ("AMD EPYC 7763 64-Core Processor", "AMD EPYC 7763 64-Core Processor"),
        ("Intel(R) Core(TM) i7-8650U CPU @ 1.90GHz", "Intel(R) Core(TM) i7-8650U CPU @ 1.90GHz"),
    ],
)
def test_a_name_that_hides_the_generation_is_completed(record: Record, name: str, told: str) -> None:
    """One "AMD EPYC" had bfloat16 instructions and another had none: one plan was for both."""
    named = "processor\t: 0\ncpu family\t: 25\nmodel\t\t: 1\nmodel name\t: " + name + "\n"
    assert cpu.model(record({"proc/cpuinfo": named})) == told


def test_a_name_without_numbers_stays_as_it_is(record: Record) -> None:
    assert cpu.model(record({"proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD EPYC\n"})) == "AMD EPYC"


def test_flags_that_matter_are_kept_in_the_order_of_the_list(record: Record) -> None:
    assert cpu.flags(record(two_sockets())) == ("avx2", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16")


def test_arm_names_its_core_and_features(record: Record) -> None:
    root = record(arm("0xd40"))
    assert cpu.model(root) == "Neoverse-V1"
    assert cpu.flags(root) == ("asimd", "asimdhp", "asimddp", "bf16", "i8mm", "sve")


def test_arm_names_every_kind_of_core(record: Record) -> None:
    assert cpu.model(record(arm("0xd87", "0xd87", "0xd85"))) == "Cortex-A725 + Cortex-X925"


def test_an_unlisted_arm_core_keeps_its_numbers(record: Record) -> None:
    assert cpu.model(record(arm("0xfff"))) == "ARM 0x41:0xfff"


def test_without_cpuinfo_the_architecture_is_all_there_is(plain: Path) -> None:
    assert cpu.model(plain) == "riscv64"
    assert cpu.flags(plain) == ()


def test_the_affinity_mask_decides_which_cpus_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 5}, raising=False)
    assert cpu.allowed_cpus() == {1, 5}


def test_all_cpus_are_allowed_on_a_system_without_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert cpu.allowed_cpus() == {0, 1, 2}
