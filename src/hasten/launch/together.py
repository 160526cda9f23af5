"""What a plan says of the processes that train one script together."""

from __future__ import annotations

from dataclasses import dataclass

from ..inside.techniques.processes import Processes
from ..records.plan import Plan


@dataclass(frozen=True)
class Wish:
    """``backend`` "" is the best for where the training is."""

    count: int
    backend: str = ""
    sync_batch_norm: bool = False


def wish_of(plan: Plan) -> Wish | None:
    """None where the plan leaves the training in one process."""
    settings = plan.techniques.get(Processes.name)
    if settings is None:
        return None
    return Wish(
        int(settings["count"]),
        str(settings.get("backend", "")),
        bool(settings.get("sync_batch_norm", False)),
    )
