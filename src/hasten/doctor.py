"""What slows training down here, as far as it can be seen without training."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from .inside.sandbox.dry_run import rehearse
from .inside.sandbox.overlay_folders import make_layers, remove_layers
from .inside.sandbox.protect import protect
from .records.diagnosis import Distribution, Finding, HardCoded, TorchBuild
from .records.machine import GpuLinks, Machine
from .scripts.devices import CHOICE

BY_HAND = (
    "by hand: dist.init_process_group(), model = DistributedDataParallel(model) and a DistributedSampler, "
    "under torchrun"
)
_MOST_PAIRS = 4  # named of each kind
_LINKS = {  # fastest first
    "C2C": "chip to chip",
    "PIX": "by a PCIe switch",
    "PXB": "by several PCIe switches",
    "PHB": "through a CPU's PCIe bridge",
    "NODE": "through a CPU, from one PCIe bridge to another",
    "SYS": "from one CPU to another, the slowest way",
}
_LEAST_TORCH = (2, 9)
_BF16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}


def examine(machine: Machine, torch: TorchBuild, protection: str, busy: Sequence[str]) -> list[Finding]:
    """What slows training down comes first. ``protection``: why trials cannot be kept from writing files, ""
    if they can; ``busy``: what was seen of other programs.
    """
    found = [*_of_torch(machine, torch), *_of_cpu(machine)]
    found += [Finding(text, hinders=True) for text in busy]
    if protection:
        found.append(
            Finding(
                f"trials cannot be kept from writing the script's files: {protection}",
                "tune a copy of the project, or allow it: hasten tune --allow-writes",
                hinders=True,
            )
        )
    if machine.environment:
        names = ", ".join(f"{name}={value}" for name, value in machine.environment.items())
        found.append(
            Finding(f"you set {names}", "hasten leaves that alone: unset it unless you have a reason")
        )
    return sorted(found, key=lambda finding: not finding.hinders)


def of_script(found: Sequence[HardCoded]) -> list[Finding]:
    """A finding for each device hard-coded in a script, and the line that would choose one."""
    findings = [
        Finding(
            f"{item.file}:{item.line}: a device is hard-coded in {item.written}",
            f"write {item.instead}",
            hinders=True,
        )
        for item in found
    ]
    return [*findings, Finding("to choose a device once, for any machine:", CHOICE)] if findings else []


def of_distribution(found: Distribution) -> list[Finding]:
    """How the script trains in several processes, and how it could do better."""
    findings = []
    if found.data_parallel:
        findings.append(
            Finding(
                f"{found.data_parallel} copies the model in every step on several GPUs, and one "
                "Python serves all copies",
                f"hasten run --nproc-per-node N trains in N processes without a change; {BY_HAND}",
                hinders=True,
            )
        )
    if found.kind == "ranks":
        findings.append(
            Finding(
                f"{found.sign} makes the script one of several ranks",
                "hasten run --nproc-per-node N starts them, like torchrun",
            )
        )
    elif found.kind == "spawns":
        findings.append(Finding(f"{found.sign} starts ranks of the script's own"))
    return findings


def of_gpus(links: GpuLinks | None) -> list[Finding]:
    """How several GPUs are connected: gradients go that way in every step."""
    if links is None:
        return []
    findings = []
    for kind, pairs in links.pairs().items():
        everyone = len(pairs) == len(links.table) * (len(links.table) - 1) // 2
        named = ", ".join(f"GPU{a}-GPU{b}" for a, b in pairs[:_MOST_PAIRS])
        more = f" and {len(pairs) - _MOST_PAIRS} more pairs" if len(pairs) > _MOST_PAIRS else ""
        who = f"all {len(links.table)} GPUs are connected" if everyone else f"{named}{more} are connected"
        findings.append(Finding(f"{who} {_link_words(kind)} ({kind})"))
    return findings


def _link_words(kind: str) -> str:
    if kind.startswith("NV"):
        many = kind.removeprefix("NV")
        return f"by {many} NVLink{'s' * (many != '1')} each"
    return _LINKS.get(kind, "otherwise")


def protection_here(folders: Sequence[str]) -> str:
    """Why trials cannot be kept from writing into ``folders``; "" if they can. Nothing is left behind."""
    layers = make_layers()

    def attempt() -> None:
        made = protect(folders, layers, or_deny=True)
        if made.kind == "off":
            raise OSError(made.reason)

    try:
        return rehearse(attempt)
    finally:
        if layers:
            remove_layers(layers)


def _of_torch(machine: Machine, torch: TorchBuild) -> list[Finding]:
    if not torch.version:
        return [Finding("torch is not installed together with hasten", "pip install torch", hinders=True)]
    found = []
    if tuple(int(part) for part in torch.version.split(".")[:2]) < _LEAST_TORCH:
        found.append(
            Finding(
                f"torch {torch.version} is too old for hasten", "pip install -U torch (2.9 or later)", True
            )
        )
    if machine.accelerators and not (torch.cuda or torch.rocm):
        found.append(
            Finding(
                f"there is {', '.join(machine.accelerators)}, but this torch is built for CPUs only",
                "install a torch built for your GPU",
                hinders=True,
            )
        )
    if not machine.accelerators and torch.cuda:
        found.append(
            Finding(f"this torch is built for CUDA {torch.cuda}, and there is no GPU", "it trains on the CPU")
        )
    return found


def _of_cpu(machine: Machine) -> list[Finding]:
    found = []
    if machine.usable_cpus < machine.physical_cores:
        found.append(
            Finding(
                f"the container may use {machine.quota_cpus:g} CPUs at once, and torch will start "
                f"{machine.physical_cores} threads",
                f"set OMP_NUM_THREADS={machine.usable_cpus}, or let hasten tune threads",
                hinders=True,
            )
        )
    if not _BF16_FLAGS & set(machine.cpu_flags):
        found.append(Finding("this CPU has no bfloat16 instructions", "lower precision will not help on it"))
    if not any(shutil.which(name) for name in ("g++", "clang++", "c++")):
        found.append(
            Finding("there is no C++ compiler, which torch.compile needs", "apt-get install g++, for example")
        )
    return found
