"""What earlier tunes of the same training measured, reused by the search.

So a tune that was stopped goes on where it was, and a second one starts with what the first found. It is
evidence like any other comparison of the search and decides nothing else: accuracy is checked and the plan
confirmed again, so nothing is claimed from earlier measurements.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from ..bench.comparing.decisions import excludes_gain, gains, is_slower, known_well
from ..bench.comparing.statistics import combined
from ..records.plan import Plan
from ..records.trial import Ratio, Seen, Trial, Unseen
from .recording import LoggedBench


class RememberingBench:
    """``bench``, except that the first comparison of two plans is what ``earlier`` trials found, if they
    compared the same two by the same method. If these cannot tell, it measures, and both count. A repeated
    comparison is measured.
    """

    def __init__(self, bench: LoggedBench, earlier: Iterable[Trial] = ()) -> None:
        self.measuring = bench
        self._known = _combined(earlier)

    def __len__(self) -> int:
        """How many pairs of plans it knows and has not returned yet."""
        return len(self._known)

    def compare(self, a: Plan, b: Plan, seconds: float) -> Trial:
        earlier = self._earlier(a, b)
        if earlier is None:
            return self.measuring.compare(a, b, seconds)
        del self._known[a, b]
        if _tells(earlier):
            self.measuring.learn(earlier)
            return earlier
        return _with(earlier, self.measuring.compare(a, b, seconds))

    def method(self, a: Plan, b: Plan) -> str:
        return self.measuring.method(a, b)

    def foreseen(self, a: Plan, b: Plan) -> float:
        earlier = self._earlier(a, b)
        return 0.0 if earlier is not None and _tells(earlier) else self.measuring.foreseen(a, b)

    def _earlier(self, a: Plan, b: Plan) -> Trial | None:
        """Reads only what is asked for: the others may name techniques that no longer exist."""
        trial = self._known.get((a, b))
        return trial if trial is not None and trial.method == self.measuring.method(a, b) else None

    def seek(self, a: Plan, b: Plan, seconds: float) -> Seen | Unseen:
        return self.measuring.seek(a, b, seconds)


def _combined(trials: Iterable[Trial]) -> dict[tuple[Plan, Plan], Trial]:
    """All comparisons of two plans combined, in the form of the last one."""
    alike: defaultdict[tuple[Plan, Plan], list[Trial]] = defaultdict(list)
    for trial in trials:
        if is_evidence(trial):
            alike[trial.a, trial.b].append(trial)
    return {key: _together(found) for key, found in alike.items()}


def _together(trials: list[Trial]) -> Trial:
    last = trials[-1]
    ratios = [trial.ratio for trial in trials if trial.ratio is not None and trial.method == last.method]
    ratio = combined(ratios) if len(ratios) > 1 else last.ratio
    return replace(last, ratio=ratio, spent=None, earlier=True)


def _tells(trial: Trial) -> bool:
    """Whether the search needs no more: a disturbed measurement may not tell anything."""
    ratio = trial.ratio
    if ratio is None:
        return False
    return gains(ratio) or is_slower(ratio) or known_well(ratio) or excludes_gain(ratio, proven=False)


def _with(earlier: Trial, trial: Trial) -> Trial:
    if earlier.ratio is None or trial.ratio is None or trial.ratio.count < 2:
        return trial
    return replace(trial, ratio=combined([earlier.ratio, trial.ratio]))


def is_evidence(trial: Trial) -> bool:
    """Whether it finished and measured something: a failure may have been chance."""
    if trial.failure is not None or trial.cut_short or trial.ratio is None:
        return False
    return _is_sound(trial.ratio)


def _is_sound(ratio: Ratio) -> bool:
    """The journal may have come with the project, and contain anything."""
    ends = (ratio.low, ratio.value, ratio.high)
    return (
        type(ratio.count) is int
        and ratio.count > 1
        and all(map(math.isfinite, ends))
        and 0 < ends[0] <= ends[1] <= ends[2]
    )
