"""A whole tune on paper, for every way it can end. On real trainings: ``test_real_tunes.py``."""

from __future__ import annotations

import json
import math
import re
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from hasten.bench.base import at_start, for_steps, without_effect
from hasten.bench.comparing.decisions import Effort
from hasten.bench.comparing.epoch_ends import EpochEnds
from hasten.bench.comparing.quiet import Quiet
from hasten.bench.comparing.statistics import interval
from hasten.bench.comparing.steps import STEPS, Rhythm
from hasten.bench.fake import ScriptedBench
from hasten.bench.observe import WatchOn
from hasten.bench.trials import Trials
from hasten.bench.workers.joint_starts import Starts
from hasten.errors import Refusal, ScriptError
from hasten.inside.techniques.base import Risk
from hasten.inside.techniques.catalog import CATALOG
from hasten.plans.files import read_plan
from hasten.records.caution import Caution
from hasten.records.comparison import LossCurve
from hasten.records.facts import Facts
from hasten.records.observation import Observation
from hasten.records.plan import BASELINE, Plan, Value
from hasten.records.run_forecast import SeenProcess
from hasten.records.trial import Proof, Trial
from hasten.records.verdict import Difference, GuardVerdict, Invariants
from hasten.report.conclusion import conclusion_words
from hasten.report.machine_readable import tune_json
from hasten.report.progress import Silent
from hasten.report.reasons import reason_words
from hasten.scripts.sources import digest_of
from hasten.scripts.workspace import find_script
from hasten.tuning import accuracy, candidates, pipeline
from hasten.tuning.bounds import Bounds
from hasten.tuning.costs import Costs
from hasten.tuning.pipeline import tune
from hasten.tuning.request import TuneRequest
from tests.bench.made_up import machine, observation, root, step, unchecked, verdict
from tests.bench.paper_epochs import outside
from tests.bench.real_workers import one_thread

PLAN_PATH = Path(".hasten/train/plan.toml")


@dataclass
class Paper:
    """What the parts of a paper tune will answer, and what they were asked."""

    effects: Mapping[str, float] = field(default_factory=dict)
    spread: float = 0.002
    watched: Observation = field(default_factory=observation)
    allowed: Callable[[Plan], bool] = lambda plan: True  # by the guard
    pair_seconds: float | None = 5.0
    late_pair_seconds: float | None = None  # of the confirmation's, where they are others
    slow_pair_seconds: float | None = None  # once the search is over, if they take longer then
    failure: Exception | None = None
    draws_otherwise: bool = False
    untouched: tuple[str, ...] = ()  # techniques that leave every loss as it was
    alone: bool = True  # whether techniques can be checked by themselves
    unseen: list[GuardVerdict] = field(default_factory=list)  # what the guard answers first
    guarded: list[tuple[Plan, bool, str, int, int]] = field(default_factory=list)
    seen_changing: list[tuple[Plan, list[str]]] = field(default_factory=list)
    confirmed: list[tuple[Plan, Effort]] = field(default_factory=list)
    outside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # parts that are not steps
    stretch_pair_seconds: float | None = None
    idle: str = ""  # has no effect in fresh processes
    breaks: str = ""  # fails in fresh processes
    slows_steps: float = 1.0  # a start that is shorter
    own_start: float | None = 0.3  # seconds that hasten takes for itself
    stretches_fail: str = ""  # by which a confirmation over whole stretches fails
    watched_on: list[WatchOn] = field(default_factory=list)
    granted: list[float] = field(default_factory=list)  # seconds for each comparison of the search
    late: Mapping[str, int] = field(default_factory=dict)
    planned_steps: int | None = None  # of the script, by its loops
    start_seconds: float = 0.0  # that the bench was told
    steps_in_all: int | None = None  # of the script, where it was watched to its end
    setup_seconds: float = 0.0  # of whatever is compared
    each_evaluated: bool = False  # whether each step has an evaluation of its own
    resting: bool = False  # no process of a comparison is left
    rested: list[bool] = field(default_factory=list)  # the same, each time the guard began

    def observe(self, trials: Trials, seconds: float, on: WatchOn) -> tuple[Observation, Rhythm]:
        self.watched_on.append(on)
        if self.failure is not None:
            raise self.failure
        rhythm = Rhythm(0, 0, 1, self.watched.steps[0].seconds, planned_steps=self.planned_steps)
        rhythm = replace(rhythm, steps_in_all=self.steps_in_all)
        if self.each_evaluated:
            rhythm = replace(rhythm, evaluations=1, unit=STEPS, alike=True)
        return self.watched, rhythm

    def guard(
        self, trials: Trials, plan: Plan, draws: bool, precision: str, seed: int, steps: int, most: float
    ) -> GuardVerdict:
        self.guarded.append((plan, draws, precision, seed, steps))
        self.rested.append(self.resting)
        if self.unseen:
            return self.unseen.pop(0)
        found = verdict(self.allowed(plan) and (draws or not self.draws_otherwise))
        if self.draws_otherwise and not draws:
            found = replace(found, invariants=Invariants((), (Difference("streams", 1),)))
        return found

    def each_alone(
        self, trials: Trials, plan: Plan, draws: bool, precision: str, seed: int, steps: int, before: int
    ) -> dict[str, GuardVerdict]:
        if not self.alone:
            return {}
        departs = {name: 0.0 if name in self.untouched else 1e-6 for name in plan.techniques}
        return {
            name: GuardVerdict("held", loss_curve=LossCurve(True, departs[name]))
            if self.allowed(plan.only({name}))
            else verdict(passed=False)
            for name in plan.techniques
        }

    def guard_change(
        self, trials: Trials, plan: Plan, changing: list[str], seed: int, steps: int
    ) -> GuardVerdict:
        self.seen_changing.append((plan, list(changing)))
        if self.unseen:
            return replace(self.unseen.pop(0), changes=tuple(changing))
        return replace(verdict(self.allowed(plan)), changes=tuple(changing))

    def bench(self, trials: Trials, rhythm: Rhythm, start_seconds: float, quiet: Quiet) -> PaperBench:
        self.start_seconds = start_seconds
        return PaperBench(self)


class PaperBench(ScriptedBench):
    """In place of ``ScriptBench``."""

    def __init__(self, paper: Paper) -> None:
        super().__init__(paper.effects, spread=paper.spread, outside=paper.outside, share=0.8)
        self._paper = paper
        self.pairs = self
        self.ends = EpochEnds(Rhythm(0, 0, 1, 0.01, planned_steps=paper.planned_steps))
        self.pair_seconds = paper.pair_seconds
        self.steps_needed = 75
        self.begins = Starts()
        self.disturbed_share = self.waited_seconds = 0.0

    def __enter__(self) -> PaperBench:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
        self._paper.granted.append(seconds)
        self._paper.resting = False
        return replace(super().compare(a, b, seconds), setup_seconds=self._paper.setup_seconds)

    def wait_for(self, shows_after: Mapping[str, int]) -> None:
        self._paper.late = shows_after

    def rest(self) -> None:
        self._paper.resting = True
        self.pair_seconds = self._paper.slow_pair_seconds or self.pair_seconds

    def setup(self, plan: Plan) -> float:
        return 0.0

    @property
    def plain_pair_seconds(self) -> float | None:
        return self.pair_seconds

    def for_steps(self, plan: Plan) -> Plan:
        return for_steps(plan)

    def stretch_pair(self, plan: Plan) -> float | None:
        return self._paper.stretch_pair_seconds if set(plan.techniques) & set(self._paper.outside) else None

    def confirm(self, plan: Plan, effort: Effort) -> Trial:
        self._paper.confirmed.append((plan, effort))
        if self._paper.late_pair_seconds is not None:
            self.pair_seconds = self._paper.late_pair_seconds
        trial = replace(super().compare(BASELINE, plan, 0.0), claims=effort.claims)
        trial = self._of_starts(trial, plan) if at_start(BASELINE, plan.without("malloc")) else trial
        idle = self._paper.idle
        if idle in plan.techniques:
            proofs = tuple(Proof(name, name != idle, "counted") for name in plan.techniques)
            return replace(trial, ratio=None, proofs=proofs, failure=without_effect(proofs))
        if self._paper.breaks in plan.techniques:
            return replace(trial, ratio=None, failure="the script's process was killed")
        if trial.parts and self._paper.stretches_fail:
            return replace(trial, ratio=None, failure=self._paper.stretches_fail)
        return trial

    def _of_starts(self, trial: Trial, plan: Plan) -> Trial:
        """The effects on starts are on these: plain, 2 s until a step of 10 ms. malloc's is on steps, and
        what ``slows_steps`` is, too.
        """
        steps = self.factor(plan.only({"malloc"})) * self._paper.slows_steps
        start = 2.0 * self.factor(plan.without("malloc"))
        own = 0.1
        drift = [math.exp(self._spread * (1 if k % 2 else -1)) for k in range(6)]
        plain = tuple(SeenProcess(2.0 + own, 0.01, own_seconds=own) for _ in drift)
        planned = tuple(SeenProcess(start + own, 0.01 * steps * one, own_seconds=own) for one in drift)
        logs = tuple(math.log(steps * one) for one in drift)
        return replace(
            trial,
            method="pairs",
            log_ratios=logs,
            ratio=interval(logs, "pairs"),
            processes_a=plain,
            processes_b=planned,
        )


@pytest.fixture
def paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paper:
    """A tune in an empty folder with a script in it, all of whose parts are of paper."""
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print('training')")
    return on_paper(monkeypatch)


def on_paper(monkeypatch: pytest.MonkeyPatch) -> Paper:
    """In place of a tune's parts."""
    made = Paper()
    monkeypatch.setattr(pipeline, "this_machine", machine)
    monkeypatch.setattr(pipeline, "idle_vitals", lambda: ())  # which takes half a second
    monkeypatch.setattr(pipeline, "before_tuning", lambda *_: [])
    monkeypatch.setattr(pipeline, "while_tuning", lambda *_: [])
    monkeypatch.setattr(pipeline, "observe", made.observe)
    monkeypatch.setattr(pipeline, "own_start", lambda: made.own_start)
    monkeypatch.setattr(pipeline, "ScriptBench", made.bench)
    monkeypatch.setattr(accuracy, "guard", made.guard)
    monkeypatch.setattr(accuracy, "each_alone", made.each_alone)
    monkeypatch.setattr(accuracy, "guard_change", made.guard_change)
    return made


def request(
    budget: float = 150.0,
    risk: Risk = "close",
    seed: int = 7,
    script: str = "train.py",
    arguments: Sequence[str] = (),
    fresh: bool = False,
) -> TuneRequest:
    found = find_script(script, list(arguments))
    return TuneRequest(found, one_thread(), budget, risk, seed, allow_writes=False, fresh=fresh)


def journal() -> tuple[list[str], list[tuple[str, str]]]:
    """The states of all tunes, and (purpose, b) of all trials."""
    with closing(sqlite3.connect(".hasten/journal.db")) as database:
        states = [state for (state,) in database.execute("SELECT state FROM tunes ORDER BY id")]
        return states, database.execute("SELECT purpose, b FROM trials ORDER BY id").fetchall()


def plan_of(*names: str) -> Plan:
    return Plan({name: {} for name in names})


def test_a_gain_is_found_guarded_confirmed_and_written(paper: Paper) -> None:
    paper.effects = {"dataset_in_ram": 0.5, "malloc": 0.9}
    result = tune(request(), Silent())
    found = plan_of("malloc", "dataset_in_ram")
    assert result.outcome == "gain"
    assert result.plan == found
    assert result.speedup is not None
    assert result.speedup.value == pytest.approx(1 / 0.45, rel=1e-3)
    assert result.tune_seconds > 0
    assert [plan for plan, *_ in paper.guarded] == [found]
    assert [plan for plan, _ in paper.confirmed] == [found]
    assert read_plan(PLAN_PATH).plan == found
    states, trials = journal()
    assert states == ["finished"]
    assert trials[-1] == ("confirm", found.key)
    assert {purpose for purpose, _ in trials[:-1]} == {"search"}
    assert len(trials) == len(result.tried) + 1


@pytest.mark.parametrize(("planned", "pays"), [(None, True), (1001, True), (999, False)])
def test_what_cannot_pay_in_the_steps_that_the_loops_say_is_not_in_the_plan(
    paper: Paper, planned: int | None, pays: bool
) -> None:
    paper.effects, paper.setup_seconds, paper.planned_steps = {"dataset_in_ram": 0.5}, 10.0, planned
    assert ("dataset_in_ram" in tune(request(), Silent()).plan.techniques) is pays


@pytest.mark.parametrize(("most", "claimed"), [(0.0, False), (600.0, True)])
def test_what_other_programs_slow_down_in_the_end_makes_the_budget_grow(
    paper: Paper, most: float, claimed: bool
) -> None:
    """A plan was 2.7 times as fast, then pairs of processes took 3.3 times as long: nothing was claimed."""
    paper.effects, paper.slow_pair_seconds = {"dataset_in_ram": 0.5}, 60.0
    result = tune(replace(request(), budget_most=most), Silent())
    assert (result.outcome == "gain") is claimed
    assert bool(result.plan) is claimed


def test_the_script_is_watched_on_for_a_twentieth_of_the_budget(paper: Paper) -> None:
    wanted = request()
    tune(wanted, Silent())
    assert paper.watched_on == [WatchOn(pytest.approx(0.05 * wanted.budget), unknown=True)]  # type: ignore[arg-type]


def test_the_result_is_json(paper: Paper) -> None:
    paper.effects = {"dataset_in_ram": 0.5}
    content = json.loads(json.dumps(tune_json(tune(request(), Silent())), allow_nan=False))
    assert content["outcome"] == "gain"
    assert content["plan"] == {"dataset_in_ram": {}}
    assert content["speedup"]["low"] <= content["speedup"]["value"] <= content["speedup"]["high"]


def test_what_a_step_takes_by_threads_is_told(paper: Paper) -> None:
    paper.effects = {"threads": 1.4}
    curve = tune(request(), Silent()).threads
    assert curve is not None
    assert [(point.threads, round(ratio.value, 2)) for point, ratio in curve.measured] == [
        *((1, 1.4), (2, 1.4), (4, 1.0)),
    ]
    assert curve.pays_up_to == 4


def test_a_process_takes_as_long_to_its_steps_as_what_falls_into_its_first(paper: Paper) -> None:
    paper.watched = observation(start_seconds=2.0, settling_seconds=7.0)
    tune(request(), Silent())
    assert paper.start_seconds == 9.0


@pytest.mark.parametrize(("pair_seconds", "missing"), [(0.01, []), (1e9, [2])])
def test_a_point_that_the_search_leaves_out_is_measured_where_time_is_left(
    paper: Paper, monkeypatch: pytest.MonkeyPatch, pair_seconds: float, missing: list[int]
) -> None:
    paper.late_pair_seconds = pair_seconds
    monkeypatch.setattr(pipeline, "this_machine", lambda: machine(logical_cpus=8, physical_cores=8))
    paper.watched = observation(threads=8)
    paper.effects = {"threads": 1.4, "bf16": 0.5}
    result = tune(request(), Silent())
    assert {row.settings["count"] for row in result.tried if row.technique == "threads"} == {4, 1}
    assert result.threads is not None
    assert [point.threads for point in result.threads.points] == [1, 2, 4, 8]
    assert [point.threads for point in result.threads.missing] == missing


def test_the_order_follows_the_causes(paper: Paper) -> None:
    shares = {"optimizer": 0.9, "forward": 0.1}
    paper.watched = observation(steps=tuple(step(shares=shares) for _ in range(30)))
    result = tune(request(), Silent())
    assert result.causes[0].name == "optimizer"
    assert result.tried[0].technique == "fused_optimizer"


def test_without_a_winner_there_is_nothing_to_confirm(paper: Paper) -> None:
    result = tune(request(), Silent())
    assert result.outcome == "no-gain"
    assert conclusion_words(result).startswith("nothing tried is faster. Cannot tell under 2%: ")
    assert not paper.guarded
    assert not paper.confirmed
    assert read_plan(PLAN_PATH).plan == BASELINE
    assert journal()[0] == ["finished"]


def test_what_is_not_confirmed_is_not_claimed(paper: Paper, monkeypatch: pytest.MonkeyPatch) -> None:
    """What won in the search turns out to be as slow as the baseline in fresh processes."""
    paper.effects = {"dataset_in_ram": 0.5}

    def confirm(bench: PaperBench, plan: Plan, effort: Effort) -> Trial:
        return ScriptedBench({}).compare(BASELINE, plan, 0.0)

    monkeypatch.setattr(PaperBench, "confirm", confirm)
    result = tune(request(), Silent())
    assert result.outcome == "no-gain"
    assert "within the noise" in conclusion_words(result)
    assert result.speedup is None
    assert read_plan(PLAN_PATH).plan == BASELINE


EFFECTS = {"dataset_in_ram": 0.5, "bf16": 0.7, "malloc": 0.9}


@pytest.mark.parametrize("culprit", EFFECTS)
def test_what_departs_by_itself_goes_and_nothing_else(paper: Paper, culprit: str) -> None:
    paper.effects = EFFECTS
    paper.allowed = lambda plan: culprit not in plan.techniques
    result = tune(request(), Silent())
    assert set(result.plan.techniques) == EFFECTS.keys() - {culprit}
    assert [plan for plan, *_ in paper.guarded][1:] == [result.plan]
    assert [plan for plan, _ in paper.confirmed] == [result.plan]
    (row,) = [row for row in result.tried if row.method == "guard"]
    assert (row.technique, row.kept) == (culprit, False)
    assert reason_words(row.reason).startswith(
        "the guard stopped it: the loss differs from the baseline's by 50.00%"
    )


@pytest.mark.parametrize(
    ("alone", "untouched", "goes"),
    [
        (True, (), "bf16"),  # the riskiest
        (True, ("bf16",), "dataset_in_ram"),  # what changes no loss is never to blame
        (True, ("bf16", "dataset_in_ram"), "bf16"),
        (False, ("bf16",), "bf16"),  # which nobody could see
    ],
)
def test_where_all_hold_alone_one_of_those_goes_that_change_a_loss(
    paper: Paper, alone: bool, untouched: tuple[str, ...], goes: str
) -> None:
    paper.effects = {"dataset_in_ram": 0.5, "bf16": 0.7}
    paper.allowed = lambda plan: len(plan.techniques) < 2
    paper.alone, paper.untouched = alone, untouched
    result = tune(request(), Silent())
    (row,) = [row for row in result.tried if row.method == "guard"]
    assert row.technique == goes
    assert len(result.plan.techniques) == 1


@pytest.mark.parametrize(
    ("what", "risk", "judged"),
    [
        ("streams", "close", [False, True]),
        ("batches", "draws", [False, True]),
        ("streams", "exact", [False]),
        ("rates", "close", [False]),
    ],
)
def test_a_training_whose_draws_noise_changes_is_compared_as_one_with_different_draws(
    paper: Paper, what: str, risk: Risk, judged: list[bool]
) -> None:
    """A detector draws from its proposals, and rounding changes which ones these are."""
    paper.effects = {"fused_optimizer": 0.5}
    paper.unseen = [replace(unchecked("unrepeatable"), unsteady=(Difference(what, 2),))]
    result = tune(request(risk=risk), Silent())
    assert [draws for _, draws, *_ in paper.guarded] == judged
    assert result.outcome == ("gain" if len(judged) > 1 else "not-checked")


def test_no_process_of_the_search_takes_memory_while_accuracy_is_checked(paper: Paper) -> None:
    paper.effects = {"bf16": 0.7}
    assert tune(request(risk="close"), Silent()).outcome == "gain"
    assert paper.rested == [True]


@pytest.mark.parametrize(("risk", "judged"), [("close", [False, True]), ("exact", [False])])
def test_a_plan_that_draws_otherwise_is_judged_as_such_where_that_may_be(
    paper: Paper, risk: Risk, judged: list[bool]
) -> None:
    paper.effects = {"fused_optimizer": 0.5}
    paper.draws_otherwise = True
    result = tune(request(risk=risk), Silent())
    assert [draws for _, draws, *_ in paper.guarded] == judged
    assert (result.outcome == "gain") == (risk == "close")


def test_where_the_guard_stops_everything_nothing_is_confirmed(paper: Paper) -> None:
    paper.effects = {"dataset_in_ram": 0.5, "bf16": 0.7}
    paper.allowed = lambda plan: False
    result = tune(request(), Silent())
    assert (result.outcome, conclusion_words(result)) == ("no-gain", "what was faster did not keep accuracy")
    assert result.guard is not None
    assert not result.guard.passed
    assert paper.confirmed == []
    assert read_plan(PLAN_PATH).plan == BASELINE


@pytest.mark.attack("truth")
@pytest.mark.parametrize("risk", ["close", "training"])
def test_what_only_starts_sooner_is_not_confirmed_where_the_guard_stopped_the_rest(
    paper: Paper, risk: Risk
) -> None:
    """Over steps nothing would be seen of it."""
    paper.effects = {"bf16": 0.7, "lazy_dynamo": 0.5} if risk == "close" else START_AND_BATCHES
    paper.allowed = lambda plan: set(plan.techniques) == {"lazy_dynamo"}
    result = tune(request(risk=risk, budget=300.0), Silent())
    stopped = {row.technique for row in result.tried if row.method == "guard"}
    assert stopped, "lazy_dynamo and something else were found"
    assert "lazy_dynamo" in {row.technique for row in result.tried if row.kept}
    assert (result.outcome, conclusion_words(result)) == ("no-gain", "what was faster did not keep accuracy")
    assert (result.plan, paper.confirmed) == (BASELINE, [])


START_AND_BATCHES = {"batch_size": 0.5, "lazy_dynamo": 0.5}


@pytest.mark.parametrize(
    ("kept", "dropout", "draws", "precision"),
    [
        ("fused_optimizer", False, False, "float32"),
        ("bf16", False, False, "bfloat16"),
        ("channels_last", False, False, "float32"),
        ("channels_last", True, False, "float32"),
    ],
)
def test_the_guard_is_told_what_the_plan_may_do(
    paper: Paper, kept: str, dropout: bool, draws: bool, precision: str
) -> None:
    paper.effects = {kept: 0.5}
    paper.watched = observation(roots=(root(dropout=dropout),))
    tune(request(seed=7), Silent())
    ((plan, *told, steps),) = paper.guarded
    assert plan == plan_of(kept)
    assert told == [draws, precision, 7]
    assert steps > 20


def test_the_risk_bounds_what_is_tried(paper: Paper) -> None:
    paper.effects = {"bf16": 0.1}
    result = tune(request(risk="exact"), Silent())
    assert result.outcome == "no-gain"
    assert "bf16" not in {row.technique for row in result.tried}
    assert "bf16" in {row.technique for row in result.refused}


BATCHES: dict[str, Value] = {"factor": 2, "rate": "linear"}


def test_what_changes_the_training_is_tried_only_where_that_was_asked_for(paper: Paper) -> None:
    paper.effects = {"batch_size": 0.5, "prune": 0.5}
    result = tune(request(risk="close"), Silent())
    assert {"batch_size", "prune"} <= {row.technique for row in result.refused}
    assert result.outcome == "no-gain"
    assert paper.seen_changing == []


def test_what_changes_the_training_is_guarded_apart_and_said_not_to_be_judged(paper: Paper) -> None:
    paper.effects = {"dataset_in_ram": 0.5, "batch_size": 0.5}
    result = tune(request(risk="training", budget=300.0), Silent())
    whole = plan_of("dataset_in_ram").adding("batch_size", BATCHES)
    assert result.plan == whole
    assert [plan for plan, *_ in paper.guarded] == [plan_of("dataset_in_ram")]
    assert paper.seen_changing == [(whole, ["batch_size"])]
    assert result.guard is not None
    assert result.guard.changes == ("batch_size",)
    assert conclusion_words(result).endswith("was not checked: hasten verify does that")
    assert "hasten verify" in read_plan(PLAN_PATH).measured["quality"]


def test_what_breaks_the_training_goes_and_the_rest_keeps_its_verdict(paper: Paper) -> None:
    paper.effects = {"dataset_in_ram": 0.5, "batch_size": 0.5}
    paper.allowed = lambda plan: "batch_size" not in plan.techniques
    result = tune(request(risk="training", budget=300.0), Silent())
    assert result.plan == plan_of("dataset_in_ram")
    assert result.guard is not None
    assert (result.guard.passed, result.guard.changes) == (True, ())
    (row,) = [row for row in result.tried if row.method == "guard"]
    assert (row.technique, row.kept) == ("batch_size", False)
    assert "quality" not in read_plan(PLAN_PATH).measured


def test_where_nothing_else_is_left_the_verdict_is_that_of_what_went(paper: Paper) -> None:
    paper.effects = {"batch_size": 0.5}
    paper.allowed = lambda plan: False
    result = tune(request(risk="training", budget=300.0), Silent())
    assert (result.outcome, conclusion_words(result)) == ("no-gain", "what was faster did not keep accuracy")
    assert paper.guarded == []
    assert paper.confirmed == []


@pytest.fixture
def quick_eval(paper: Paper, monkeypatch: pytest.MonkeyPatch) -> None:
    """A technique that makes evaluation shorter, and nothing else."""
    monkeypatch.setitem(CATALOG, "quick_eval", outside("quick_eval", "evaluation"))
    paper.effects, paper.outside = {"quick_eval": 0.5}, {"quick_eval": ("evaluation",)}


@pytest.mark.attack("truth")
@pytest.mark.usefixtures("quick_eval")
def test_a_plan_that_only_evaluates_faster_is_checked_confirmed_and_written(paper: Paper) -> None:
    result = tune(request(), Silent())
    plan = plan_of("quick_eval")
    assert (result.outcome, result.plan, result.parts) == ("gain", plan, ("evaluation",))
    assert result.speedup is not None
    assert result.speedup.value == pytest.approx(2.0)
    assert [guarded for guarded, *_ in paper.guarded] == [plan]
    assert [confirmed for confirmed, _ in paper.confirmed] == [plan]
    saved = read_plan(PLAN_PATH)
    assert saved.plan == plan
    assert saved.measured["parts"] == ["evaluation"]


@pytest.mark.usefixtures("quick_eval")
def test_evaluations_of_every_step_are_tried_as_steps_are(
    paper: Paper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is looked for, and what else makes steps faster is not held to be of less weight for them."""
    benches, told = list[PaperBench](), list[set[str]]()

    def bench(*_: object) -> PaperBench:
        benches.append(PaperBench(paper))
        return benches[-1]

    class Seeing(Bounds):
        @classmethod
        def seen(cls, facts: Facts, within: AbstractSet[str] = frozenset()) -> Bounds:
            told.append(set(within))
            return Bounds.seen(facts, within)

    monkeypatch.setattr(pipeline, "ScriptBench", bench)
    monkeypatch.setattr(pipeline, "Bounds", Seeing)
    monkeypatch.setattr(candidates, "Bounds", Seeing)
    for paper.each_evaluated in (False, True):
        assert "quick_eval" in tune(request(fresh=True), Silent()).plan.techniques
        assert bool(benches[-1].sought) is not paper.each_evaluated
    assert told == [set(), set(), {"evaluation"}, {"evaluation"}]


@pytest.mark.attack("truth")
@pytest.mark.usefixtures("quick_eval")
def test_what_it_has_for_steps_besides_is_confirmed_by_itself_first(paper: Paper) -> None:
    paper.effects = {**paper.effects, "fused_optimizer": 0.93}
    paper.stretch_pair_seconds = 20.0
    result = tune(request(600.0), Silent())
    steps, whole = plan_of("fused_optimizer"), plan_of("fused_optimizer", "quick_eval")
    assert (result.outcome, result.plan, result.parts) == ("gain", whole, ("evaluation",))
    assert [(plan, effort.claims) for plan, effort in paper.confirmed] == [(steps, 2), (whole, 1)]
    assert paper.confirmed[0][1].pairs == 10
    assert [guarded for guarded, *_ in paper.guarded] == [whole]


@pytest.mark.attack("truth")
@pytest.mark.usefixtures("quick_eval")
def test_a_gain_in_steps_is_claimed_where_the_whole_is_not_confirmed(paper: Paper) -> None:
    paper.effects = {**paper.effects, "fused_optimizer": 0.93}
    paper.stretch_pair_seconds, paper.stretches_fail = 20.0, "it evaluates less often"
    result = tune(request(600.0), Silent())
    steps = plan_of("fused_optimizer")
    assert (result.outcome, result.plan, result.parts) == ("gain", steps, ())
    assert result.speedup is not None
    assert result.speedup.value == pytest.approx(1 / 0.93)
    (row,) = [row for row in result.tried if row.reason.decision == "left out"]
    assert row.technique == "quick_eval"
    assert "it evaluates less often" in reason_words(row.reason)
    assert read_plan(PLAN_PATH).plan == steps


@pytest.mark.attack("truth")
@pytest.mark.parametrize("idle", ["quick_eval", "fused_optimizer"])
@pytest.mark.usefixtures("quick_eval")
def test_what_has_no_effect_in_fresh_processes_leaves_the_rest_to_be_confirmed(
    paper: Paper, idle: str
) -> None:
    paper.effects, paper.idle = {**paper.effects, "fused_optimizer": 0.93}, idle
    (rest,) = {"quick_eval", "fused_optimizer"} - {idle}
    result = tune(request(90.0), Silent())
    assert (result.outcome, result.plan) == ("gain", plan_of(rest))
    (row,) = [row for row in result.tried if row.reason.decision == "left out"]
    assert row.technique == idle
    assert f"{idle} had no effect (counted)" in reason_words(row.reason)
    assert read_plan(PLAN_PATH).plan == plan_of(rest)


@pytest.mark.attack("truth")
def test_a_plan_that_fails_when_it_is_confirmed_leaves_the_next_best(paper: Paper) -> None:
    """Which is guarded and confirmed by itself; the older plan stays where that fails, too."""
    paper.effects = {"dataset_in_ram": 0.5, "bf16": 0.7}
    tune(request(), Silent())
    found = list(read_plan(PLAN_PATH).plan.techniques)
    guards, last = len(paper.guarded), found[-1]
    paper.breaks = last
    result = tune(request(fresh=True), Silent())
    assert result.outcome == "gain"
    assert list(result.plan.techniques) == found[:-1]
    assert len(paper.guarded) > guards + 1
    (row,) = [row for row in result.tried if row.reason.decision == "left out"]
    assert reason_words(row.reason) == "left out: the plan with it failed: the script's process was killed"
    assert row.technique == last


def test_where_all_of_a_plan_fails_nothing_is_claimed(paper: Paper) -> None:
    paper.effects, paper.breaks = {"dataset_in_ram": 0.5}, "dataset_in_ram"
    result = tune(request(), Silent())
    assert "dataset_in_ram" not in result.plan.techniques
    said = [conclusion_words(result), *(reason_words(row.reason) for row in result.tried)]
    assert "the script's process was killed" in " ".join(said)


@pytest.mark.usefixtures("quick_eval")
def test_where_whole_stretches_take_long_fewer_pairs_confirm_it(paper: Paper) -> None:
    paper.stretch_pair_seconds = 20.0
    tune(request(), Silent())
    ((_, effort),) = paper.confirmed
    assert effort.pairs == 7


@pytest.mark.usefixtures("quick_eval")
def test_what_could_not_be_confirmed_in_time_is_not_begun(paper: Paper) -> None:
    paper.stretch_pair_seconds = 60.0
    result = tune(request(), Silent())
    assert (result.outcome, result.plan) == ("no-gain", BASELINE)
    (why,) = [row.reasons[0] for row in result.refused if row.technique == "quick_eval"]
    assert why.code == "no time for stretches"
    assert why.budget is not None
    assert why.budget > 250


@pytest.mark.parametrize(("pair_seconds", "pairs"), [(13.0, 10), (1e-3, 10), (18.0, 8), (None, 10)])
def test_pairs_are_fixed_by_the_time_that_is_left(
    paper: Paper, pair_seconds: float | None, pairs: int
) -> None:
    paper.effects, paper.pair_seconds = {"dataset_in_ram": 0.5}, pair_seconds
    tune(request(budget=150.0), Silent())
    assert [effort.pairs for _, effort in paper.confirmed] == [pairs]


def test_the_search_leaves_what_guard_and_confirmation_need(paper: Paper) -> None:
    paper.pair_seconds = None
    tune(request(budget=150.0), Silent())
    reserve = Costs.estimate(paper.watched, PaperBench(paper).steps_needed, 150.0).reserve
    assert reserve > 20
    assert max(paper.granted) == pytest.approx(150.0 - reserve, abs=3.0)


def slow(paper: Paper) -> None:
    paper.watched = observation(steps=tuple(step(3.0) for _ in range(30)))
    paper.effects = {"dataset_in_ram": 0.5}


def test_a_script_too_slow_for_the_budget_is_refused_with_one_that_would_do(paper: Paper) -> None:
    slow(paper)
    with pytest.raises(
        Refusal, match=r"train.py takes .* to its first step and 3 s a step.*the budget is 150 s: try"
    ) as refusal:
        tune(request(budget=150.0), Silent())
    assert journal() == (["failed"], [])
    assert not PLAN_PATH.exists()
    advice = re.search(r"--budget (\d+)", str(refusal.value))
    assert advice is not None
    assert tune(request(budget=float(advice[1])), Silent()).outcome == "gain"
    assert journal()[0] == ["failed", "finished"]


@pytest.mark.parametrize(
    ("length", "planned", "said"),
    [(12, None, ""), (20, 12, None), (None, 12, ", as the loops say that it is in"), (20, 20, None)],
)
def test_a_script_with_too_few_steps_to_check_accuracy_is_refused_before_it_takes_minutes(
    paper: Paper, length: int | None, planned: int | None, said: str | None
) -> None:
    paper.effects, paper.steps_in_all, paper.planned_steps = {"dataset_in_ram": 0.5}, length, planned
    if said is None:
        assert tune(request(), Silent()).outcome == "gain"
        return
    words = (
        f"train.py cannot be tuned: it ends after 12 training steps{said}, and accuracy is checked over at "
    )
    with pytest.raises(Refusal, match=f"{words}least 20. Give it more") as refused:
        tune(request(), Silent())
    assert ("name a longer --budget" in str(refused.value)) is (length is None)
    assert (paper.guarded, paper.confirmed) == ([], [])


def test_a_script_that_fails_leaves_the_older_plan_alone(paper: Paper) -> None:
    paper.effects = {"dataset_in_ram": 0.5}
    tune(request(), Silent())
    paper.failure = ScriptError("train.py raised an error of its own")
    with pytest.raises(ScriptError):
        tune(request(), Silent())
    assert journal()[0] == ["finished", "failed"]
    assert read_plan(PLAN_PATH).plan == plan_of("dataset_in_ram")


# ---- accuracy that could not be checked
@pytest.mark.attack("truth")
@pytest.mark.parametrize("why_not", ["killed", "ended", "script"])
def test_what_may_be_chance_is_checked_once_more(paper: Paper, why_not: str) -> None:
    paper.effects, paper.unseen = {"dataset_in_ram": 0.5, "bf16": 0.7}, [unchecked(why_not)]
    result = tune(request(), Silent())
    assert result.outcome == "gain"
    assert len(paper.guarded) == 2
    assert paper.guarded[0] == paper.guarded[1]
    assert [row for row in result.tried if row.method == "guard"] == []


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("why_not", "times"),
    [("killed", 2), ("ended", 2), ("script", 2), ("silent", 1), ("short", 1), ("unrepeatable", 1),
     ("no losses", 1), ("state", 1)],
)  # fmt: skip
def test_what_could_not_be_checked_is_not_claimed_and_nothing_is_blamed(
    paper: Paper, why_not: str, times: int
) -> None:
    """No technique is dropped for it, nothing is confirmed, and the older plan stays as it is."""
    paper.effects = {"dataset_in_ram": 0.5}
    tune(request(), Silent())
    older = PLAN_PATH.read_text()
    paper.guarded, paper.confirmed = [], []
    paper.effects, paper.unseen = {"bf16": 0.5, "malloc": 0.9}, [unchecked(why_not)] * 5
    result = tune(request(fresh=True), Silent())
    assert result.outcome == "not-checked"
    what = "single steps could not be compared: " if why_not == "state" else ""
    assert conclusion_words(result) == f"accuracy could not be checked: {what}the script's process was killed"
    assert (result.plan, result.speedup, result.ratio) == (BASELINE, None, None)
    assert len(paper.guarded) == times
    assert paper.confirmed == []
    assert [row for row in result.tried if row.method == "guard"] == []
    assert PLAN_PATH.read_text() == older
    assert journal()[0] == ["finished", "finished"]
    json.dumps(tune_json(result), allow_nan=False)


@pytest.mark.attack("truth")
def test_a_technique_that_says_itself_that_it_does_not_apply_goes(paper: Paper) -> None:
    """It, and not the riskiest."""
    paper.effects = {"dataset_in_ram": 0.5, "bf16": 0.7, "malloc": 0.9}
    paper.unseen = [unchecked("refused", "malloc: not here", refused="malloc")]
    result = tune(request(), Silent())
    assert result.plan == plan_of("dataset_in_ram").adding("bf16", {})
    (row,) = [row for row in result.tried if row.method == "guard"]
    assert (row.technique, row.kept) == ("malloc", False)
    assert reason_words(row.reason) == "it did not apply in the accuracy check: malloc: not here"


@pytest.mark.attack("truth")
def test_a_training_that_does_not_bear_the_rounding_is_checked_without_what_lowers_it(paper: Paper) -> None:
    """A Gaussian process met a matrix that was no longer positive definite."""
    paper.effects = {"dataset_in_ram": 0.5, "bf16": 0.7, "malloc": 0.9}
    paper.unseen = [unchecked("noise", "")]
    result = tune(request(), Silent())
    assert result.outcome == "gain"
    assert set(result.plan.techniques) == {"dataset_in_ram", "malloc"}
    (row,) = [row for row in result.tried if row.method == "guard"]
    assert (row.technique, row.kept) == ("bf16", False)
    assert "accuracy could not be checked: with noise the size of" in reason_words(row.reason)


@pytest.mark.parametrize(
    ("most", "first", "claimed"),
    [
        pytest.param(0.0, 140.0, False, id="a budget that somebody named"),
        pytest.param(600.0, 170.0, True, id="it may grow"),
        pytest.param(600.0, 10.0, True, id="it need not"),
    ],
)
def test_what_a_long_check_leaves_is_checked_and_confirmed_where_the_budget_may_grow(
    paper: Paper, monkeypatch: pytest.MonkeyPatch, most: float, first: float, claimed: bool
) -> None:
    """A siamese network did not bear bfloat16: the rest of the plan had 72 s left and needed 133."""
    paper.effects = {"dataset_in_ram": 0.5, "bf16": 0.7, "malloc": 0.9}
    paper.unseen = [unchecked("noise", "")]
    late, usual = [0.0], paper.guard
    told: list[float] = []

    def slow_guard(*how: Any) -> GuardVerdict:
        late[0] += 10.0 if late[0] else first
        return usual(*how)

    class Telling(Silent):
        def grown(self, budget: float, nothing_found: bool = False) -> None:
            told.append(budget)

    monkeypatch.setattr(accuracy, "guard", slow_guard)
    result = tune(replace(request(), budget_most=most), Telling(), lambda: time.monotonic() + late[0])
    assert (result.outcome == "gain") is claimed
    assert set(result.plan.techniques) == ({"dataset_in_ram", "malloc"} if claimed else set())
    assert (max(told, default=0.0) > 180) is (claimed and first > 100), "it has 180 s for the search"


@pytest.mark.attack("truth")
@pytest.mark.parametrize("why_not", ["killed", "short"])
def test_what_changes_the_training_and_could_not_be_checked_leaves_the_rest_its_verdict(
    paper: Paper, monkeypatch: pytest.MonkeyPatch, why_not: str
) -> None:
    paper.effects = {"dataset_in_ram": 0.5, "batch_size": 0.5}
    monkeypatch.setattr(accuracy, "guard_change", lambda *_: unchecked(why_not, "out of memory"))
    result = tune(request(risk="training", budget=300.0), Silent())
    assert (result.outcome, result.plan) == ("gain", plan_of("dataset_in_ram"))
    assert result.guard is not None
    assert (result.guard.accuracy, result.guard.changes) == ("held", ())
    (row,) = [row for row in result.tried if row.method == "guard"]
    assert (row.technique, row.kept) == ("batch_size", False)
    assert reason_words(row.reason) == "accuracy could not be checked: out of memory"


@pytest.mark.attack("truth")
def test_where_only_what_changes_the_training_is_left_and_unchecked_nothing_is_claimed(paper: Paper) -> None:
    paper.effects, paper.unseen = {"batch_size": 0.5}, [unchecked("killed")] * 2
    result = tune(request(risk="training", budget=300.0), Silent())
    assert (result.outcome, result.plan, paper.confirmed) == ("not-checked", BASELINE, [])
    assert not PLAN_PATH.exists()


# ---- a script that is edited meanwhile
def edited(name: str) -> None:
    Path(name).write_text("print('another training')")


@pytest.fixture
def importing(paper: Paper, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script imports a module, as a worker tells it at its first step."""
    Path("losses.py").write_text("loss = 'mean'")
    usual = paper.observe

    def observe(trials: Trials, seconds: float, on: WatchOn) -> tuple[Observation, Rhythm]:
        assert trials.sources is not None
        trials.sources.imported([str(Path("losses.py").resolve())])
        return usual(trials, seconds, on)

    monkeypatch.setattr(pipeline, "observe", observe)


@pytest.mark.attack("truth")
@pytest.mark.usefixtures("importing")
@pytest.mark.parametrize("name", ["train.py", "losses.py"])
@pytest.mark.parametrize("during", ["observe", "compare", "guard", "confirm"])
def test_a_script_edited_meanwhile_is_not_certified(
    paper: Paper, monkeypatch: pytest.MonkeyPatch, name: str, during: str
) -> None:
    """Nothing is claimed, in whatever part it happened, and the older plan stays."""
    paper.effects = {"dataset_in_ram": 0.5}
    tune(request(), Silent())
    older = PLAN_PATH.read_text()
    paper.effects = {"malloc": 0.5}
    owners: dict[str, Any] = {"observe": pipeline, "guard": accuracy}
    owner = owners.get(during, PaperBench)
    usual = getattr(owner, during)

    def editing(*told: Any, **more: Any) -> Any:
        edited(name)
        return usual(*told, **more)

    monkeypatch.setattr(owner, during, editing)
    with pytest.raises(
        Refusal, match=rf"^{name} changed while .* was tuned: nothing is claimed; start again"
    ):
        tune(request(fresh=True), Silent())
    assert PLAN_PATH.read_text() == older
    assert journal()[0] == ["finished", "failed"]


@pytest.mark.attack("truth")
def test_a_script_that_fails_because_it_was_edited_is_told_as_edited(
    paper: Paper, monkeypatch: pytest.MonkeyPatch
) -> None:
    def observe(trials: Trials, seconds: float, on: WatchOn) -> None:
        edited("train.py")
        raise ScriptError("train.py raised an error of its own: SyntaxError")

    monkeypatch.setattr(pipeline, "observe", observe)
    with pytest.raises(Refusal, match=r"^train\.py changed while it was tuned"):
        tune(request(), Silent())
    assert not PLAN_PATH.exists()


@pytest.mark.attack("truth")
@pytest.mark.usefixtures("importing")
def test_the_plan_tells_what_it_was_measured_with(paper: Paper) -> None:
    paper.effects = {"dataset_in_ram": 0.5}
    result = tune(request(), Silent())
    made_for = read_plan(PLAN_PATH).made_for
    assert (made_for["digest"], made_for["modules"]) == (
        digest_of("train.py"),
        {"losses.py": digest_of("losses.py")},
    )
    assert tune_json(result)["sources"] == {"script": made_for["digest"], "modules": made_for["modules"]}


def test_an_interruption_is_told_in_the_journal(paper: Paper) -> None:
    paper.failure = KeyboardInterrupt()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        tune(request(), Silent())
    assert journal()[0] == ["interrupted"]


def test_a_busy_machine_is_a_warning_in_the_result(paper: Paper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "before_tuning", lambda *_: [Caution("busy", share=0.4)])
    assert tune(request(), Silent()).warnings == (Caution("busy", share=0.4),)


def test_progress_is_told_of_every_part(paper: Paper) -> None:
    said: list[str] = []

    class Noting(Silent):
        def stage(self, text: str) -> None:
            said.append(text)

        def observed(self, observation: Observation, causes: Any) -> None:
            said.append("observed")

        def tried(self, row: Any) -> None:
            said.append(row.technique)

    paper.effects = {"dataset_in_ram": 0.5}
    result = tune(request(), Noting())
    assert said == [
        "observing train.py",
        "observed",
        *(row.technique for row in result.tried),
        "checking that the training stays the same",
        "confirming in fresh processes",
    ]
