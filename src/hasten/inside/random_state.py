"""All global RNG state that a training draws from: torch's, its devices', Python's and numpy's.

Generators that a script creates itself (``torch.Generator``, ``numpy.random.default_rng``) are left to it:
what is drawn from them is the same in two runs if nothing else differs.
"""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .internals.other_functions import in_bad_fork, name_of_private_device
from .seams import ImportSeam

if TYPE_CHECKING:
    from torch import Tensor

State = dict[str, Any]
"""By generator: "torch" (the CPU's), "devices" (by kind: a state for each device), "random", "numpy"."""
DRAWING_IN_PLACE = (  # methods of a tensor that fill it with random numbers
    *("normal_", "uniform_", "bernoulli_", "random_", "exponential_", "log_normal_", "cauchy_"),
    "geometric_",
)
_KINDS = ("cuda", "xpu", "mps", "mtia")  # torch modules with their own generators
_MOST_SEED = 2**63  # not all of torch's generators take more


def rng_states(torch: ModuleType) -> State:
    """The current global RNG states, as copies."""
    numpy = sys.modules.get("numpy")
    return {
        "torch": torch.get_rng_state(),
        "devices": {kind: _states(module) for kind, module in _devices(torch)},
        "random": random.getstate(),
        "numpy": numpy.random.get_state() if numpy is not None else None,
    }


def set_rng_states(torch: ModuleType, state: State) -> None:
    """Restore the RNG states to ``state``. Devices not in use here are left alone."""
    torch.set_rng_state(state["torch"])
    here = dict(_devices(torch))
    for kind, states in state["devices"].items():
        if kind in here:
            _set_states(here[kind], states)
    random.setstate(state["random"])
    numpy = sys.modules.get("numpy")
    if numpy is not None and state["numpy"] is not None:
        numpy.random.set_state(state["numpy"])


def seed_generators(torch: ModuleType, seed: int) -> None:
    """Seed all of them; torch also seeds its devices, including those not in use yet."""
    torch.manual_seed(seed % _MOST_SEED)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        _seed_numpy(numpy, seed)


def seed_before_imports(seed: int) -> None:
    """Seed Python's generator, and numpy's as soon as the script imports it. torch is seeded when it is
    imported.
    """
    random.seed(seed)
    ImportSeam("numpy", lambda numpy: _seed_numpy(numpy, seed)).install()


def _seed_numpy(numpy: ModuleType, seed: int) -> None:
    """Seed numpy, which takes smaller seeds than torch does."""
    numpy.random.seed(seed % 2**32)


def another_seed(*numbers: int) -> int:
    """One seed from several numbers, by hashing. A sum would not do: some generators take only the lower 32
    bits, where different sums can be equal.
    """
    return int.from_bytes(hashlib.blake2b(repr(numbers).encode(), digest_size=8).digest(), "big") % _MOST_SEED


def fingerprint(torch: ModuleType) -> tuple[tuple[str, object], ...]:
    """Equal if all RNG states are equal, even across processes."""
    return tuple(comparable(rng_states(torch)))


def comparable(state: State) -> Iterator[tuple[str, object]]:
    """Each generator's name, and a value that is equal if its state is."""
    yield "torch", _bytes(state["torch"])
    yield "random", state["random"]
    if state["numpy"] is not None:
        _, keys, *rest = state["numpy"]  # its position, and a left-over normal number
        yield "numpy", (keys.tobytes(), *rest)
    for kind, states in state["devices"].items():
        yield kind, [_bytes(one) for one in states]


def state_of_generator(value: object) -> object:
    """The state of a random generator from Python, numpy or torch; None for any other ``value``."""
    torch, numpy = sys.modules["torch"], sys.modules.get("numpy")
    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, torch.Generator):
        return _bytes(value.get_state())
    if numpy is not None and isinstance(value, numpy.random.Generator):
        return repr(value.bit_generator.state)
    if numpy is not None and isinstance(value, numpy.random.RandomState):
        return repr(value.get_state())
    return None


def restorer(generator: Any) -> Callable[[], object]:
    """A function that puts a generator, as of ``state_of_generator``, back to where it is now."""
    if isinstance(generator, random.Random):
        return partial(generator.setstate, generator.getstate())
    if hasattr(generator, "bit_generator"):
        return partial(setattr, generator.bit_generator, "state", generator.bit_generator.state)
    return partial(generator.set_state, generator.get_state())


def _devices(torch: ModuleType) -> Iterator[tuple[str, ModuleType]]:
    """The kinds of devices whose generators this process may read: reading others would initialise them."""
    for kind in dict.fromkeys((*_KINDS, name_of_private_device(torch))):
        module = getattr(torch, kind, None)
        if module is None or in_bad_fork(module):
            continue
        in_use = "is_initialized" if hasattr(module, "is_initialized") else "is_available"
        if _keeps_state(module) and _asked(module, in_use):
            yield kind, module


def _keeps_state(module: ModuleType) -> bool:
    """Generators that cannot be seeded cannot be read either: torch 2.9's mtia only warns when asked."""
    return hasattr(module, "get_rng_state") and (
        hasattr(module, "manual_seed_all") or hasattr(module, "manual_seed")
    )


def _asked(module: ModuleType, question: str) -> bool:
    """The module's answer; False if it does not have that function."""
    return hasattr(module, question) and bool(getattr(module, question)())


def _states(module: ModuleType) -> list[Tensor]:
    every = getattr(module, "get_rng_state_all", None)
    return list(every()) if every is not None else [module.get_rng_state()]


def _set_states(module: ModuleType, states: list[Tensor]) -> None:
    every = getattr(module, "set_rng_state_all", None)
    if every is not None:
        every(states)
    else:
        module.set_rng_state(states[0])


def _bytes(state: Tensor) -> bytes:
    import ctypes

    plain = state.cpu().contiguous()
    return ctypes.string_at(plain.data_ptr(), plain.numel() * plain.element_size())
