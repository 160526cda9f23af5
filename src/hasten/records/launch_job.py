"""A run on one machine or several, before any engine has made a command line of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PATIENCE_SECONDS = 600.0  # of a rank for the others; torch's own is half an hour


@dataclass(frozen=True)
class Nodes:
    """How many hosts: exactly ``most``, or, where ``least`` is smaller, as many as there are (elastic)."""

    least: int = 1
    most: int = 1

    @property
    def elastic(self) -> bool:
        return self.least < self.most

    def __str__(self) -> str:
        """As torchrun's --nnodes has it."""
        return f"{self.least}:{self.most}" if self.elastic else str(self.most)


@dataclass(frozen=True)
class LaunchJob:
    """``command`` is what every rank runs: hasten's own command line, its files by absolute paths.

    ``name`` is unique among jobs and made of letters, digits and ``-``. ``folder`` is absolute: every host
    has it. ``hosts`` are as ssh takes them, checked; empty where the engine knows its own. ``address`` and
    ``port`` are where ranks meet; "" and 0 where the engine finds them. ``node_rank``: a person starts this
    on each host, and this one has that number; None if that is not the case, or not given. ``interface``: the
    network's, "" for that which leads to ``address``. ``environment`` is set on the hosts in addition;
    ``secrets`` names variables of it whose values are shown nowhere. ``options`` are the engine's own
    words. ``image``: of the container that ranks run in, "" for none.
    """

    command: tuple[str, ...]
    folder: str
    name: str
    python: str
    nodes: Nodes = Nodes()
    nproc_per_node: int = 1
    hosts: tuple[str, ...] = ()
    address: str = ""
    port: int = 0
    node_rank: int | None = None
    interface: str = ""
    max_restarts: int = 0
    group_timeout_seconds: float = PATIENCE_SECONDS
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: frozenset[str] = frozenset()
    options: tuple[str, ...] = ()
    image: str = ""

    @property
    def size(self) -> int:
        """How many ranks there are at most."""
        return self.nodes.most * self.nproc_per_node


@dataclass(frozen=True)
class Launched:
    """What an engine of ours tells each rank, in addition to what the launcher itself does.

    ``threads``: the user's own OMP_NUM_THREADS; "" if they set none, and whatever is found there is the
    launcher's. ``group_timeout_seconds``: how long a rank waits for the others, where the script does not
    say.
    """

    threads: str
    interface: str = ""
    group_timeout_seconds: float = PATIENCE_SECONDS
