"""Which GPU each of our ranks sees: a separate one, so that "cuda" and "cuda:0" mean that one.

Source: https://docs.nvidia.com/cuda/cuda-c-programming-guide/#env-vars (CUDA_VISIBLE_DEVICES)
"""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import UsageError
from ..records.machine import Machine

VARIABLE = "CUDA_VISIBLE_DEVICES"


def visible_gpus(machine: Machine, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the GPUs that the user leaves visible, as the variable takes them: numbers, or "GPU-..." and
    "MIG-...". The list ends at the first number that is not a GPU's.
    """
    count = len(machine.accelerators)
    if VARIABLE not in environment:
        return tuple(map(str, range(count)))
    found: list[str] = []
    for name in environment[VARIABLE].split(","):
        name = name.strip()
        if not (name.startswith(("GPU-", "MIG-")) or (name.isdecimal() and int(name) < count)):
            break
        found.append(name)
    return tuple(found)


def gpu_of(local_rank: int, count: int, gpus: tuple[str, ...]) -> dict[str, str]:
    """The variables for one of ``count`` ranks; none without a GPU.

    Raises UsageError if there are fewer GPUs than ranks.
    """
    if not gpus:
        return {}
    if count > len(gpus):
        raise UsageError(
            f"--nproc-per-node {count}: there are {len(gpus)} GPUs ({VARIABLE}={','.join(gpus)}), and each "
            f'rank takes one: choose at most {len(gpus)}, or train on CPUs with {VARIABLE}=""'
        )
    return {VARIABLE: gpus[local_rank]}
