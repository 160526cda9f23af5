"""Everything that the coordinator and a worker say to each other.

A worker sends unasked when its trial begins (``Sandboxed``, ``ChildStarted``, ``Refused``, the first
``StepsDone``) and when it is over (``WatchingFailed``, ``Ended``). Otherwise it stops at the end of a step
and waits for a request: ``Request[X]`` is answered with an X, unless the script ends or watching fails
meanwhile. On the wire a message is a JSON object: its class name under ``message``, plus its fields.
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
    """Anything that either of the two sends."""


A_co = TypeVar("A_co", bound=Message, covariant=True)


class Request(Message, Generic[A_co]):
    """Sent by the coordinator; an ``A_co`` answers it."""

    @classmethod
    def answer(cls) -> type[A_co]:
        """The class, or union of classes, of the answer."""
        (base,) = vars(cls)["__orig_bases__"]
        return typing.cast("type[A_co]", typing.get_args(base)[0])


class UnknownMessage(ValueError):
    """What arrived is none of these messages."""


# ---- a worker's life, sent unasked
@dataclass(frozen=True)
class Sandboxed(Message):
    """The first message if files are to be protected: how they are. ``kind`` and ``uppers`` as in
    ``inside.protect``; ``contained``: the kernel ends everything the worker starts together with it.
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
    """At any time, and then the worker ends: our watching failed, with this traceback. If it is not a ``bug``
    of ours, ``detail`` says what is wrong.
    """

    detail: str
    bug: bool = True


@dataclass(frozen=True)
class Ended(Message):
    """At the script's end, also in place of any answer. ``how`` and ``detail`` as in ``inside.exits``, or
    "raised" with a traceback; ``steps`` not reported before; ``observation`` None if it never trained;
    ``summary`` only of a whole training; ``rest``: what came after the last step, as a step; ``proofs`` of
    the techniques in force.
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
    """Sent after the first step, unasked, and after the last requested one. ``sources``: files of the
    script's modules that were not reported yet.
    """

    steps: tuple[Step, ...]
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class TrainSteps(Request[StepsDone]):
    """Sent to let the script go on for ``count`` steps."""

    count: int


# ---- about the training as a whole
@dataclass(frozen=True)
class Observed(Message):
    """Without its steps, which were sent as they were done."""

    observation: Observation


@dataclass(frozen=True)
class Observe(Request[Observed]):
    """Sent after the script was watched for a while."""


@dataclass(frozen=True)
class Switched(Message):
    """The plan is in force."""

    setup_seconds: float


@dataclass(frozen=True)
class SwitchPlan(Request[Switched | Refused]):
    """Sent to put another plan in force from the next step on. After ``Refused`` none is."""

    plan: Plan


@dataclass(frozen=True)
class Proofs(Message):
    """One for each technique in force; ``setup_seconds``: what their set-up has taken so far, in all;
    ``start_seconds``: from the process's beginning to its first step's end, set-up left out.
    ``own_seconds``: of the start, what hasten's own modules took before the script began.
    ``spared_seconds``: of the set-up, what a run takes and this process did not.
    """

    proofs: tuple[Proof, ...]
    setup_seconds: float
    start_seconds: float = 0.0
    spared_seconds: float = 0.0
    own_seconds: float = 0.0


@dataclass(frozen=True)
class ShowProofs(Request[Proofs]):
    """Sent after timed steps: did the techniques take effect?"""


@dataclass(frozen=True)
class Traced(Message):
    """The trace of all steps so far."""

    steps: tuple[StepTrace, ...]


@dataclass(frozen=True)
class TellTrace(Request[Traced]):
    """Sent by the guard, to a worker that records what it compares."""


@dataclass(frozen=True)
class Rehearsed(Message):
    """What this rank's rehearsal found."""

    findings: Findings


@dataclass(frozen=True)
class TellFindings(Request[Rehearsed]):
    """Sent to each rank of a rehearsal after its first step."""


# ---- about single steps: the guard compares them from one state with one batch
@dataclass(frozen=True)
class Failed(Message):
    """Sent instead of the answers below: why single steps cannot be compared."""

    reason: str


@dataclass(frozen=True)
class Written(Message):
    """The requested file was written."""


@dataclass(frozen=True)
class SaveState(Request[Written | Failed]):
    """Sent to the reference before a step to check: write the state it starts from."""

    state: str  # path


@dataclass(frozen=True)
class RecordStep(Request[Written | Failed]):
    """Sent to the reference after it: write the results of the step of ``optimizer`` (-1: none)."""

    made: str  # path
    optimizer: int


@dataclass(frozen=True)
class Departed(Message):
    """How far ours drifted from the reference's since the last checked step: sums by kind, and
    the names of integers that differ.
    """

    since: Mapping[str, Sums]
    counts: tuple[str, ...]


@dataclass(frozen=True)
class LoadState(Request[Departed | Failed]):
    """Sent to the others before it: load the reference's state, and its gradient for the coming step."""

    state: str  # paths
    made: str


@dataclass(frozen=True)
class Compared(Message):
    """Our step against the reference's, by parameter and by buffer; empty what could not be compared.
    ``evaluation``: if the plan lowers the precision of evaluations, how far one of the step's batch is from
    itself in full precision, relative.
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
    """The shape of every tensor in the state dicts of models and optimizers, by name."""

    shapes: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class TellShapes(Request[Shapes | Failed]):
    """Sent if a plan changes the training itself: what would the script save now?"""


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
    """The content of its JSON, made with ``codec.one_level``."""
    return {"message": type(message).__name__, **one_level(message)}


def decode(data: Any) -> Message:
    """Raises UnknownMessage if ``data`` is none."""
    try:
        return from_json(_KINDS[data["message"]], data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnknownMessage(f"{type(error).__name__}: {error}") from error
