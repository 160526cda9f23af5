"""What coordinator and worker say to each other arrives as it was sent."""

from __future__ import annotations

import json
import math
import typing

import pytest

from hasten.records import messages
from hasten.records.codec import one_level
from hasten.records.messages import Message, Request, UnknownMessage, decode, encode
from hasten.records.plan import BASELINE, Plan
from hasten.records.quality import MetricValue, RunSummary
from hasten.records.ranks import Findings, LoaderKey
from hasten.records.trace import BatchTrace, Mode, StepTrace
from hasten.records.trial import Proof

from ..bench.made_up import observation, step

SUMMARY = RunSummary((1.5, 2.0), (MetricValue("accuracy", 0.5, 1.75, 1),), (0.25,), ("bf16 is left out",))
FINDINGS = Findings(LoaderKey("Pictures", 96, 8, "RandomSampler"), refusals=("it has hooks",))
TRACE = (
    StepTrace(),
    StepTrace(1, None, (BatchTrace(2, None, ("a", "b")), BatchTrace(3, 4, ())), streams="c"),
    StepTrace(-1, ("d",), (), (Mode(True, ("1.dropout",)), Mode(False)), ((0.1, 0.2), ()), "e", (math.inf,)),
)
SUMS = [1.0, 0.5, 0.25]

MESSAGES: tuple[Message, ...] = (
    messages.Sandboxed("overlay", "", True, {"/home": "/tmp/upper"}),
    messages.ChildStarted("train.py"),
    messages.Refused("bf16", "no float layers"),
    messages.WatchingFailed("Traceback\n"),
    messages.Ended("completed", ""),
    messages.Ended("raised", "ValueError", (step(),), ("/model.py",), TRACE, observation(), SUMMARY),
    messages.StepsDone((step(), step(samples=None, losses=(1.0, 2.0))), ("/model.py",)),
    messages.TrainSteps(30),
    messages.Observed(observation()),
    messages.Observe(),
    messages.Switched(0.5),
    messages.SwitchPlan(Plan({"threads": {"count": 2}})),
    messages.SwitchPlan(BASELINE),
    messages.Proofs((Proof("bf16", True, "4 calls"),), 1.5),
    messages.ShowProofs(),
    messages.Traced(TRACE),
    messages.TellTrace(),
    messages.Rehearsed(FINDINGS),
    messages.TellFindings(),
    messages.Failed("no room"),
    messages.Written(),
    messages.SaveState("/tmp/state"),
    messages.RecordStep("/tmp/made", -1),
    messages.Departed({"parameters": SUMS}, ("step of weight",)),
    messages.LoadState("/tmp/state", "/tmp/made"),
    messages.Compared({"weight": SUMS}, {}, {"running_mean": SUMS}),
    messages.CompareStep("/tmp/made"),
    messages.Shapes({"model 0: weight": (3, 4), "model 0: scale": ()}),
    messages.TellShapes(),
)


def _named(message: Message) -> str:
    return type(message).__name__


@pytest.mark.parametrize("message", MESSAGES, ids=_named)
def test_it_arrives_as_it_was_sent(message: Message) -> None:
    back = decode(json.loads(json.dumps(encode(message), default=one_level)))
    assert back == message
    assert repr(back) == repr(message)  # equality would not tell a list from nothing, or 1 from True


def test_losses_that_are_no_numbers_arrive() -> None:
    sent = messages.StepsDone((step(losses=(math.nan, math.inf)),))
    back = decode(json.loads(json.dumps(encode(sent), default=one_level)))
    assert isinstance(back, messages.StepsDone)
    assert repr(back.steps[0].losses) == "(nan, inf)"


def test_there_is_an_example_of_each_here() -> None:
    defined = {
        kind for kind in vars(messages).values() if isinstance(kind, type) and issubclass(kind, Message)
    }
    assert {type(message) for message in MESSAGES} == defined - {Message, Request}


@pytest.mark.parametrize(
    "request_", [message for message in MESSAGES if isinstance(message, Request)], ids=_named
)
def test_each_request_says_what_answers_it(request_: Request[Message]) -> None:
    kinds = typing.get_args(request_.answer()) or (request_.answer(),)
    assert all(any(type(message) is kind for message in MESSAGES) for kind in kinds)
    assert not any(issubclass(kind, Request) for kind in kinds)


@pytest.mark.parametrize(
    "data", [None, 3, "TrainSteps", [], {}, {"message": "Fire"}, {"message": "TrainSteps"}]
)
def test_anything_else_is_told_apart(data: object) -> None:
    with pytest.raises(UnknownMessage):
        decode(data)
