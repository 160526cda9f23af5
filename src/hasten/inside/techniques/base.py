"""The contract of a technique. Modules here do not import torch: they get it from the training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
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
"""From harmless to serious: a risk level allows itself and those before it."""

NO_MODULE = "no module is called in its training steps"
SAVES_MEMORY = "it saves memory and costs time: where memory is short, name it by --use"  # so: not_tried


def conflicting(**reasons: str) -> Mapping[str, str]:
    """Names of techniques, each with the reason why it cannot be in one plan."""
    return MappingProxyType(reasons)


def each_once(reasons: Iterable[str]) -> list[str]:
    """The non-empty reasons, each once: similar loaders have the same one."""
    return [reason for reason in dict.fromkeys(reasons) if reason]


def saw_evaluation(facts: Facts) -> bool:
    """Whether the script was watched while it evaluated, for a whole epoch, or to its end. If so, what was
    not seen does not exist.
    """
    run = facts.observation.run
    return run is not None and (run.ended or run.epochs > 0 or facts.observation.evaluated)


class Technique:
    """One way to train faster.

    The coordinator calls ``refuse``, ``options`` and ``environment``, from facts alone and without torch. A
    worker creates one instance each time the technique is switched on, and calls ``install``, later ``proof``
    and ``remove``; the instance keeps what its removal needs. ``install`` then ``remove`` without a step in
    between leaves every bit as it was.

    A technique of process scope has one instance for the life of the process: ``start`` is called before the
    script goes on, ``install`` with the first training step. What ``start`` puts in place goes through the
    training's seams and stays when the technique is removed.
    """

    name: ClassVar[str]
    summary: ClassVar[str]  # one sentence for reports: what it does
    layer: ClassVar[Layer]
    risk: ClassVar[Risk]
    scope: ClassVar[Scope]
    conflicts: ClassVar[Mapping[str, str]] = conflicting()  # said on one side, it holds for both
    precision: ClassVar[str] = "float32"  # the lowest it computes in; sets the guard's tolerance

    devices: ClassVar[frozenset[str]] = frozenset()  # kinds of device it is for ("cuda"); empty: every kind
    not_tried: ClassVar[str] = ""  # why tune does not try it unless asked; "" if it does
    steadies: ClassVar[bool] = False  # makes steps more even: on during the search, judged at its end
    slow_to_set_up: ClassVar[bool] = False  # a trial costs as much as several others': tried after them
    slow_to_show: ClassVar[bool] = False  # see ``shows_after``: tried after what shows at once
    jointly: ClassVar[bool] = False  # costs little if it does not help: tried first, together with others
    parts: ClassVar[tuple[str, ...]] = ("steps",)  # parts of a run (``records.whole_run``) that it shortens:
    # if there are others than steps, it is compared over whole stretches of a run, usually epochs
    phases: ClassVar[tuple[str, ...]] = ()  # phases of a step that it shortens; (): any
    needs_samples: ClassVar[bool] = False  # ``install`` must know the data set that is trained on
    from_second: ClassVar[bool] = False  # it acts from the second occurrence of its part on
    may_come_too_late: ClassVar[bool] = False  # a script may come to hold what rules it out, after its start
    restarts: ClassVar[bool] = False  # a run under it goes on exactly from a checkpoint of ``--checkpoint``

    @classmethod
    def risk_for(cls, facts: Facts) -> Risk:
        """The risk with this script, which may differ from the usual one."""
        return cls.risk

    @classmethod
    def changes_training(cls, settings: Settings) -> bool:
        """Whether these settings change the training itself: then `hasten verify` must judge its quality."""
        return cls.risk == "training"

    @classmethod
    def risk_of(cls, settings: Settings, facts: Facts) -> Risk:
        """The risk of these settings with this script."""
        return "training" if cls.changes_training(settings) else cls.risk_for(facts)

    @classmethod
    def together_with(cls, settings: Settings, facts: Facts) -> dict[str, Settings]:
        """Other techniques to try these settings with: without them the settings could not show what
        they are worth.
        """
        return {}

    @classmethod
    def facts_under(cls, settings: Settings, facts: Facts) -> Facts:
        """The facts as they are once these settings are in force, as far as other techniques apply only
        then: those are tried together with it.
        """
        return facts

    @classmethod
    def gains_with(cls, facts: Facts) -> frozenset[str]:
        """Other techniques in combination with which it may gain though it did not without them: where one
        is adopted after it was tried, it is tried once more.
        """
        return frozenset()

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
        """Raise ValueError, saying what was expected, for settings that are invalid on any machine."""
        if settings:
            raise ValueError(f"{cls.name} takes no settings, found {', '.join(settings)}")

    @classmethod
    def excludes(cls, settings: Settings, other: str, others: Settings) -> str:
        """Why these settings and those of ``other`` cannot be in one plan; "" if this technique does not
        object. Callers use ``exclusion``, which asks both.
        """
        return cls.conflicts.get(other, "")

    @classmethod
    def ahead(cls, settings: Settings) -> int:
        """Batches that may be ready after a pause: the steps that use them are not timed."""
        return 0

    @classmethod
    def loader_workers(cls, settings: Settings) -> int:
        """Worker processes that make the batches under these settings; 0 if the script's own do, or none."""
        return 0

    @classmethod
    def refuse_settings(cls, settings: Settings, machine: Machine) -> list[str]:
        """Reasons why these settings, from a plan made elsewhere, cannot be used on this machine."""
        return []

    @classmethod
    def environment(cls, settings: Settings, machine: Machine) -> dict[str, str]:
        """Variables that must be set before the process starts (process scope).

        ``machine`` resolves kinds of libraries and the placement of threads; its ``environment`` is what else
        the process gets, from the user and from the techniques before this one in the catalogue. Lists such
        as LD_PRELOAD hold only what this technique adds.
        """
        return {}

    @classmethod
    def shows_after(cls, facts: Facts) -> int:
        """Steps before there is anything for it to gain, if that is not so from the start: it is compared
        then.
        """
        return 0

    @classmethod
    def starts_after(cls, settings: Settings) -> int:
        """Steps before the technique takes effect: timing, judging and proofs wait for them."""
        return 0

    def start(self, training: Training, settings: Settings) -> None:
        """Take effect in a process whose script has just imported torch (process scope). Raises
        NotApplicable.
        """

    def install(self, training: Training, settings: Settings) -> None:
        """Switch on between two steps (live scope). Raises NotApplicable if it finds that it cannot
        work.
        """

    def prepare(self, training: Training) -> None:
        """Do set-up now that would otherwise happen in the first steps, so that it is not timed as a step."""

    def spared_seconds(self) -> float:
        """How much longer the latest ``prepare`` takes in a run than in this process, which found part of it
        done by another process of the tune; below 0 if it did that part for others, too.
        """
        return 0.0

    def seconds_in_steps(self) -> float:
        """Seconds of set-up in this process that can only happen during steps (compiling). Steps that contain
        it must not be timed.
        """
        return 0.0

    def remove(self, training: Training) -> None:
        """The exact inverse of ``install``."""

    def left_on(self) -> str:
        """Why ``remove`` could not undo all of it; "" if it has."""
        return ""

    def proof(self, training: Training) -> Proof:
        """Whether it took effect since it was installed: counted, not assumed."""
        raise NotImplementedError

    @classmethod
    def by_hand(cls, settings: Settings) -> str:
        """The same change as a person would write it: a few lines of ordinary PyTorch or shell."""
        raise NotImplementedError
