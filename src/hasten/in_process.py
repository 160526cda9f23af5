"""A plan in force in a running process: ``with hasten.applied(plan):``."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from .errors import PlanError
from .inside.observing.hooks import Hooks
from .inside.observing.observer import Observer
from .inside.observing.raw_step import RawStep
from .inside.seams import Seams
from .inside.switch import Switchboard
from .inside.techniques.catalog import CATALOG
from .inside.training import NotApplicable, Training
from .machine import this_machine
from .plans.files import check_techniques, read_plan
from .records.plan import Plan, Settings
from .saying import say

Kind = TypeVar("Kind")


@contextmanager
def under(plan: str | Path | Mapping[str, Settings]) -> Iterator[None]:
    """The implementation of ``hasten.applied``."""
    wanted = _live_part(_plan_of(plan))
    seams = Seams()
    training = Training(importlib.import_module("torch"), seams, this_machine().available_bytes)
    board = Switchboard(training)

    said: set[str] = set()

    def say_once(text: str) -> None:
        if text not in said:
            said.add(text)
            _say(text)

    def root_found() -> None:
        """Try everything each time: what did not apply to one model may apply to the next."""
        board.switch(Plan())
        plan = wanted
        if training.obstacles:
            say_once(f"the plan is not applied: {'; '.join(training.obstacles)}")
            plan = Plan()
        while plan:
            try:
                board.switch(plan)
                break
            except NotApplicable as error:
                say_once(f"{board.failed} does not apply here and is left out: {error}")
                plan = plan.without(board.failed)

    def step_ended(step: RawStep) -> None:
        board.refresh()

    for optimizer in _alive(training.torch.optim.Optimizer):
        training.add_optimizer(optimizer)
    try:
        Hooks(training, Observer(step_ended), root_found).install()
        yield
        for proof in board.proofs():
            if not proof.effective:
                _say(f"{proof.technique} had no effect: {proof.evidence}")
    finally:
        board.switch(Plan())
        seams.undo_all()


def _alive(kind: type[Kind]) -> list[Kind]:
    """The instances created before us. ``type`` and not ``__class__``, which lazy objects compute."""
    found: list[Kind] = [thing for thing in gc.get_objects() if issubclass(type(thing), kind)]
    return found


def _plan_of(plan: str | Path | Mapping[str, Settings]) -> Plan:
    if isinstance(plan, (str, Path)):
        return read_plan(Path(plan)).plan
    if not isinstance(plan, Mapping):
        raise PlanError(
            f"the plan must be a file, or techniques with their settings, found a {type(plan).__name__}"
        )
    check_techniques("the plan", plan)
    return Plan.from_json(plan)


def _live_part(plan: Plan) -> Plan:
    for name in plan.techniques:
        if CATALOG[name].scope != "live":
            _say(f"{name} is left out: it must be set when a process starts, as with hasten run")
            plan = plan.without(name)
    return plan


def _say(text: str) -> None:
    say(f"hasten: {text}")
