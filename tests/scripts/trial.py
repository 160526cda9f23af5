"""One script under hasten, for tests and for docs/compatibility.md: what was seen, what took effect."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from hasten.bench.comparing.steps import Rhythm, in_unit, rhythm_of
from hasten.bench.stage import Stage
from hasten.bench.trials import Trials
from hasten.bench.workers.ending import LEAST_STEPS, ScriptEnded, ScriptOver
from hasten.bench.workers.worker import Worker
from hasten.inside.techniques.catalog import CATALOG
from hasten.inside.techniques.exclusion import against
from hasten.machine import this_machine
from hasten.records.facts import Facts
from hasten.records.observation import Observation, Step
from hasten.records.plan import BASELINE, Plan, Settings

from ..patience import PATIENCE_SECONDS

WARMUP_STEPS = 8
WATCHED_STEPS = 30
UNDER_A_TECHNIQUE = 2  # cycles
_ENVIRONMENT = {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
END = 10**9  # more steps than any script has


@dataclass
class Outcome:
    """What became of a script.

    ``techniques``: name -> ("applied", "no effect", "refused" or "fails"; why).
    """

    observation: Observation | None = None
    rhythm: Rhythm | None = None
    steps: list[Step] = field(default_factory=list)  # all of them, to the script's end
    techniques: dict[str, tuple[str, str]] = field(default_factory=dict)
    ended: ScriptEnded | None = None
    printed: str = ""

    @property
    def applied(self) -> Plan:
        """The live techniques that took effect, together, as far as a tune would put them into one plan."""
        assert self.observation is not None
        facts = Facts(this_machine(), self.observation)
        names = [name for name, (what, _) in self.techniques.items() if what == "applied"]
        return together([name for name in names if not CATALOG[name].not_tried], facts)


def together(names: Sequence[str], facts: Facts) -> Plan:
    """The techniques in one plan; of two that exclude each other, the first."""
    plan = BASELINE
    for name in names:
        settings = settings_for(name, facts)
        if against(plan, name, settings) is None:
            plan = plan.adding(name, settings)
    return plan


def settings_for(name: str, facts: Facts) -> Settings:
    """The most promising ones; but of ``compile`` all except its kernels, which take half a minute each, and
    ``prune`` within the few steps that a test has.
    """
    if name == "compile":
        return {"backend": "aot_eager"}
    settings = CATALOG[name].options(facts)[0]
    return {**settings, "after": 3} if name == "prune" else settings


@contextmanager
def trials_for(
    script: Path,
    folder: Path,
    arguments: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
    evaluations: bool | None = None,
) -> Iterator[Trials]:
    """Trials of the script whose working directory is ``folder``; its output goes next to that.

    One thread each, where the script says nothing else: their models are tiny. ``evaluations``: as in
    ``Job``, where that is not to be found out.
    """
    here = Path.cwd()
    os.chdir(folder)
    try:
        stage = Stage(
            argv=(str(script), *arguments),
            machine=this_machine(),
            environment={**os.environ, **_ENVIRONMENT, **(environment or {})},
            folders=(str(folder.resolve()), str(script.parent)),
        )
        with Trials(stage, folder.parent / f"{folder.name}-output") as trials:
            trials.evaluations = evaluations
            yield trials
    finally:
        os.chdir(here)


def live_techniques() -> list[str]:
    return [name for name, technique in CATALOG.items() if technique.scope == "live"]


def follow(trials: Trials, names: Sequence[str]) -> Outcome:
    """Watch a script, switch each of the live techniques ``names`` that applies on and off, let it run to its
    end.

    A script that ends before all of that, or that a technique makes fail, is started again and goes on with
    the techniques that are left. What the script raises of its own accord is in ``ended``.
    """
    outcome = Outcome()
    with trials.worker(BASELINE) as worker:
        try:
            worker.wait_started()
            watched = worker.steps(WARMUP_STEPS + WATCHED_STEPS)
            _see(outcome, watched[WARMUP_STEPS:], worker.observation())
            _try_all(outcome, worker, trials, names)
            worker.switch(BASELINE)
            worker.steps(END, timeout=PATIENCE_SECONDS)
        except ScriptOver as over:
            outcome.ended = over.ended
            outcome.steps = [*worker.history, *over.ended.steps]
            seen = over.ended.observation
            if outcome.observation is None and seen is not None and len(outcome.steps) >= LEAST_STEPS:
                _see(outcome, outcome.steps[len(outcome.steps) // 4 :], seen)
    assert trials.folder is not None
    outcome.printed = (trials.folder / "worker-001.stdout").read_text()
    while outcome.observation is not None and len(outcome.techniques) < len(names):
        before = len(outcome.techniques)
        with trials.worker(BASELINE) as worker, suppress(ScriptOver):
            worker.wait_started()
            _try_all(outcome, worker, trials, names)
        assert len(outcome.techniques) > before, "the script is too short for one technique"
    return outcome


def _see(outcome: Outcome, watched: list[Step], seen: Observation) -> None:
    outcome.rhythm = rhythm = rhythm_of(watched)
    counted = in_unit(watched, rhythm)
    sizes = Counter(step.samples for step in counted if step.samples)
    size = sizes.most_common(1)[0][0] if sizes else None
    outcome.observation = replace(seen, steps=counted, cycle=rhythm.cycle, batch_size=size)


def _try_all(outcome: Outcome, worker: Worker, trials: Trials, names: Sequence[str]) -> None:
    assert outcome.observation is not None
    assert outcome.rhythm is not None
    facts = Facts(trials.stage.machine, outcome.observation)
    for name in names:
        if name in outcome.techniques:
            continue
        reasons = [*outcome.observation.obstacles, *CATALOG[name].refuse(facts)]
        if reasons:
            outcome.techniques[name] = ("refused", "; ".join(reasons))
            continue
        try:
            outcome.techniques[name] = _try(worker, name, facts, outcome.rhythm.cycle)
        except ScriptOver as over:
            if over.ended.how == "completed":
                raise
            outcome.techniques[name] = ("fails", str(over))
            raise


def _try(worker: Worker, name: str, facts: Facts, cycle: int) -> tuple[str, str]:
    """Switch one technique on, train under it, ask for its proof, switch it off."""
    why_not = worker.switch(Plan({name: settings_for(name, facts)}))
    if why_not:
        return "refused", why_not.removeprefix(f"{name}: ")
    worker.steps(UNDER_A_TECHNIQUE * cycle)
    (proof,) = worker.proofs()
    worker.switch(BASELINE)
    return "applied" if proof.effective else "no effect", proof.evidence
