"""How many threads torch's operators use. More is not always faster, for example under a container's quota or
with small operators.

It helps if a container's quota is smaller than the machine, if two hardware threads share a core, and for
small models, whose operators end sooner than threads wake up. It hurts if operators are large.

Source: https://docs.pytorch.org/docs/stable/notes/cpu_threading_torchscript_inference.html
"""

from __future__ import annotations

from collections import Counter

from ...records.facts import Facts
from ...records.machine import Machine
from ...records.plan import Settings
from ...records.trial import Proof
from ...records.waiting import threads_beside_others
from ..training import Training
from .base import Technique, conflicting

_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_THREAD_LIMIT")


class Threads(Technique):
    name = "threads"
    summary = "another number of threads for torch's operators"
    layer = "environment"
    risk = "exact"
    scope = "process"
    restarts = True
    conflicts = conflicting(processes="its layout says how many threads each process has")

    def __init__(self) -> None:
        self._wanted = 0

    @classmethod
    def refuse_machine(cls, machine: Machine) -> list[str]:
        own = [name for name in _VARIABLES if name in machine.environment]
        return [f"you set {', '.join(own)} yourself, and that stands"] if own else []

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        reasons = cls.refuse_machine(facts.machine)
        if not facts.on_cpu:
            reasons.append("the training is not on the CPU")
        elif not cls.options(facts):
            reasons.append("there is one core: nothing to choose")
        return reasons

    @classmethod
    def options(cls, facts: Facts) -> list[Settings]:
        """As many as need not wait for other programs, what the quota allows, rounded both ways, the physical
        cores, the fast ones of two kinds, those of one NUMA node, half of them, one: each that differs from
        what torch chose.
        """
        machine, now = facts.machine, facts.observation.threads
        usable = min(machine.usable_cpus, machine.physical_cores)
        whole = min(usable, machine.whole_cpus)  # more would be throttled
        fast = sum(not core.efficient for core in machine.cores) or usable
        node = max(Counter(core.node for core in machine.cores).values(), default=usable)
        beside = threads_beside_others(facts) or now
        counts = dict.fromkeys(
            (
                beside,
                usable,
                machine.usable_cpus,
                whole,
                min(fast, whole),
                min(node, whole),
                max(1, usable // 2),
                1,
            )
        )
        return [{"count": count} for count in counts if count != now]

    @classmethod
    def check(cls, settings: Settings) -> None:
        count = settings.get("count")
        if (
            set(settings) != {"count"}
            or not isinstance(count, int)
            or isinstance(count, bool)
            or not 1 <= count <= 4096
        ):
            raise ValueError("threads needs count, a whole number from 1 to 4096")

    @classmethod
    def excludes(cls, settings: Settings, other: str, others: Settings) -> str:
        """Processes without a layout share the cores, and take the number of threads for the most."""
        return super().excludes(settings, other, others) if "threads" in others else ""

    @classmethod
    def environment(cls, settings: Settings, machine: Machine) -> dict[str, str]:
        return {"OMP_NUM_THREADS": str(settings["count"]), "MKL_NUM_THREADS": str(settings["count"])}

    def install(self, training: Training, settings: Settings) -> None:
        self._wanted = int(settings["count"])

    def proof(self, training: Training) -> Proof:
        """Asks torch how many threads it uses."""
        found = training.torch.get_num_threads()
        return Proof(
            self.name, found == self._wanted, f"torch uses {found} threads, {self._wanted} were asked for"
        )

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return (
            f"export OMP_NUM_THREADS={settings['count']}    # or torch.set_num_threads({settings['count']})"
        )
