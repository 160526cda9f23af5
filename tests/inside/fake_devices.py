"""Accelerators that this machine has not: modules of torch's with generators of their own."""

from __future__ import annotations

from typing import Any

import pytest
import torch


class FakeDevices:
    """In the place of ``torch.cuda`` and similar ones. ``draw`` is what dropout on the device would do."""

    def __init__(self, count: int = 2) -> None:
        self.generators = [torch.Generator() for _ in range(count)]
        self.initialized = True
        self.forked = False

    def draw(self) -> float:
        return float(torch.rand(1, generator=self.generators[-1]))

    def is_initialized(self) -> bool:
        return self.initialized

    def _is_in_bad_fork(self) -> bool:
        return self.forked

    def manual_seed_all(self, seed: int) -> None:
        for generator in self.generators:
            generator.manual_seed(seed)

    def get_rng_state_all(self) -> list[torch.Tensor]:
        assert self.initialized, "a device that nobody uses was woken up"
        assert not self.forked, "a device was asked in a forked process"
        return [generator.get_state() for generator in self.generators]

    def set_rng_state_all(self, states: list[torch.Tensor]) -> None:
        assert self.initialized, "a device that nobody uses was woken up"
        for generator, state in zip(self.generators, states, strict=True):
            generator.set_state(state)

    def get_rng_state(self) -> torch.Tensor:
        return self.generators[0].get_state()


class FakeMps:
    """As ``torch.mps`` is: one device, which is there or not."""

    def __init__(self) -> None:
        self.generator = torch.Generator()
        self.initialized = True
        self.forked = False

    def draw(self) -> float:
        return float(torch.rand(1, generator=self.generator))

    def is_available(self) -> bool:
        return self.initialized

    def _is_in_bad_fork(self) -> bool:
        return self.forked

    def manual_seed(self, seed: int) -> None:
        self.generator.manual_seed(seed)

    def get_rng_state(self) -> torch.Tensor:
        assert self.initialized, "a device that is not there was asked"
        assert not self.forked, "a device was asked in a forked process"
        return self.generator.get_state()

    def set_rng_state(self, state: torch.Tensor) -> None:
        self.generator.set_state(state)


KINDS = ("cuda", "xpu", "mps", "mtia", "privateuseone")


def pretend(monkeypatch: pytest.MonkeyPatch, kind: str) -> Any:
    """Devices of this kind are in use from now on."""
    if kind == "mtia" and not hasattr(torch.mtia, "manual_seed_all"):
        pytest.skip(f"torch {torch.__version__} keeps no random state of mtia devices, nor seeds them")
    fake: Any = FakeMps() if kind == "mps" else FakeDevices()
    if kind == "cuda":  # the rest of the module is asked by others
        for name in (
            "is_initialized",
            "_is_in_bad_fork",
            "manual_seed_all",
            "get_rng_state_all",
            "set_rng_state_all",
        ):
            monkeypatch.setattr(torch.cuda, name, getattr(fake, name))
    else:
        monkeypatch.setattr(torch, kind, fake, raising=False)
    return fake
