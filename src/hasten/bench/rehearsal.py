"""Before several ranks train a script: is their first step the same as that of one process?"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import HastenError, WorkerError
from ..inside.guarding.step_numbers import END, EVALUATED, Event, parted, read_events
from ..inside.job import AHEAD, CLOCKS, COURSE, DIFFERENT, EPOCH, IN_FLOAT64, SEEN, SHORT, WITH_SUM
from ..launch.ranks_of_plan import Wish
from ..records.codec import to_json
from ..records.ranks import Findings
from ..scripts.script_asks import asks_generator, reads_clock
from .other_hosts import OtherHosts
from .workers.ending import (
    BudgetOver,
    ScriptOver,
    raised,
    too_short,
)
from .workers.printed_lines import difference

if TYPE_CHECKING:
    from .trials import Trials
    from .workers.worker_group import WorkerGroup

SEED = 1
_MOST_STEPS = 400  # after the first
_SECONDS = 5.0  # for these
_PATIENCE = 4  # the ranks may take this many times as long: they are not at their best yet
_AT_ONCE = 10
_TWO_STARTS = 1.6  # the time of one, for two ranks that start at the same time


def foreseen(start_seconds: float) -> float:
    """Seconds that a brief rehearsal takes if a process needs ``start_seconds`` to its first step: one alone,
    and the ranks, which share the machine.
    """
    return (1 + _TWO_STARTS) * start_seconds


def rehearse(trials: Trials, wish: Wish, briefly: bool = False) -> Findings:
    """Let one process train, then the ranks, all on the same samples; nothing of it is kept. Both compute in
    float64 if the script allows it: then their results are equal, or the difference means something.

    ``briefly``: only the first step. That is enough to time the ranks, not to train with them.

    Raises ScriptError if the script fails by itself, Refusal if it never trains or trains where it cannot be
    followed, WorkerError if a process ends in another way.
    """
    try:
        return _first_step(trials, wish) if briefly else _rehearsed(trials, wish)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the rehearsal was interrupted") from None


def _first_step(trials: Trials, wish: Wish) -> Findings:
    others = OtherHosts(trials.stage.world)
    alone = _alike(_usual(trials, steps=0), others)
    return alone.findings if alone.findings.refusals else _together(trials, wish, alone, others)[0]


def _rehearsed(trials: Trials, wish: Wish) -> Findings:
    others = OtherHosts(trials.stage.world)
    alone = _alike(_usual(trials, _MOST_STEPS), others)
    if alone.findings.refusals:
        return alone.findings
    by_clock = others.first(_goes_by_clock(trials, alone))
    if by_clock:
        return replace(alone.findings, refusals=(by_clock,))
    found, printed = _together(trials, wish, alone, others)
    if found.refusals:
        return found
    why = others.of_rank_0(_printed_otherwise(trials, alone, printed) if others.has_rank_0 else "")
    return replace(found, refusals=(why,) if why else ())


def _alike(alone: _Alone, others: OtherHosts) -> _Alone:
    """What holds on all hosts, after one process of each has trained by itself. If these find different
    things, their data, code or versions differ, and their ranks would not train one model: it is refused.
    """
    refusals = others.refusals(alone.findings.refusals)
    seen = Path(alone.folder, SEEN)
    digests = json.loads(seen.read_text(encoding="utf-8")) if seen.exists() else {}
    odd = others.odd(
        {
            "trains on other samples": digests.get("samples", ""),
            "builds another model": digests.get("models", ""),
            "finds another loader, or another kind of training,": json.dumps(to_json(alone.findings)),
            "can train in another precision": str(IN_FLOAT64 in _files(alone.folder)),
        }
    )
    if odd and not refusals:
        refusals = (f"{odd}, from one seed: their data, their files or their versions differ",)
    findings = replace(alone.findings, refusals=refusals)
    failed = others.worst("failed" if alone.failed else "") == "failed"
    return replace(alone, findings=findings, steps=others.least(alone.steps), failed=failed)


def _printed_otherwise(trials: Trials, alone: _Alone, printed: list[str]) -> str:
    """What rank 0 prints that one process does not, in words; "" if there is nothing."""
    fine = IN_FLOAT64 in _files(alone.folder)
    if not difference(alone.printed, printed, fine=fine):
        return ""
    again = _train_alone(trials, *_files(alone.folder))  # what differs from run to run is a clock's
    other = difference(alone.printed, printed, again.printed, fine=fine)
    return other and (
        f"{other}: what the script computes or copies from a batch before backward() covers rank 0's part "
        "only. A loss covers the whole batch after backward(), and so does an evaluation"
    )


def _usual(trials: Trials, steps: int) -> _Alone:
    """One process trained alone, for up to this many steps after its first."""
    asks = asks_generator(trials.stage.argv, trials.stage.module)
    if asks:
        why = (
            f"{asks} uses torch's generator itself, which in a rank draws for its part of a batch: use "
            "torch.get_rng_state, set_rng_state and manual_seed, which work on the state that ranks share"
        )
        return _Alone("", Findings(refusals=(why,)), 0, [], failed=False)
    alone = _train_alone(trials, IN_FLOAT64, steps=steps)
    return _train_alone(trials, steps=steps) if alone.failed else alone


def _together(trials: Trials, wish: Wish, alone: _Alone, others: OtherHosts) -> tuple[Findings, list[str]]:
    """As ``_train_together``, by the weights that turn out to be right."""
    found, printed = _train_together(trials, wish, alone, others)
    if found.loss == "sum" and not found.refusals:
        Path(alone.folder, WITH_SUM).touch()  # from the first step on
        found, printed = _train_together(trials, wish, alone, others)
    return found, printed


def _goes_by_clock(trials: Trials, alone: _Alone) -> str:
    """Why ranks with separate clocks might train differently; "" if the time only goes into what is printed
    or written. This is tested: one process trains again, with clocks that run ahead; and if none of its
    epochs ended, with epochs of a few batches.
    """
    if not reads_clock(trials.stage.argv, trials.stage.module):
        return ""
    files = [*_files(alone.folder), CLOCKS]
    try:
        change = _by_clock(trials, alone, files)
        if not change and not Path(alone.folder, EPOCH).exists():
            change = _by_clock(trials, _train_alone(trials, *files, SHORT), [*files, SHORT])
    except BudgetOver:
        raise
    except (HastenError, ScriptOver):  # a failure with replaced clocks shows nothing
        return ""
    return change and (
        "it goes by the clock, and each rank has its own: if time passes faster, "
        f"{change}. Let it go by steps or epochs"
    )


def _by_clock(trials: Trials, usual: _Alone, files: list[str]) -> str:
    """What a faster clock changes in a training like ``usual``, as text; "" if nothing."""
    pair = parted(_course(usual), _course(_train_alone(trials, *files, AHEAD)))
    if pair is None or parted(_course(usual), _course(_train_alone(trials, *files))) is not None:
        return ""  # or two runs always differ
    return _change(*pair)


def _course(alone: _Alone) -> list[Event]:
    return read_events(Path(alone.folder, COURSE))


def _change(usual: Event, other: Event) -> str:
    """What happened instead of ``usual``."""
    step = f"step {min(usual.step, other.step)}"
    if other.kind == END:
        return f"it ends after {step}"
    if usual.kind == END:
        return f"it goes on after {step}"
    if usual.kind == other.kind == EVALUATED:
        more = sum(other.values) > sum(usual.values)
        return f"it {'evaluates' if more else 'does not evaluate'} after {step}"
    if usual.kind != other.kind:
        return f"it comes to a {other.kind} after {step} where it came to a {usual.kind}"
    return f"the {usual.kind} in {step} is another".replace("rates in", "rate in")


@dataclass(frozen=True)
class _Alone:
    """What one process did in ``folder``. ``failed``: its script raised something."""

    folder: str
    findings: Findings
    steps: int
    printed: list[str]
    failed: bool


def _train_alone(trials: Trials, *files: str, steps: int = _MOST_STEPS) -> _Alone:
    """``files``: names that configure the rehearsal. ``steps``: after the first, at most."""
    folder = tempfile.mkdtemp(prefix="rehearsal-", dir=trials.aside)
    for name in files:
        Path(folder, name).touch()
    printed: list[bytes] = []
    try:
        with trials.ranks(Wish(1), folder, None, printed.append) as one:
            one.wait_started()
            trials.keep_preparations(one)
            findings = one.rehearsed()[0]
            done, failed = (0, False) if findings.refusals else _go_on(one, steps, OtherHosts(None))
    except ScriptOver as over:
        if IN_FLOAT64 in files:
            return _Alone(folder, Findings(), 0, [], failed=True)
        raise too_short(over.ended, one.child, trials.stage.argv[0], trials.folder) from None
    return _Alone(folder, findings, done, _text(printed), failed)


def _train_together(
    trials: Trials, wish: Wish, alone: _Alone, others: OtherHosts
) -> tuple[Findings, list[str]]:
    """What the ranks found, and what rank 0 printed."""
    printed: list[bytes] = []
    for told_before in Path(alone.folder).glob(DIFFERENT):
        told_before.unlink()
    with (
        trials.ranks(wish, alone.folder, alone.findings, printed.append) as group,
        others.waiting_with(group),
    ):
        found = _first_passes(group)
        refusals = others.refusals(found.refusals)
        found = replace(found, loss=others.of_rank_0(found.loss))
        if not refusals and _weighed(found, alone):
            _, failed = _go_on(group, alone.steps, others, _PATIENCE * _SECONDS)
            told = sorted(Path(alone.folder).glob(DIFFERENT))
            why = others.first(told[0].read_text(encoding="utf-8") if told else "")
            if failed and not alone.failed and not why:
                why = "after some steps its ranks no longer do the same, or one of them fails"
            refusals = (why,) if why else ()
    return replace(found, refusals=refusals), _text(printed)


def _first_passes(group: WorkerGroup) -> Findings:
    """What the first of these ranks found, with the refusals of all."""
    try:
        group.wait_started()
        found = group.rehearsed()
    except ScriptOver as over:
        how = raised(over.ended.detail) if over.ended.detail else over.ended.how
        return Findings(refusals=(f"it fails where its batches are smaller: {how}",))
    return replace(found[0], refusals=tuple(dict.fromkeys(why for one in found for why in one.refusals)))


def _weighed(found: Findings, alone: _Alone) -> bool:
    """Whether the ranks summed their gradients with the weights that they found to be right."""
    return found.loss == "mean" or WITH_SUM in _files(alone.folder)


def _files(folder: str) -> list[str]:
    return [name for name in (IN_FLOAT64, WITH_SUM) if Path(folder, name).exists()]


def _go_on(worker: WorkerGroup, most: int, others: OtherHosts, seconds: float = _SECONDS) -> tuple[int, bool]:
    """Train up to ``most`` steps, as long as there is time. Returns their number, and whether it failed."""
    began, done, how = time.monotonic(), 0, ""
    while done < most and not how:
        try:
            worker.steps(min(_AT_ONCE, most - done))
            done += min(_AT_ONCE, most - done)
            how = "" if time.monotonic() - began < seconds else "over"
        except ScriptOver as over:
            done += len(over.ended.steps)
            how = "over" if over.ended.how == "completed" else "failed"
        except BudgetOver:
            raise
        except WorkerError:
            how = "failed"
        how = others.worst(how)
    return done, how == "failed"


def _text(lines: list[bytes]) -> list[str]:
    return [text for line in lines if (text := line.decode(errors="replace").strip())]
