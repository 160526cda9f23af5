"""RNG states: torch's while it trains, cheaply, and all of them, to compare."""

from __future__ import annotations

import zlib
from types import ModuleType

from ..random_state import comparable, rng_states
from .cannot import Diverged


def torch_state(torch: ModuleType) -> bytes:
    """The default generators of the CPU and of every GPU in use. 5 KB; some microseconds."""
    states = [torch.default_generator.get_state()]
    if torch.cuda.is_initialized():
        states += torch.cuda.get_rng_state_all()
    return b"".join(bytes(memoryview(state.numpy())) for state in states)


def set_torch_state(torch: ModuleType, state: bytes) -> None:
    sizes = [torch.default_generator.get_state().numel()]
    cuda = torch.cuda.is_initialized()
    if cuda:
        sizes += [one.numel() for one in torch.cuda.get_rng_state_all()]
    parts, at = [], 0
    for size in sizes:
        part = bytearray(state[at : at + size])
        parts.append(torch.frombuffer(part, dtype=torch.uint8).clone())
        at += size
    torch.default_generator.set_state(parts[0])
    if cuda:
        torch.cuda.set_rng_state_all(parts[1:])


def digests(torch: ModuleType) -> dict[str, int]:
    """Of every global generator: equal if its state is."""
    states = comparable(rng_states(torch))
    return {name: zlib.crc32(repr(state).encode()) for name, state in states}


def compare_rng_states(before: dict[str, int], now: dict[str, int]) -> None:
    """Raises Diverged."""
    for name in before.keys() | now.keys():
        if before.get(name) != now.get(name):
            raise Diverged(f"the random numbers of {name} have come to another place")


def compare_samples(before: int, now: int) -> None:
    """Raises Diverged. Each is a checksum of all that loaders have asked for."""
    if before != now:
        raise Diverged(
            "a loader has drawn other samples than it had: its sampler goes by what is trained, or by a "
            "source that no seed reaches"
        )
