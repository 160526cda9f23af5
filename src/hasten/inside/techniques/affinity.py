"""Bind torch's threads to cores, so that they stay near their caches and their memory.

``compact`` takes neighbouring cores, ``spread`` takes them from all NUMA nodes in turn; each thread is then
bound to one core. ``cores`` binds no thread but leaves the process one hardware thread of each core.

It helps on machines with several NUMA nodes or two hardware threads a core, and if the system moves threads
around. It hurts on a machine that others use: a bound thread waits for its core even if another is free, and
processes that choose the same way meet on the same cores. Threads are not bound if a loader has workers:
they would wait for their cores while workers use them. What the script starts is not bound to the main
thread's core (``children_unbound``).

libgomp reads OMP_PLACES when it is loaded and then binds the main thread, which would leave libiomp5, if
loaded as well, a single core: libiomp5 is configured with KMP_AFFINITY.

Sources: https://gcc.gnu.org/onlinedocs/libgomp/Environment-Variables.html (OMP_PLACES, OMP_PROC_BIND);
Intel's documentation of KMP_AFFINITY; https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path

from ...records.facts import Facts
from ...records.machine import Core, Machine
from ...records.plan import Settings
from ...records.trial import Proof
from ..training import Training
from .base import Technique, conflicting
from .support.children_unbound import unbind_children
from .support.native import cpus_by_thread, cpus_in, started_with

_OWN = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY", "KMP_HW_SUBSET")
_KINDS = ("compact", "spread", "cores")


class Affinity(Technique):
    name = "affinity"
    summary = "torch's threads stay on cores of their own"
    layer = "environment"
    risk = "exact"
    scope = "process"
    restarts = True
    jointly = True
    conflicts = conflicting(loader_workers="bound threads would wait for cores that its processes use")

    def __init__(self) -> None:
        self._kind = ""

    @classmethod
    def refuse_machine(cls, machine: Machine) -> list[str]:
        if machine.system != "Linux":
            return [f"threads cannot be bound on {machine.system}"]
        own = [name for name in _OWN if name in machine.environment]
        if own:
            return [f"you set {', '.join(own)} yourself, and that stands"]
        if not machine.cores:
            return ["the machine does not report where its cores lie"]
        return [] if len(machine.cores) > 1 else ["there is one core: nothing to choose"]

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        reasons = cls.refuse_machine(facts.machine)
        if not facts.on_cpu:
            reasons.append("the training is not on the CPU")
        if not reasons and not cls.options(facts):
            workers = max(loader.workers for loader in facts.observation.loaders)
            reasons.append(
                f"bound threads would wait for the cores that the {workers} workers of a loader use"
            )
        return reasons

    @classmethod
    def options(cls, facts: Facts) -> list[Settings]:
        """Those that differ: on one node ``spread`` is ``compact``; ``cores`` needs two threads a core."""
        cores = facts.machine.cores
        found = []
        if not any(loader.workers for loader in facts.observation.loaders):
            found = ["compact"]
            if ordered(facts.machine, "spread") != ordered(facts.machine, "compact"):
                found.append("spread")
        if any(len(core.cpus) > 1 for core in cores):
            found.append("cores")
        return [{"bind": kind} for kind in found]

    @classmethod
    def check(cls, settings: Settings) -> None:
        if set(settings) != {"bind"} or settings["bind"] not in _KINDS:
            raise ValueError(f"affinity needs bind, one of {', '.join(_KINDS)}")

    @classmethod
    def excludes(cls, settings: Settings, other: str, others: Settings) -> str:
        """Worker processes go with ``cores``, which binds no thread to one; and a loader may have none."""
        inherited = settings.get("bind") != "cores" and others.get("count") != 0
        return super().excludes(settings, other, others) if inherited else ""

    @classmethod
    def refuse_settings(cls, settings: Settings, machine: Machine) -> list[str]:
        if settings["bind"] != "cores" or any(len(core.cpus) > 1 for core in machine.cores):
            return []
        return ["no core has a second hardware thread to leave out"]

    @classmethod
    def environment(cls, settings: Settings, machine: Machine) -> dict[str, str]:
        if settings["bind"] == "cores":
            return {}
        places = [_set_of(core.cpus) for core in ordered(machine, str(settings["bind"]))]
        if "iomp5" in machine.environment.get("LD_PRELOAD", ""):
            return {"KMP_AFFINITY": f"granularity=fine,proclist=[{','.join(places)}],explicit"}
        return {"OMP_PLACES": ",".join(places), "OMP_PROC_BIND": "close"}

    def start(self, training: Training, settings: Settings) -> None:
        """With ``cores``: leave every core's second hardware thread unused, and use fewer threads. Otherwise
        OpenMP's runtime binds threads, and what the script starts is kept from inheriting that.
        """
        if settings["bind"] != "cores":
            places = training.kept[self.name] = asked_places()
            if places:
                if "KMP_AFFINITY" in os.environ:  # libiomp5 reads it with the first operator
                    training.torch.ones(2**20).mul_(2)
                unbind_children(training.seams, places, training.own_cpus)
            return
        mine = os.sched_getaffinity(0)
        training.kept[self.name] = len(mine)
        firsts = first_threads(mine)
        for thread in cpus_by_thread():
            with suppress(OSError):  # ended since
                os.sched_setaffinity(thread, firsts)
        torch = training.torch
        if torch.get_num_threads() > len(firsts):
            torch.set_num_threads(len(firsts))

    def install(self, training: Training, settings: Settings) -> None:
        self._kind = str(settings["bind"])

    def proof(self, training: Training) -> Proof:
        """Ask the kernel where each thread may run, after work that torch shares among all of them."""
        training.torch.ones(2**20).mul_(2)
        found = cpus_by_thread()
        if self._kind == "cores":
            allowed, before = found[threading.get_native_id()], training.kept.get(self.name, 0)
            evidence = f"threads may use {len(allowed)} CPUs; before torch was imported, {before}"
            effective = allowed == first_threads(allowed) and len(allowed) < before
            return Proof(self.name, effective and all(cpus <= allowed for cpus in found.values()), evidence)
        places = training.kept.get(self.name) or asked_places()
        if not places:
            why = "this process was not told which cores to take: OMP_PLACES and KMP_AFFINITY name none"
            return Proof(self.name, False, why)
        held = {place for place in places if place in found.values()}
        wanted = min(training.torch.get_num_threads(), len(places))
        evidence = f"threads are bound to {len(held)} cores, and {wanted} were asked for, one for each thread"
        return Proof(self.name, wanted <= len(held), evidence)

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        if settings["bind"] == "cores":
            firsts = "lscpu -p=CPU,CORE | grep -v '^#' | sort -u -t, -k2,2 | cut -d, -f1 | paste -sd,"
            return f"taskset -c $({firsts}) python train.py"
        bind = "close" if settings["bind"] == "compact" else "spread"
        return f"export OMP_PLACES=cores OMP_PROC_BIND={bind}"


def ordered(machine: Machine, kind: str) -> list[Core]:
    """As many cores as can run at once, in the order in which threads take them: of two kinds the fast ones
    first.
    """
    nodes: dict[tuple[int, int], list[Core]] = {}
    for core in sorted(machine.cores, key=lambda core: core.efficient):
        nodes.setdefault((core.socket, core.node), []).append(core)
    in_turn = [nodes[key] for key in sorted(nodes)]
    if kind == "compact":
        cores = [core for node in in_turn for core in node]
    else:
        cores = [core for row in zip_longest(*in_turn) for core in row if core is not None]
    return cores[: min(machine.usable_cpus, len(cores))]


def asked_places() -> list[frozenset[int]]:
    """The places that this process was started with: torch read them before the script could change them."""
    return next(filter(None, map(places_in, (started_with(), os.environ))), [])


def places_in(variables: Mapping[str, str]) -> list[frozenset[int]]:
    """The CPUs of each place that the variables of ``environment`` above ask for, in order."""
    for name in ("KMP_AFFINITY", "OMP_PLACES"):
        places = [cpus_in(place) for place in re.findall(r"\{([\d,]+)\}", variables.get(name, ""))]
        if places:
            return places
    return []


def first_threads(cpus: Iterable[int]) -> frozenset[int]:
    """Of ``cpus`` that share a core, the first."""
    mine = frozenset(cpus)
    return frozenset(min(_siblings(cpu) & mine | {cpu}) for cpu in mine)


def _siblings(cpu: int) -> frozenset[int]:
    try:
        text = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text()
    except OSError:
        return frozenset({cpu})
    return cpus_in(text)


def _set_of(cpus: Iterable[int]) -> str:
    return f"{{{','.join(map(str, cpus))}}}"
