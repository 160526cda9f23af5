"""Which scripts ranks of an engine can train."""

from __future__ import annotations

from ..records.diagnosis import Distribution


def why_not_by_ranks(found: Distribution, script: str, size: int, says_it_is: bool, elastic: bool) -> str:
    """Why ``size`` ranks of an engine cannot train such a script; "" if they can. ``says_it_is``: the user
    says that it is distributed itself. ``elastic``: hosts may come and go.
    """
    if size == 1 or says_it_is:
        return ""
    if found.kind == "spawns":
        return (
            f"{found.sign} starts ranks of the script's own, and each of {size} ranks would do so: let it "
            "read RANK and WORLD_SIZE instead, as under torchrun"
        )
    if not found.kind and elastic:
        return (
            f"{script} knows of no ranks, so hasten divides its batches among a fixed number of hosts: write "
            "--nnodes N. If it is distributed itself and hasten does not see it, add --ranks script"
        )
    return ""
