"""A run that tries techniques in its own steps: what it takes, what it leaves, and what that may cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from hasten.inside.observing.raw_step import RawStep
from hasten.inside.run_tune import live_tune
from hasten.inside.run_tune.live_tune import LiveTune
from hasten.inside.run_tune.promising import Trying
from hasten.inside.techniques.catalog import CATALOG
from hasten.inside.training import NotApplicable
from hasten.records.facts import Facts
from hasten.records.plan import BASELINE, Plan
from hasten.records.run_tuning import RunTuning
from hasten.records.trial import Proof
from tests.bench.made_up import facts

STEP = 0.01


@dataclass
class PaperRun:
    """A run of which each step takes what the plan in force makes of it. ``tried``: the techniques that are
    worth trying, each with what it may take to set up.
    """

    effects: dict[str, float]
    tried: dict[str, float] = field(default_factory=dict)
    idle: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    left_on: tuple[str, str] | None = None
    tuning: RunTuning = field(default_factory=RunTuning)
    found: Plan = BASELINE
    plan: Plan = BASELINE
    said: list[str] = field(default_factory=list)
    seconds: float = 0.0
    steps: int = 0
    obstacles: dict[str, None] = field(default_factory=dict)
    fails_at: int = -1
    held_up: int = 0  # every so-many-eth step takes ten times as long, as others have the processor; 0: none
    alone: bool = False  # hasten watches no more
    slow_once: float = 0.0  # seconds that the next step takes besides

    def __post_init__(self) -> None:
        self.plan = self.found
        everything: Any = self
        self.tune = LiveTune(self.tuning, self.found, everything, everything, everything)

    # ---- the switchboard
    def switch(self, plan: Plan, prepare: bool = False) -> float:
        self.plan = BASELINE
        if self.refused & set(plan.techniques):
            raise NotApplicable("not here")
        self.plan = plan
        return 0.0

    def proofs(self) -> list[Proof]:
        return [Proof(name, name not in self.idle, "counted") for name in self.plan.techniques]

    # ---- the run
    def facts(self, steps: Sequence[RawStep], cycle: int) -> Facts:
        if self.fails_at == 0:
            raise RuntimeError("of ours")
        return facts()

    def adopt(self, plan: Plan) -> None:
        self.found = self.plan = plan

    def let_go(self) -> None:
        self.alone = True

    def sync(self) -> bool:
        return False

    def say(self, text: str) -> None:
        self.said.append(text)

    # ---- training
    def step(self, **more: Any) -> None:
        seconds = STEP
        for name in self.plan.techniques:
            seconds *= self.effects.get(name, 1.0)
        seconds *= 1.001 if self.steps % 2 else 0.999
        if self.held_up and self.steps % self.held_up == 0:
            seconds *= 10
        seconds, self.slow_once = seconds + self.slow_once, 0.0
        self.seconds += seconds
        self.steps += 1
        self.tune.step_ended(RawStep(seconds=seconds, forwards=1, backwards=1, **more))

    def train(self, most: int = 5000) -> PaperRun:
        """Until nothing more is tried."""
        while self.tune.active:
            assert self.steps < most
            self.step()
        return self


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is promising is what the run says."""

    def promising(found: Facts, tuning: RunTuning, plan: Plan) -> list[Trying]:
        (run,) = RUNS[-1:]
        names = (name for name in run.tried if name not in plan.techniques)
        return [Trying(CATALOG[name], [{}], run.tried[name]) for name in names]

    monkeypatch.setattr(live_tune, "promising", promising)


RUNS: list[PaperRun] = []


def run_of(effects: dict[str, float], **more: Any) -> PaperRun:
    tried = dict.fromkeys(effects, 0.0) | more.pop("setups", {})
    RUNS.append(PaperRun(effects, tried, **more))
    return RUNS[-1]


def test_it_goes_on_under_what_is_faster() -> None:
    run = run_of({"fused_optimizer": 0.8, "channels_last": 1.02, "zero_grad_to_none": 1.0}).train()
    assert run.found == run.plan == Plan({"fused_optimizer": {}})
    (said,) = run.said
    assert "trains on under fused_optimizer, about 1.25 times faster in these steps" in said
    assert "channels_last: slower" in said
    assert len(said.splitlines()) == 2


def test_gains_add_up() -> None:
    run = run_of({"fused_optimizer": 0.8, "channels_last": 0.9}).train()
    assert set(run.found.techniques) == {"fused_optimizer", "channels_last"}
    assert "1.39 times faster" in run.said[0]


def test_where_nothing_is_faster_it_trains_as_before() -> None:
    run = run_of({"fused_optimizer": 1.0, "channels_last": 1.4}).train()
    assert run.plan == BASELINE
    assert "found nothing faster: trains on as before" in run.said[0]
    assert run.alone


def test_a_run_that_found_something_or_asks_again_is_watched_on() -> None:
    assert not run_of({"fused_optimizer": 0.8}).train().alone
    assert not run_of({"fused_optimizer": 1.0}, tuning=RunTuning(again_steps=20_000)).train().alone


def test_what_has_no_effect_is_not_taken() -> None:
    run = run_of({"fused_optimizer": 0.5}, idle=frozenset({"fused_optimizer"})).train()
    assert run.plan == BASELINE
    assert "no effect" in run.said[0]


def test_what_does_not_apply_is_not_taken_and_the_rest_is_tried() -> None:
    run = run_of({"channels_last": 0.5, "fused_optimizer": 0.7}, refused=frozenset({"channels_last"})).train()
    assert run.plan == Plan({"fused_optimizer": {}})
    assert "channels_last" in run.said[0]
    assert "not here" in run.said[0]


def test_what_cannot_be_switched_off_is_not_compared_with_itself() -> None:
    """The weights stay as they are, whatever is tried after that."""
    effects = {"channels_last": 0.5, "fused_optimizer": 0.7}
    run = run_of(effects, left_on=("channels_last", "views are held")).train()
    assert run.plan == Plan({"fused_optimizer": {}})
    assert "views are held" in run.said[0]


@pytest.mark.parametrize(
    "effects", [{"channels_last": 1.25}, {"channels_last": 1.04, "fused_optimizer": 1.2}]
)
def test_what_it_loses_is_below_a_percent_of_ten_thousand_steps(effects: dict[str, float]) -> None:
    run = run_of(effects).train()
    assert run.seconds - run.steps * STEP < 100 * STEP


def test_what_is_slow_is_given_up_before_it_has_cost_too_much() -> None:
    run = run_of({"channels_last": 1.04}, tuning=RunTuning(steps=200)).train()
    assert run.seconds - run.steps * STEP < 4 * STEP
    assert "trying it could cost too much" in run.said[0]


def test_what_others_take_of_the_processor_is_not_held_against_what_is_tried() -> None:
    run = run_of({"channels_last": 1.0}, held_up=7).train()
    assert "channels_last: no gain seen" in run.said[0]
    assert "could cost too much" not in run.said[0]


def test_what_takes_long_to_set_up_is_tried_only_where_the_run_is_long_enough() -> None:
    setups = {"compile": 60.0}
    short = run_of({"compile": 0.5}, setups=setups).train()
    assert short.plan == BASELINE
    assert "not tried, because its set-up would take more than is left of 1% of the run" in short.said[0]
    assert "tried nothing" not in short.said[0]
    known = RunTuning(steps=1_000_000)  # 10,000 seconds
    assert run_of({"compile": 0.5}, setups=setups, tuning=known).train().plan == Plan({"compile": {}})


def test_its_other_settings_are_as_expensive(monkeypatch: pytest.MonkeyPatch) -> None:
    trying = Trying(CATALOG["compile"], [{}, {"mode": "b"}], 60.0)
    monkeypatch.setattr(live_tune, "promising", lambda *_: [trying])
    run = run_of({"compile": 0.5}).train()
    assert run.steps < 100
    assert run.plan == BASELINE


def test_a_first_step_that_sets_up_does_not_hide_a_gain() -> None:
    run = run_of({"fused_optimizer": 0.6})
    while run.plan == BASELINE:
        run.step()
    run.slow_once = 1.2  # seconds: more than 100 steps
    assert run.train().plan == Plan({"fused_optimizer": {}})


def test_a_first_step_that_takes_far_too_long_ends_it() -> None:
    run = run_of({"fused_optimizer": 0.6})
    while run.plan == BASELINE:
        run.step()
    run.slow_once = 3.0
    assert run.train().plan == BASELINE


def test_a_plan_that_is_in_force_stays_and_is_added_to() -> None:
    plan = Plan({"channels_last": {}})
    run = run_of({"fused_optimizer": 0.8}, found=plan).train()
    assert run.plan == plan.adding("fused_optimizer", {})


def test_models_that_come_later_end_what_is_tried_and_it_begins_anew() -> None:
    run = run_of({"fused_optimizer": 0.8})
    while run.plan == BASELINE:
        run.step()
    run.tune.parts_came()
    assert run.plan == BASELINE
    run.train()
    assert run.plan == Plan({"fused_optimizer": {}})


def test_a_script_that_ends_early_is_reported_in_a_line() -> None:
    run = run_of({"fused_optimizer": 0.8})
    for _ in range(60):
        run.step()
    run.tune.script_ended()
    assert run.said == ["the script ended while techniques were still being tried."]
    run.tune.script_ended()
    assert len(run.said) == 1


def test_an_error_of_ours_ends_the_trying_and_nothing_else() -> None:
    run = run_of({"fused_optimizer": 0.8}, fails_at=0)
    for _ in range(100):
        run.step()
    assert not run.tune.active
    assert run.plan == BASELINE
    assert "RuntimeError: of ours" in run.said[0]


def test_a_training_that_cannot_be_followed_is_left_alone() -> None:
    run = run_of({"fused_optimizer": 0.5}, obstacles={"TorchScript": None}).train()
    assert run.plan == BASELINE
    assert "nothing was tried" in run.said[0]


def test_steps_that_are_never_alike_are_not_compared() -> None:
    run = run_of({"fused_optimizer": 0.5})
    for number in range(400):
        run.step(set_up=1.0, restarts=number)
    assert not run.tune.active
    assert run.plan == BASELINE
    assert run.said == ["nothing was tried while training: no two of its steps are alike"]


# ---- asking again
def test_what_gains_no_more_is_given_up_when_it_is_asked_again() -> None:
    run = run_of({"fused_optimizer": 0.8}, tuning=RunTuning(again_steps=20_000)).train()
    assert run.plan == Plan({"fused_optimizer": {}})
    run.effects["fused_optimizer"] = 1.3
    while not run.tune.active:
        run.step()
    run.train(most=50_000)
    assert run.plan == BASELINE
    assert len(run.said) == 2


def test_what_still_gains_stays_when_it_is_asked_again() -> None:
    run = run_of({"fused_optimizer": 0.8}, tuning=RunTuning(at_once=False, again_steps=20_000))
    assert not run.tune.active
    for _ in range(20_000):
        run.step()
    assert run.tune.active
    run.train(most=50_000)
    assert run.plan == Plan({"fused_optimizer": {}})
    for _ in range(20_000):
        run.step()
    run.train(most=80_000)
    assert run.plan == Plan({"fused_optimizer": {}})
