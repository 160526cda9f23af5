"""Everything that the coordinator and a worker say to each other.

A worker speaks unasked when its trial begins (``Sandboxed``, ``ChildStarted``, ``Refused``, the first
``StepsDone``) and when it is over (``WatchingFailed``, ``Ended``). Else it stands at the end of a step and
waits for a request: ``Request[X]`` is answered with an X, unless the script ends or watching fails meanwhile.
On the wire a message is a JSON object: its class's name under ``message``, beside it its fields.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from .codec import from_json, one_level
from .observation import Observation, Step
from .plan import Plan
from .quality import RunSummary
from .ranks import Findings
from .trace import StepTrace
from .trial import Proof

Sums = Sequence[float]
"""[<r, r>, <c, r>, |c - r|^2] of a reference's tensor r and another's, c."""


class Message:
    """Anything that one of the two says."""


A_co = TypeVar("A_co", bound=Message, covariant=True)


class Request(Message, Generic[A_co]):
    """What the coordinator says; an ``A_co`` answers it."""

    @classmethod
    def answer(cls) -> type[A_co]:
        """The class, or union of classes, of what answers it."""
        (base,) = vars(cls)["__orig_bases__"]
        return typing.cast("type[A_co]", typing.get_args(base)[0])


class UnknownMessage(ValueError):
    """What came is none of these messages."""


# ---- a worker's life, told unasked
@dataclass(frozen=True)
class Sandboxed(Message):
    """First of all, where files are to be protected: how they are. ``kind`` and ``uppers`` as in
    ``inside.protect``; ``contained``: the kernel will end with the worker what it starts.
    """

    kind: str
    reason: str
    contained: bool
    uppers: Mapping[str, str]


@dataclass(frozen=True)
class ChildStarted(Message):
    """Before the first step: the script started a process of its own."""

    name: str


@dataclass(frozen=True)
class Refused(Message):
    """Instead of the first steps, or of ``Switched``: a technique of the plan does not apply."""

    technique: str
    reason: str


@dataclass(frozen=True)
class WatchingFailed(Message):
    """At any time, and then the worker ends: our watching failed, with this traceback. Where it is no
    ``bug`` of ours, ``detail`` says what is the matter.
    """

    detail: str
    bug: bool = True


@dataclass(frozen=True)
class Ended(Message):
    """At the script's end, also in place of any answer. ``how`` and ``detail`` as in ``inside.exits``, or
    "raised" with a traceback; ``steps`` that were not told of before; ``observation`` None where it never
    trained; ``summary`` of a whole training alone; ``rest``: what came after the last step, told as a step;
    ``proofs`` of the techniques in force.
    """

    how: str
    detail: str
    steps: tuple[Step, ...] = ()
    sources: tuple[str, ...] = ()
    trace: tuple[StepTrace, ...] = ()
    observation: Observation | None = None
    summary: RunSummary | None = None
    rest: Step | None = None
    proofs: tuple[Proof, ...] = ()


# ---- to train
@dataclass(frozen=True)
class StepsDone(Message):
    """At the end of the first step, unasked, and of the last that was asked for. ``sources``: files of the
    script's modules that were not told of yet.
    """

    steps: tuple[Step, ...]
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class TrainSteps(Request[StepsDone]):
    """Sent for the script to go on for ``count`` steps."""

    count: int


# ---- about the training as a whole
@dataclass(frozen=True)
class Observed(Message):
    """Its steps are not in it: they were told as they were done."""

    observation: Observation


@dataclass(frozen=True)
class Observe(Request[Observed]):
    """Sent once the script was watched for a while."""


@dataclass(frozen=True)
class Switched(Message):
    """The plan is in force."""

    setup_seconds: float


@dataclass(frozen=True)
class SwitchPlan(Request[Switched | Refused]):
    """Sent for another plan to be in force from the next step on. After ``Refused`` none is."""

    plan: Plan


@dataclass(frozen=True)
class Proofs(Message):
    """One for each technique in force; ``setup_seconds``: all that they have taken so far;
    ``start_seconds``: from the process's beginning to its first step's end, set-up left out.
    """

    proofs: tuple[Proof, ...]
    setup_seconds: float
    start_seconds: float = 0.0


@dataclass(frozen=True)
class ShowProofs(Request[Proofs]):
    """Sent after timed steps: did the techniques take effect?"""


@dataclass(frozen=True)
class Traced(Message):
    """Of all steps so far."""

    steps: tuple[StepTrace, ...]


@dataclass(frozen=True)
class TellTrace(Request[Traced]):
    """Sent by the guard, to a worker that records what it compares."""


@dataclass(frozen=True)
class Rehearsed(Message):
    """What was found in this rank."""

    findings: Findings


@dataclass(frozen=True)
class TellFindings(Request[Rehearsed]):
    """Sent to each rank of a rehearsal after its first step."""


# ---- about single steps: the guard asks what they make of one state and one batch
@dataclass(frozen=True)
class Failed(Message):
    """In place of the answers below: why single steps cannot be compared."""

    reason: str


@dataclass(frozen=True)
class Written(Message):
    """The file is there."""


@dataclass(frozen=True)
class SaveState(Request[Written | Failed]):
    """Sent to the reference before a step that is to be checked: write the state it begins with."""

    state: str  # path


@dataclass(frozen=True)
class RecordStep(Request[Written | Failed]):
    """Sent to the reference after it: write what the step of ``optimizer`` made (-1: of none)."""

    made: str  # path
    optimizer: int


@dataclass(frozen=True)
class Departed(Message):
    """How far ours had departed from the reference's since the last checked step: sums by what it is, and
    the names of whole numbers that differ.
    """

    since: Mapping[str, Sums]
    counts: tuple[str, ...]


@dataclass(frozen=True)
class LoadState(Request[Departed | Failed]):
    """Sent to the others before it: take up the reference's state, and its gradient in the step to come."""

    state: str  # paths
    made: str


@dataclass(frozen=True)
class Compared(Message):
    """Our step against the reference's, by parameter and by buffer; empty what could not be compared.
    ``evaluation``: where the plan lowers evaluations, how far one of the step's batch departs from itself in
    full precision, relative.
    """

    gradient: Mapping[str, Sums]
    update: Mapping[str, Sums]
    buffers: Mapping[str, Sums]
    evaluation: float | None = None


@dataclass(frozen=True)
class CompareStep(Request[Compared | Failed]):
    """Sent to the others after it."""

    made: str  # path


@dataclass(frozen=True)
class Shapes(Message):
    """Of every tensor in the state dicts of models and optimizers, by name."""

    shapes: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class TellShapes(Request[Shapes | Failed]):
    """Sent where a plan changes the training itself: what would the script save now?"""


StepRequest = SaveState | RecordStep | LoadState | CompareStep | TellShapes

_EVENTS: tuple[type[Message], ...] = (
    Sandboxed, ChildStarted, Refused, WatchingFailed, Ended, StepsDone, Observed, Switched, Proofs, Traced,
    Rehearsed, Failed, Written, Departed, Compared, Shapes,
)  # fmt: skip
_REQUESTS: tuple[type[Message], ...] = (
    TrainSteps, Observe, SwitchPlan, ShowProofs, TellTrace, TellFindings, SaveState, RecordStep, LoadState,
    CompareStep, TellShapes,
)  # fmt: skip
_KINDS = {kind.__name__: kind for kind in (*_EVENTS, *_REQUESTS)}


def encode(message: Message) -> dict[str, Any]:
    """What its JSON is to hold, made with ``codec.one_level``."""
    return {"message": type(message).__name__, **one_level(message)}


def decode(data: Any) -> Message:
    """Raises UnknownMessage where ``data`` is none."""
    try:
        return from_json(_KINDS[data["message"]], data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnknownMessage(f"{type(error).__name__}: {error}") from error
