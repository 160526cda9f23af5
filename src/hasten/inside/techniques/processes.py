"""Train in several processes, each on its part of every batch, with gradients averaged in the background.

What it does: every process draws the batches that one process would, keeps its slice of them, and only makes
the slice's samples; the weighted sum of the slices' gradients is the batch's gradient. The batch stays what
the script says, and so does what is learnt. Losses that the script prints are the batch's; anything else it
computes from a slice (for example the accuracy on training batches) is rank 0's. When it helps: samples take
long to make, or operators are too small for as many threads as there are cores. When it hurts: large
operators use all cores anyway, and gradients take long to add up; memory holds the data once per process.

Not exact: batch norm computes its statistics from a slice, unless ``sync_batch_norm`` computes them from the
whole batch; dropout and augmentation draw different numbers. The first step is rehearsed first: if the slices
do not add up to what one process computes, the reason is reported and nothing is trained.

Source: https://arxiv.org/abs/2006.15704 (Li et al., PyTorch Distributed)
"""

from __future__ import annotations

from ...records.facts import Facts
from ...records.machine import Machine
from ...records.observation import STEPS_IN_BACKWARD
from ...records.plan import Settings
from ...records.trial import Proof
from ..training import Training
from .base import Risk, Technique, conflicting
from .support.process_layouts import KINDS, layouts, resolve

_BACKENDS = ("shm", "gloo", "nccl", "mpi4py", "ccl")
_MOST = 64  # processes
_SAMPLES_EACH = 2  # of a batch, at least, for a slice that is worth its process


class Processes(Technique):
    name = "processes"
    restarts = True
    summary = "several processes, each with its part of every batch and of the cores"
    layer = "resources"
    risk = "exact"
    scope = "launch"
    conflicts = conflicting(
        batch_size="ranks share the batch that the script asks for",
        optimizer_in_backward="gradients are averaged over ranks after they have arrived",
        prune="each rank would cut a model of its own",
        device_prefetch="it would copy batches that a rank has not cut yet",
    )

    def __init__(self) -> None:
        self._before = (0, 0, 0)

    @classmethod
    def risk_for(cls, facts: Facts) -> Risk:
        """A rank draws random numbers of its own, from the same distribution."""
        loaders = facts.observation.training_loaders
        dropout = any(root.dropout for root in facts.observation.roots)
        return "draws" if dropout or any(loader.random != "" for loader in loaders) else "exact"

    @classmethod
    def refuse_machine(cls, machine: Machine) -> list[str]:
        if machine.system != "Linux":
            return [f"ranks are not started on {machine.system}"]
        if len(machine.accelerators) < 2 and not _layouts(machine):
            return ["there is one core: nothing to share"]
        return []

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        reasons = cls.refuse_machine(facts.machine)
        seen = facts.observation
        loaders = seen.training_loaders
        if not loaders or all(loader.iterable for loader in loaders):
            reasons.append("its training batches come from no DataLoader that takes samples by their indices")
        if not seen.optimizers:
            reasons.append("it trains without an optimizer of torch.optim")
        if STEPS_IN_BACKWARD in seen.uses:
            reasons.append("its optimizers step within the backward pass, before gradients could be averaged")
        if not facts.on_cpu and len(facts.machine.accelerators) < 2:
            reasons.append("it trains on the only GPU")
        if not reasons and not cls.options(facts):
            reasons.append(f"batches of {seen.batch_size} samples are too small to be shared")
        return reasons

    @classmethod
    def options(cls, facts: Facts) -> list[Settings]:
        """A process for each GPU; on CPUs what ``process_layouts`` finds worth measuring."""
        batch = facts.observation.batch_size or 0
        on_gpus: list[Settings] = [{"count": len(facts.machine.accelerators)}]
        laid_out = _layouts(facts.machine) if facts.on_cpu else on_gpus
        fitting = [one for one in laid_out if 2 <= int(one["count"]) <= min(_MOST, batch // _SAMPLES_EACH)]
        norm = any(root.batch_norm for root in facts.observation.roots)
        return [{**one, **({"sync_batch_norm": True} if norm else {})} for one in fitting]

    @classmethod
    def check(cls, settings: Settings) -> None:
        fits = (
            set(settings) <= {"count", "backend", "sync_batch_norm", "threads", "bind"}
            and _is_whole(settings.get("count"))
            and settings.get("backend", "shm") in _BACKENDS
            and isinstance(settings.get("sync_batch_norm", False), bool)
            and _is_whole(settings.get("threads", 1))
            and settings.get("bind", "cores") in KINDS
            and ("threads" in settings) == ("bind" in settings)
        )
        if not fits:
            raise ValueError(
                "processes needs count, a whole number from 1 to 4096; it may have threads, another one, "
                f"together with bind, one of {', '.join(KINDS)}; sync_batch_norm, true or false; and "
                f"backend, one of {', '.join(_BACKENDS)}"
            )

    @classmethod
    def excludes(cls, settings: Settings, other: str, others: Settings) -> str:
        """With one process, nothing is excluded."""
        return "" if settings.get("count") == 1 else super().excludes(settings, other, others)

    @classmethod
    def refuse_settings(cls, settings: Settings, machine: Machine) -> list[str]:
        most = max(machine.usable_cpus, len(machine.accelerators))
        count = int(settings["count"])
        if "bind" in settings:
            try:
                resolve(machine, count, int(settings["threads"]), str(settings["bind"]))
            except ValueError as error:
                return [str(error)]
        return [f"{count} processes need as many cores, and there are {most}"] if count > most else []

    def install(self, training: Training, settings: Settings) -> None:
        self._before = _counts(training)

    def proof(self, training: Training) -> Proof:
        """Counts the batches that were cut, and what was reduced among the ranks."""
        this_rank = training.this_rank
        if this_rank is None:
            return Proof(self.name, False, "it trains in one process")
        batches, reductions, sent = (
            now - before for now, before in zip(_counts(training), self._before, strict=True)
        )
        evidence = (
            f"{batches} batches cut for {this_rank.ranks.world_size} ranks; {reductions} all-reduces of "
            f"{sent / 2**20:.1f} MiB in all"
        )
        return Proof(self.name, batches > 0 and reductions > 0, evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        threads = f"OMP_NUM_THREADS={settings['threads']} " if "threads" in settings else ""
        norm = "model = nn.SyncBatchNorm.convert_sync_batchnorm(model)    # on GPUs only\n"
        return (
            f"# {threads}torchrun --nproc-per-node {settings['count']} train.py, where train.py says:\n"
            f'torch.distributed.init_process_group("{settings.get("backend", "gloo")}")\n'
            f"{norm if settings.get('sync_batch_norm') else ''}"
            "model = nn.parallel.DistributedDataParallel(model)\n"
            "sampler = DistributedSampler(dataset)    # and sampler.set_epoch(epoch) in every epoch\n"
            f"loader = DataLoader(dataset, batch_size // {settings['count']}, sampler=sampler)"
        )


def _layouts(machine: Machine) -> list[Settings]:
    return [layout.settings for layout in layouts(machine) if layout.processes > 1]


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 4096


def _counts(training: Training) -> tuple[int, int, int]:
    this_rank = training.this_rank
    if this_rank is None:
        return (0, 0, 0)
    talk = this_rank.communication
    return (this_rank.slicer.batches, talk.reductions, talk.reduced_bytes)
