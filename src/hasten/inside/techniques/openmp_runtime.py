"""Which OpenMP runtime runs torch's operators, and whether its threads spin or sleep until the next one.

torch brings GNU's libgomp. Intel's libiomp5, from the package intel-openmp, replaces it if loaded first: it
has the same interface. Threads that spin start the next operator sooner.

It helps if steps are many short operators: spinning threads save the wake-up. It hurts if cores are shared
with a loader's workers or with others, and if a container's quota pays for the spinning: there, threads that
sleep at once are better.

Sources: https://gcc.gnu.org/onlinedocs/libgomp/Environment-Variables.html (OMP_WAIT_POLICY,
GOMP_SPINCOUNT); Intel's documentation of KMP_BLOCKTIME (milliseconds); the tuning guide,
https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

import os
import threading
import time

from ...records.facts import Facts
from ...records.machine import Machine
from ...records.plan import Settings, Value
from ...records.trial import Proof
from ..training import Training
from .base import Technique
from .support.native import (
    drop_own_variables,
    file_of,
    function,
    mapped,
    seconds_by_thread,
)

_OWN = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME", "KMP_LIBRARY")
_WAITS = ("active", "passive")
_BLOCKTIMES_MS = (200, 1, 0)
_LOOK_SECONDS = 0.005  # every run ends with this proof
_LOOKS = {"active": (1, 200), "passive": (8, 1)}  # operators, and looks after each; a busy machine needs many
_AWAKE_SECONDS = 0.03  # by default libgomp spins for some milliseconds
_ASLEEP_SECONDS = 2e-4


class OpenmpRuntime(Technique):
    name = "openmp_runtime"
    summary = "another OpenMP runtime under torch, or another way for its threads to wait"
    layer = "environment"
    risk = "exact"
    scope = "process"
    restarts = True
    jointly = True

    def __init__(self) -> None:
        self._settings: Settings = {}

    @classmethod
    def refuse_machine(cls, machine: Machine) -> list[str]:
        if machine.system != "Linux":
            return [f"torch's threads are not libgomp's on {machine.system}"]
        own = [name for name in _OWN if name in machine.environment]
        if own:
            return [f"you set {', '.join(own)} yourself, and that stands"]
        preloaded = machine.environment.get("LD_PRELOAD", "")
        return [f"you preload another OpenMP runtime: {preloaded}"] if "omp" in preloaded else []

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        reasons = cls.refuse_machine(facts.machine)
        if not facts.on_cpu:
            reasons.append("the training is not on the CPU")
        elif facts.observation.threads < 2:
            reasons.append("torch uses one thread: there is none to wait")
        return reasons

    @classmethod
    def options(cls, facts: Facts) -> list[Settings]:
        """libiomp5 where it is installed; whether to wait awake first depends on who else needs the cores."""
        machine = facts.machine
        shared = machine.usable_cpus < machine.logical_cpus or any(
            loader.workers for loader in facts.observation.loaders
        )
        times = sorted(_BLOCKTIMES_MS, reverse=not shared) if "libiomp5" in machine.libraries else []
        found: list[Settings] = [{"kind": "libiomp5", "blocktime": milliseconds} for milliseconds in times]
        waits = sorted(_WAITS, reverse=shared)
        return found + [{"kind": "libgomp", "wait": wait} for wait in waits]

    @classmethod
    def check(cls, settings: Settings) -> None:
        allowed: dict[str, tuple[str, tuple[Value, ...]]] = {
            "libgomp": ("wait", _WAITS),
            "libiomp5": ("blocktime", tuple(sorted(_BLOCKTIMES_MS))),
        }
        name, values = allowed.get(str(settings.get("kind")), ("", ()))
        value = settings.get(name)
        if set(settings) != {"kind", name} or isinstance(value, bool) or value not in values:
            raise ValueError(
                "openmp_runtime needs kind, and wait for libgomp (active, passive) "
                "or blocktime for libiomp5 (0, 1, 200)"
            )

    @classmethod
    def refuse_settings(cls, settings: Settings, machine: Machine) -> list[str]:
        missing = settings["kind"] == "libiomp5" and "libiomp5" not in machine.libraries
        return ["libiomp5 is not installed here (package intel-openmp)"] if missing else []

    @classmethod
    def environment(cls, settings: Settings, machine: Machine) -> dict[str, str]:
        if settings["kind"] == "libiomp5":
            return {
                "LD_PRELOAD": machine.libraries["libiomp5"],
                "KMP_BLOCKTIME": str(settings["blocktime"]),
            }
        return {"OMP_WAIT_POLICY": str(settings["wait"])}

    def start(self, training: Training, settings: Settings) -> None:
        """libgomp has read how to wait as it was loaded: programs that the script starts need not spin."""
        if settings["kind"] == "libgomp":
            drop_own_variables(["OMP_WAIT_POLICY"])

    def install(self, training: Training, settings: Settings) -> None:
        self._settings = settings

    def proof(self, training: Training) -> Proof:
        """The library that answers OpenMP calls, and how its threads wait."""
        kind, file = str(self._settings["kind"]), file_of("omp_get_max_threads")
        if kind not in os.path.basename(file) or not mapped(file):
            return Proof(self.name, False, f"OpenMP calls go to {file or 'nothing'}, {kind} was asked for")
        if kind == "libiomp5":
            asked, found = self._settings["blocktime"], int(function("kmp_get_blocktime")())
            evidence = f"OpenMP calls go to {file}; blocktime {found} ms, {asked} was asked for"
            return Proof(self.name, found == asked, evidence)
        return self._proof_of_waiting(training, file)

    def _proof_of_waiting(self, training: Training, file: str) -> Proof:
        """Measures how long the pool's busiest thread stays on a core when there is nothing to do.

        For threads that should sleep, after several operators: where another process takes this thread off
        its core, the spinning after one may be over before we look.
        """
        torch = training.torch
        if torch.get_num_threads() < 2:
            return Proof(self.name, False, "torch uses one thread: there is none to wait")
        wait = str(self._settings["wait"])
        operators, looks = _LOOKS[wait]
        awake, idle = 0.0, 0.0
        for _ in range(operators):
            torch.ones(2**20).mul_(2)
            longest, seconds = _busiest_waits(looks)
            awake, idle = max(awake, longest), idle + seconds
        effective = awake >= _AWAKE_SECONDS if wait == "active" else awake < _ASLEEP_SECONDS
        evidence = (
            f"{os.path.basename(file)}'s threads were awake for {1e3 * awake:.1f} of {1e3 * idle:.0f} idle ms"
        )
        return Proof(self.name, effective, evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        if settings["kind"] == "libgomp":
            return f"export OMP_WAIT_POLICY={settings['wait']}"
        return (
            "pip install intel-openmp\n"
            "export LD_PRELOAD=\"$(python -c 'import sys; print(sys.prefix)')/lib/libiomp5.so\"\n"
            f"export KMP_BLOCKTIME={settings['blocktime']}"
        )


def _busiest_waits(looks: int) -> tuple[float, float]:
    """Seconds that the busiest other thread runs from now on, and seconds watched, in at most ``looks``."""
    ours, before = threading.get_native_id(), seconds_by_thread()
    awake, looked = 0.0, 0
    while looked < looks and awake < _AWAKE_SECONDS:
        time.sleep(_LOOK_SECONDS)
        after = seconds_by_thread()
        awake = max((after[t] - before[t] for t in before if t in after and t != ours), default=0.0)
        looked += 1
    return awake, looked * _LOOK_SECONDS
