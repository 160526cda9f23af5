from __future__ import annotations

import platform
from pathlib import Path

import pytest

from hasten.machine import cpu, macos, memory

from .conftest import Programs

SYSCTL = """
case "$*" in
"hw.optional") printf 'hw.optional.%s\\n' 'arm.FEAT_BF16: 1' 'arm.FEAT_SME: 0' 'AdvSIMD: 1';;
"-n machdep.cpu.brand_string") echo "Apple M2 Pro";;
"-n hw.physicalcpu") echo 4;;
"-n hw.memsize") echo 17179869184;;
"-n hw.pagesize") echo 16384;;
*) exit 1;;
esac
"""
VM_STAT = """
echo "Mach Virtual Memory Statistics: (page size of 16384 bytes)"
echo "Pages free:                        100."
echo "Pages active:                     9999."
echo "Pages inactive:                     28."
"""


@pytest.fixture
def mac(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    programs("sysctl", SYSCTL)
    programs("vm_stat", VM_STAT)
    monkeypatch.setattr(platform, "system", lambda: "Darwin")


@pytest.mark.usefixtures("mac")
def test_a_mac_is_described_without_proc(tmp_path: Path) -> None:
    assert cpu.model(tmp_path) == "Apple M2 Pro"
    assert cpu.flags(tmp_path) == ("asimd", "bf16")
    assert memory.total_bytes(tmp_path) == 16 * 2**30
    assert memory.available_bytes(tmp_path) == 128 * 16384


@pytest.mark.usefixtures("mac")
def test_a_mac_has_no_more_cores_than_cpus(tmp_path: Path) -> None:
    assert cpu.physical_cores(range(8), tmp_path) == 4
    assert cpu.physical_cores(range(2), tmp_path) == 2


@pytest.mark.usefixtures("mac")
def test_nothing_is_asked_on_another_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    assert (macos.sysctl("hw.memsize"), macos.flags(), macos.available_bytes()) == ("", (), None)


@pytest.mark.usefixtures("programs")
def test_a_mac_without_its_tools_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    assert (macos.sysctl("hw.memsize"), macos.flags(), macos.available_bytes()) == ("", (), None)
