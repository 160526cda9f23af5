"""The contract of a technique. Modules here import torch nowhere: it comes with the training."""

from __future__ import annotations

from typing import ClassVar, Literal

from ...records.facts import Facts
from ...records.machine import Machine
from ...records.plan import Settings
from ...records.trial import Proof
from ..training import Training

Risk = Literal["exact", "draws", "close", "training"]
Layer = Literal["application", "data", "environment", "resources"]
Scope = Literal["live", "process", "launch"]

RISKS: tuple[Risk, ...] = ("exact", "draws", "close", "training")
"""From harmless to consequential: a risk level allows its own and those before it."""


class Technique:
    """One way to train faster.

    The coordinator asks ``refuse``, ``options`` and ``environment``, from facts alone and without torch. A
    worker makes one instance each time the technique is switched on, calls ``install``, later ``proof`` and
    ``remove``; the instance keeps what its own removal needs. ``install`` then ``remove`` with no step
    between leaves every bit as it was.
    """

    name: ClassVar[str]
    summary: ClassVar[str]  # one sentence for reports: what it does
    layer: ClassVar[Layer]
    risk: ClassVar[Risk]
    scope: ClassVar[Scope]
    conflicts: ClassVar[frozenset[str]] = frozenset()  # names that cannot be in the same plan
    precision: ClassVar[str] = "float32"  # the lowest it computes in; what the guard tolerates

    steadies: ClassVar[bool] = False  # makes steps more even: on during the search, judged at its end

    @classmethod
    def risk_for(cls, facts: Facts) -> Risk:
        """The risk with this script, where it differs from the usual one."""
        return cls.risk

    @classmethod
    def refuse_machine(cls, machine: Machine) -> list[str]:
        """Reasons that are known before the script runs; part of ``refuse``."""
        return []

    @classmethod
    def refuse(cls, facts: Facts) -> list[str]:
        """Reasons why it cannot help or work here; empty means that it applies."""
        return cls.refuse_machine(facts.machine)

    @classmethod
    def options(cls, facts: Facts) -> list[Settings]:
        """Settings worth trying here, the most promising first."""
        return [{}]

    @classmethod
    def check(cls, settings: Settings) -> None:
        """Raise ValueError, saying what was expected, for settings that no machine could carry out."""
        if settings:
            raise ValueError(f"{cls.name} takes no settings, found {', '.join(settings)}")

    @classmethod
    def environment(cls, settings: Settings) -> dict[str, str]:
        """Variables that must be set before the process starts (process scope)."""
        return {}

    @classmethod
    def starts_after(cls, settings: Settings) -> int:
        """Steps that are first taken as they are; what times, judges or asks for proofs waits for them."""
        return 0

    @classmethod
    def begin(cls, training: Training, settings: Settings) -> None:
        """Act before the script has made anything of torch's, which was imported just now (process scope).

        ``install`` follows at the first forward pass; ``training.kept`` takes what it needs to know.
        """

    def install(self, training: Training, settings: Settings) -> None:
        """Switch on between two steps (live scope). Raises NotApplicable where it finds that it cannot
        work.
        """

    def prepare(self, training: Training) -> None:
        """Pay now what would otherwise be paid during the first steps, so that it is not timed as a step."""

    def remove(self, training: Training) -> None:
        """The exact inverse of ``install``."""

    def proof(self, training: Training) -> Proof:
        """Did it take effect since it was installed? Counted, not assumed."""
        raise NotImplementedError

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        """The same change as a person would write it: a few lines of ordinary PyTorch or shell."""
        raise NotImplementedError
