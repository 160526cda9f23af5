"""How many threads torch keeps for work parallel to a step's operators: its inter-op pool.

It helps if a script forks work in torch (torch.jit.fork, TorchScript) and the pool's threads, as many as
there are hardware threads, get in the way of the operators' own. It does nothing for a script that never
forks, and hurts one whose forks are its parallelism.

Source: https://docs.pytorch.org/docs/stable/notes/cpu_threading_torchscript_inference.html
"""

from __future__ import annotations

from contextlib import suppress

from ...records.facts import Facts
from ...records.plan import Settings
from ...records.trial import Proof
from ..seams import Call
from ..training import Training
from .base import Technique

_SETTER = "set_num_interop_threads"


class InteropThreads(Technique):
    name = "interop_threads"
    summary = "fewer threads for work parallel to torch's operators"
    layer = "environment"
    risk = "exact"
    scope = "process"
    restarts = True
    jointly = True

    def __init__(self) -> None:
        self._wanted = 0

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        if not facts.on_cpu:
            return ["the training is not on the CPU"]
        if _SETTER in facts.observation.uses:
            return [f"the script calls torch.{_SETTER} itself, and that stands"]
        return [] if cls.options(facts) else ["there is one core: nothing to choose"]

    @classmethod
    def options(cls, facts: Facts) -> list[Settings]:
        """One, and what can run at once: each that is less than torch's own choice, all hardware threads."""
        machine = facts.machine
        counts = dict.fromkeys((1, machine.usable_cpus))
        return [{"count": count} for count in counts if count < machine.logical_cpus]

    @classmethod
    def check(cls, settings: Settings) -> None:
        count = settings.get("count")
        if set(settings) != {"count"} or type(count) is not int or not 1 <= count <= 4096:
            raise ValueError("interop_threads needs count, a whole number from 1 to 4096")

    def start(self, training: Training, settings: Settings) -> None:
        """torch takes one number, before the pool is first used: a call of the script's would now fail."""
        with suppress(RuntimeError):  # in use already: the proof will say so
            training.torch.set_num_interop_threads(int(settings["count"]))

        def keeping_quiet(original: Call) -> Call:
            def set_num_interop_threads(count: int) -> None:
                training.kept[_SETTER] = count

            return set_num_interop_threads

        training.seams.replace(training.torch, _SETTER, keeping_quiet)

    def install(self, training: Training, settings: Settings) -> None:
        self._wanted = int(settings["count"])

    def proof(self, training: Training) -> Proof:
        """Asks torch how many inter-op threads it keeps, and whether the script asks for another."""
        found, own = training.torch.get_num_interop_threads(), training.kept.get(_SETTER)
        evidence = f"torch keeps {found} inter-op threads, {self._wanted} were asked for"
        if own is not None:
            evidence += f"; the script asks for {own}, and torch takes one number only"
        return Proof(self.name, found == self._wanted and own in (None, found), evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        return f"torch.set_num_interop_threads({settings['count']})    # right after import torch"
