"""Which scripts may be trained by ranks that an engine starts."""

from __future__ import annotations

from ..records.diagnosis import Distribution


def why_not_by_ranks(found: Distribution, script: str, size: int, says_it_is: bool) -> str:
    """Why ``size`` ranks of an engine cannot train such a script; "" where they can.

    The one switch: a script that knows of no ranks is refused here, as each rank would train all of it, until
    ranks on several hosts can share it. ``says_it_is``: the user's word that it is distributed itself.
    """
    if size == 1 or says_it_is:
        return ""
    if found.kind == "spawns":
        return (
            f"{found.sign} starts ranks of the script's own, and each of {size} ranks would do so: let it "
            "read RANK and WORLD_SIZE instead, as under torchrun"
        )
    if not found.kind:
        return (
            f"{script} knows of no ranks, and each of {size} would train all of it. Engines are for scripts "
            "that are distributed themselves (DistributedDataParallel, Accelerate, Lightning); on one "
            "machine, hasten run --nproc-per-node divides the training of others, too. If it is distributed "
            "and hasten does not see it, say --ranks script"
        )
    return ""
