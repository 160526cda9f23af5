"""A tune's request, and what follows from it before anything is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..bench.stage import Stage
from ..inside.techniques.base import Risk
from ..inside.techniques.catalog import CATALOG
from ..launch.chosen import OwnRanks, own_ranks_of
from ..records.diagnosis import Distribution
from ..records.machine import Machine
from ..scripts.distribution import why_not_shared
from ..scripts.workspace import Script
from .candidates import NOT_NAMED


@dataclass(frozen=True)
class TuneRequest:
    """What was asked for. ``budget`` in seconds includes guard and confirmation; it grows, up to
    ``budget_most``, if it is too short for an honest answer, for the search, or for the confirmation, or if
    nothing was found. ``share_of_run``: it is to be this share of a whole run, once the script was watched;
    None: it is ``budget``.
    """

    script: Script
    environment: Mapping[str, str]
    budget: float
    risk: Risk
    seed: int
    allow_writes: bool
    nproc: int | None = None  # ranks of a script that is distributed itself; None: it trains in one process
    backend: str = ""  # used instead of those that such a script names; "" for none
    wait: bool = False  # for another measurement in the same folder to end
    only: frozenset[str] = frozenset()  # the techniques to try; empty: all
    fresh: bool = False  # use nothing that earlier tunes measured
    budget_most: float = 0.0
    share_of_run: float | None = None

    def tries(self, technique: str) -> bool:
        """Whether it may be tried."""
        return not self.only or technique in self.only

    def ruled_out(self, distribution: Distribution) -> dict[str, str]:
        """Techniques not to be tried, whatever is observed, each with the reason."""
        by_itself = why_not_shared(distribution)
        shared = {"processes": by_itself} if by_itself else {}
        return {**shared, **{name: NOT_NAMED for name in CATALOG if not self.tries(name)}}

    def own_ranks(self, distribution: Distribution, machine: Machine) -> OwnRanks | None:
        """The script's own ranks; None if it trains in one process. Raises UsageError if there cannot be this
        many.
        """
        tried = ", and how many processes are best for it is tried anyhow"
        return own_ranks_of(self.script, distribution, machine, self.nproc, self.backend, otherwise=tried)

    def stage(self, machine: Machine, own_ranks: OwnRanks | None) -> Stage:
        """The stage on which the script is watched."""
        return Stage(
            argv=self.script.argv,
            machine=machine,
            environment=self.environment,
            folders=self.script.folders,
            module=self.script.module is not None,
            protect=not self.allow_writes,
            own_ranks=own_ranks,
        )
