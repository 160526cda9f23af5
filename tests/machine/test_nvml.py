"""What is read of NVML, from machines on paper that answer by its documented functions."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from hasten.machine import nvml
from hasten.machine.accelerators import accelerators
from hasten.machine.gpu_links import gpu_links
from hasten.machine.vitals import vitals

from .conftest import Programs, Record

SWITCH = -1


class NVMLError(Exception):
    pass


@dataclass
class Gpu:
    """``ends``: for each NVLink the number of the GPU at its other end, SWITCH, or None if it is off."""

    name: str = "NVIDIA H200"
    clock: int | None = 1980
    ends: tuple[int | None, ...] = ()


@dataclass
class FakeNvml:
    """As nvidia-ml-py 13 has it: handles, constants of nvml.h, errors raised."""

    gpus: list[Gpu]
    level: int = 50
    begun: int = 0
    NVMLError: type[Exception] = NVMLError
    NVML_CLOCK_SM: int = 1
    NVML_NVLINK_MAX_LINKS: int = 36
    NVML_NVLINK_DEVICE_TYPE_SWITCH: int = 2

    def nvmlInit(self) -> None:
        self.begun += 1

    def nvmlShutdown(self) -> None:
        self.begun -= 1

    def nvmlDeviceGetCount(self) -> int:
        assert self.begun
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Gpu:
        return self.gpus[index]

    def nvmlDeviceGetName(self, handle: Gpu) -> str:
        return handle.name

    def nvmlDeviceGetClockInfo(self, handle: Gpu, kind: int) -> int:
        assert kind == self.NVML_CLOCK_SM
        if handle.clock is None:
            raise NVMLError("Not Supported")
        return handle.clock

    def nvmlDeviceGetPciInfo(self, handle: Gpu) -> SimpleNamespace:
        return self._place([gpu is handle for gpu in self.gpus].index(True))

    def nvmlDeviceGetTopologyCommonAncestor(self, one: Gpu, other: Gpu) -> int:
        return self.level

    def nvmlDeviceGetNvLinkState(self, handle: Gpu, link: int) -> int:
        if link >= len(handle.ends):
            raise NVMLError("Invalid Argument")
        return int(handle.ends[link] is not None)

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: Gpu, link: int) -> int:
        return 2 if handle.ends[link] == SWITCH else 0

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle: Gpu, link: int) -> SimpleNamespace:
        end = handle.ends[link]
        assert end is not None
        return self._place(end)

    @staticmethod
    def _place(number: int) -> SimpleNamespace:
        return SimpleNamespace(domain=0, bus=16 * number + 7, device=0, busId=b"")


class Broken(FakeNvml):
    """A package without a driver."""

    def nvmlInit(self) -> None:
        raise NVMLError("NVML Shared Library Not Found")


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Any:
    def installed(module: Any) -> Any:
        monkeypatch.setitem(sys.modules, "pynvml", module)
        return module

    return installed


def table(*rows: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(row.split()) for row in rows)


def test_gpus_by_name(install: Any, record: Record, programs: Programs) -> None:
    programs("nvidia-smi", "exit 9")
    module = install(FakeNvml([Gpu("NVIDIA L4"), Gpu()]))
    assert accelerators(record({})) == ("NVIDIA L4", "NVIDIA H200")
    assert module.begun == 0


def test_clocks_and_one_that_does_not_tell(install: Any, record: Record, programs: Programs) -> None:
    install(FakeNvml([Gpu(clock=1755), Gpu(clock=None)]))
    assert vitals(record({}), gpus=True).gpu_clocks == (1755, 0)
    assert vitals(record({})).gpu_clocks == ()


def test_gpus_behind_switches(install: Any, programs: Programs) -> None:
    install(FakeNvml([Gpu(ends=(SWITCH,) * 18) for _ in range(3)]))
    found = gpu_links()
    assert found is not None
    assert found.table == table("X NV18 NV18", "NV18 X NV18", "NV18 NV18 X")


def test_gpus_in_pairs_and_a_link_that_is_off(install: Any, programs: Programs) -> None:
    pairs = [(1, 1, None), (0, 0, None), (None, 3, 3), (None, 2, 2)]
    install(FakeNvml([Gpu(ends=ends) for ends in pairs], level=40))
    found = gpu_links()
    assert found is not None
    assert found.table == table("X NV2 NODE NODE", "NV2 X NODE NODE", "NODE NODE X NV2", "NODE NODE NV2 X")


@pytest.mark.parametrize(
    ("level", "words"), [(0, "PIX"), (10, "PIX"), (20, "PXB"), (30, "PHB"), (40, "NODE"), (50, "SYS")]
)
def test_gpus_without_nvlink(install: Any, programs: Programs, level: int, words: str) -> None:
    install(FakeNvml([Gpu(), Gpu()], level=level))
    found = gpu_links()
    assert found is not None
    assert found.pairs() == {words: ((0, 1),)}


def test_one_gpu_has_no_links(install: Any, programs: Programs) -> None:
    install(FakeNvml([Gpu()]))
    assert gpu_links() is None


@pytest.mark.parametrize("module", [None, Broken([Gpu()])], ids=["no package", "no driver"])
def test_nvidia_smi_is_read_where_nvml_does_not_answer(
    install: Any, record: Record, programs: Programs, module: Any
) -> None:
    install(module)
    assert (nvml.names(), nvml.clocks(), nvml.links()) == (None, None, None)
    programs("nvidia-smi", 'echo "GPU A"')
    assert accelerators(record({})) == ("GPU A",)


def test_an_old_package_of_that_name_is_not_used(install: Any, programs: Programs) -> None:
    module = FakeNvml([Gpu(ends=(1,)), Gpu(ends=(0,))])
    bare = SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=module.nvmlInit,
        nvmlShutdown=module.nvmlShutdown,
        nvmlDeviceGetCount=module.nvmlDeviceGetCount,
        nvmlDeviceGetHandleByIndex=module.nvmlDeviceGetHandleByIndex,
    )
    install(bare)
    assert nvml.links() is None
    assert module.begun == 0


def test_the_package_has_what_is_used_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pynvml")
    try:
        package = importlib.import_module("pynvml")
    except ImportError:
        pytest.skip("nvidia-ml-py is not installed")
    used = [name for name in dir(FakeNvml([])) if name.lower().startswith("nvml")]
    assert [name for name in used if not hasattr(package, name)] == []
    assert package.NVML_CLOCK_SM == FakeNvml.NVML_CLOCK_SM
    assert package.NVML_NVLINK_DEVICE_TYPE_SWITCH == FakeNvml.NVML_NVLINK_DEVICE_TYPE_SWITCH
    names = ("INTERNAL", "SINGLE", "MULTIPLE", "HOSTBRIDGE", "NODE", "SYSTEM")
    assert [getattr(package, f"NVML_TOPOLOGY_{name}") for name in names] == list(nvml._LEVELS)
