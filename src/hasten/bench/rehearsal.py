"""Before several ranks train a script: is their first step the same as that of one process?"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import HastenError, ScriptError
from ..inside.distributed.slicing import slice_of
from ..inside.guarding.step_numbers import END, EVALUATED, Event, parted, read_events
from ..inside.job import AHEAD, CLOCKS, COURSE, EPOCH, IN_FLOAT64, SEEN, SHORT, WITH_SUM
from ..launch.ranks_of_plan import Wish
from ..records.codec import to_json
from ..records.ranks import Findings
from ..scripts.script_asks import asks_generator, reads_clock
from .both_sides import Alone, files_of, train_alone, train_together
from .other_hosts import OtherHosts
from .workers.ending import BudgetOver, ScriptOver
from .workers.printed_lines import Cut, difference, samples_counted

if TYPE_CHECKING:
    from .trials import Trials

SEED = 1
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


def findings_of(trials: Trials, wish: Wish, briefly: bool) -> Findings:
    """As ``rehearse``, of a script that was seen to train: if it fails here, that speaks against the ranks,
    and ends nothing else.
    """
    try:
        return rehearse(trials, wish, briefly)
    except ScriptError as error:
        last = str(error).rstrip().rpartition("\n")[2]
        return Findings(refusals=(f"the script fails where it is rehearsed: {last}",))


def _first_step(trials: Trials, wish: Wish) -> Findings:
    others = OtherHosts(trials.stage.world)
    alone = _alike(_usual(trials, steps=0), others)
    return alone.findings if alone.findings.refusals else _together(trials, wish, alone, others)[0]


def _rehearsed(trials: Trials, wish: Wish) -> Findings:
    others = OtherHosts(trials.stage.world)
    alone = _alike(_usual(trials), others)
    if alone.findings.refusals:
        return alone.findings
    by_clock = others.first(_goes_by_clock(trials, alone))
    if by_clock:
        return replace(alone.findings, refusals=(by_clock,))
    unseen = others.first("" if _came_to_an_end(alone) else "no epoch ended")
    found, printed = _together(trials, wish, alone, others)
    why = found.refusals or _printed_otherwise(trials, wish, alone, printed, others)
    if unseen and not why:
        why = _otherwise_in_short_epochs(trials, wish, alone, others)
    return replace(found, refusals=why, remarks=(*found.remarks, *_counts(wish, alone, printed, others)))


def _alike(alone: Alone, others: OtherHosts) -> Alone:
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
            "can train in another precision": str(IN_FLOAT64 in files_of(alone.folder)),
        }
    )
    if odd and not refusals:
        refusals = (f"{odd}, from one seed: their data, their files or their versions differ",)
    findings = replace(alone.findings, refusals=refusals)
    failed = others.worst("failed" if alone.failed else "") == "failed"
    return replace(alone, findings=findings, steps=others.least(alone.steps), failed=failed)


def _came_to_an_end(alone: Alone) -> bool:
    """Whether one of its epochs ended, or the whole script."""
    events = _course(alone)
    return Path(alone.folder, EPOCH).exists() or (bool(events) and events[-1].kind == END)


def _otherwise_in_short_epochs(
    trials: Trials, wish: Wish, alone: Alone, others: OtherHosts
) -> tuple[str, ...]:
    """Both sides once more, with epochs of a few batches: what a script prints or decides at the end of an
    epoch, from all of its batches. As many refusals as there are: at most one.
    """
    try:
        short = train_alone(trials, *files_of(alone.folder), SHORT)
        steps, failed = short.steps, short.failed or bool(short.findings.refusals)
    except BudgetOver:
        raise
    except (HastenError, ScriptOver):
        short, steps, failed = alone, 0, True  # this shows nothing
    steps = others.least(steps)
    if not steps:
        return ()
    short = replace(short, steps=steps, failed=others.worst("failed" if failed else "") == "failed")
    found, printed = train_together(trials, wish, short, others)
    why = found.refusals or _printed_otherwise(trials, wish, short, printed, others)
    return tuple(f"in epochs of a few batches, {one}" for one in why)


def _printed_otherwise(
    trials: Trials, wish: Wish, alone: Alone, printed: list[str], others: OtherHosts
) -> tuple[str, ...]:
    """What rank 0 prints that one process does not; empty if there is nothing."""
    cut = _cut_for_rank_0(wish, alone, others)
    why = others.of_rank_0(_of_rank_0(trials, alone, printed, cut) if others.has_rank_0 else "")
    return (why,) if why else ()


def _of_rank_0(trials: Trials, alone: Alone, printed: list[str], cut: Cut | None) -> str:
    fine = IN_FLOAT64 in files_of(alone.folder)
    if not difference(alone.printed, printed, fine=fine, cut=cut):
        return ""
    again = train_alone(
        trials, *files_of(alone.folder), steps=alone.steps
    )  # what differs from run to run is a clock's
    other = difference(alone.printed, printed, again.printed, fine=fine, cut=cut)
    return other and (
        f"{other}: what the script computes or copies from a batch before backward() is of rank 0's part "
        "only. A loss covers the whole batch after backward(), and so does an evaluation"
    )


def _counts(wish: Wish, alone: Alone, printed: list[str], others: OtherHosts) -> tuple[str, ...]:
    """What rank 0 prints of the samples that it has seen; empty if it does not."""
    cut = _cut_for_rank_0(wish, alone, others)
    found = others.of_rank_0(
        samples_counted(alone.printed, printed, cut) if others.has_rank_0 and cut else ""
    )
    return (f"it prints {found}: samples of rank 0's part of each batch are counted",) if found else ()


def _cut_for_rank_0(wish: Wish, alone: Alone, others: OtherHosts) -> Cut | None:
    """Of a whole batch; None if batches have no set length."""
    loader = alone.findings.loader
    if loader is None or loader.batch_size is None:
        return None
    mine = slice_of(loader.batch_size, 0, others.ranks(wish.count), alone.findings.least)
    return Cut(loader.batch_size, mine.stop - mine.start)


def _usual(trials: Trials, steps: int | None = None) -> Alone:
    """One process trained alone, for up to ``steps`` after its first, as in ``train_alone``."""
    asks = asks_generator(trials.stage.argv, trials.stage.module)
    if asks:
        why = (
            f"{asks} uses torch's generator itself, which in a rank draws for its part of a batch: use "
            "torch.get_rng_state, set_rng_state and manual_seed, which work on the state that ranks share"
        )
        return Alone("", Findings(refusals=(why,)), 0, [], failed=False)
    alone = train_alone(trials, IN_FLOAT64, steps=steps)
    return train_alone(trials, steps=steps) if alone.failed else alone


def _together(trials: Trials, wish: Wish, alone: Alone, others: OtherHosts) -> tuple[Findings, list[str]]:
    """As ``train_together``, by the weights that turn out to be right."""
    found, printed = train_together(trials, wish, alone, others)
    if found.loss == "sum" and not found.refusals:
        Path(alone.folder, WITH_SUM).touch()  # from the first step on
        found, printed = train_together(trials, wish, alone, others)
    return found, printed


def _goes_by_clock(trials: Trials, alone: Alone) -> str:
    """Why ranks with separate clocks might train differently; "" if the time only goes into what is printed
    or written. This is tested: one process trains again, with clocks that run ahead; and if none of its
    epochs ended, with epochs of a few batches.
    """
    if not reads_clock(trials.stage.argv, trials.stage.module):
        return ""
    files = [*files_of(alone.folder), CLOCKS]
    try:
        change = _by_clock(trials, alone, files)
        if not change and not Path(alone.folder, EPOCH).exists():
            change = _by_clock(trials, train_alone(trials, *files, SHORT), [*files, SHORT])
    except BudgetOver:
        raise
    except (HastenError, ScriptOver):  # a failure with replaced clocks shows nothing
        return ""
    return change and (
        "it goes by the clock, and each rank has its own: if time passes faster, "
        f"{change}. Let it go by steps or epochs"
    )


def _by_clock(trials: Trials, usual: Alone, files: list[str]) -> str:
    """What a faster clock changes in a training like ``usual``, as text; "" if nothing."""
    ahead = train_alone(trials, *files, AHEAD, steps=usual.steps)
    pair = parted(_course(usual), _course(ahead))
    if pair is None:
        return ""
    if parted(_course(usual), _course(train_alone(trials, *files, steps=usual.steps))) is not None:
        return ""  # or two runs always differ
    return _change(*pair)


def _course(alone: Alone) -> list[Event]:
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
