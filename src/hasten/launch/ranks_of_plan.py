"""What a plan says about the processes that train one script together."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..inside.techniques.processes import Processes
from ..records.plan import Plan


@dataclass(frozen=True)
class Wish:
    """``backend`` "" is the best for the training's device. ``threads`` of each process and what each is
    bound to, as in ``records.layout``; 0 and "" for an equal share of all cores.
    """

    count: int
    backend: str = ""
    sync_batch_norm: bool = False
    threads: int = 0
    bind: str = ""

    @property
    def rehearsed(self) -> Wish:
        """The part a rehearsal depends on: not where the processes run."""
        return replace(self, threads=0, bind="")


def wish_of(plan: Plan) -> Wish | None:
    """What the plan says about processes; None if it leaves the training in one."""
    settings = plan.techniques.get(Processes.name)
    if settings is None:
        return None
    return Wish(
        int(settings["count"]),
        str(settings.get("backend", "")),
        bool(settings.get("sync_batch_norm", False)),
        int(settings.get("threads", 0)),
        str(settings.get("bind", "")),
    )
