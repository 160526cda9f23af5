"""The ABBA blocks of one live comparison: how many it needs, and what they tell."""

from __future__ import annotations

from collections.abc import Sequence, Set
from statistics import median

from ...records.observation import Step
from ...records.phases import usual_phases
from ...records.plan import Plan
from ...records.trial import Proof, Trial
from .blocks import Block
from .decisions import clearly_worse, is_clear, known_well
from .statistics import robust_interval
from .steps import TOO_FEW_REGULAR, Rhythm

LEAST_ABBA_BLOCKS, _LEAST_IF_FEW = 5, 3  # few: steps are slow, or the script has few of them
MOST_ABBA_BLOCKS = 24
_HARDLY_ANY = 8  # that cannot be timed to one that can, where each of them takes seconds
_SHARE_OF_A = 0.25  # of those: by chance, of a script in which no plan can be timed, about half are
HOPELESS, _HOPELESS_IF_LONG = 10.0, 6.0  # times slower
LONG_SECONDS = 1.0  # of a step: other programs do not make it several times as long
_LONG_WAIT = 1.0  # seconds for one cycle of a hopeless plan
_SHORT_RUN = 5.0  # seconds: a set-up of so many is always waited for
_PAYS = 0.6  # of a run's steps: a longer set-up pays only if they then train more than 2.5 times faster
_LEAST_LOOK = 20.0  # seconds in which a first step may set up something small


class TrialFailed(Exception):
    """The comparison cannot win anything, for this reason."""


class Untimable(TrialFailed):
    """Nor can any other of this script."""


class TooLate(TrialFailed):
    """The training has gone on for too long: in a new process it may win."""


def least(rhythm: Rhythm) -> int:
    """How many ABBA blocks decide at least."""
    few = rhythm.slow or rhythm.short
    return min(_LEAST_IF_FEW, LEAST_ABBA_BLOCKS) if few else LEAST_ABBA_BLOCKS


class Comparison:
    """The measurements of one trial. ``patience``: seconds that b may take longer than a; more if a takes
    long to be set up, which b contains. ``slow``: what in b is slow to set up; ``new``: the part of it that
    is not in a, and must earn its set-up back in a run.
    """

    def __init__(
        self, timed: Rhythm, patience: float, slow: Set[str] = frozenset(), new: Set[str] = frozenset()
    ) -> None:
        self.timed = timed  # by which its blocks are
        self._slow, self._new = slow, new
        self._patience = patience
        self._least = least(timed)
        self._log_ratios: list[tuple[float, bool]] = []  # each with whether others disturbed it
        self.blocks_a: list[Block] = []
        self.blocks_b: list[Block] = []
        self.steps_b: list[Step] = []
        self.proofs: tuple[Proof, ...] = ()
        self.step_seconds_a: float | None = None  # in the last block of the same training
        self._setups_a: list[float] = []
        self._setups_b: list[float] = []
        self._untimed = 0
        self.untimed_a = 0  # of these, because a block of a could not be timed
        self._waited = 0.0

    @property
    def patience(self) -> float:
        """Seconds of it that are left."""
        return max(0.0, self._patience + _setup(self._setups_a) - self._waited)

    def settles_in(self, most: int) -> int:
        """How many of b's first steps to look at before it trains ``most`` of them."""
        return self.timed.cycle if self._are_long else most

    def most_for(self, usual: float, settling: bool, longest: float) -> tuple[float, str]:
        """Seconds to wait for steps of b that take ``usual`` under a, and why b is given up after that.
        ``longest``: seconds of a step so far, as an evaluation may come in between.
        """
        what = "its set-up" if settling else "its set-up, with the first steps that were timed,"
        seconds = self._patience + _setup(self._setups_a)
        why = f"{what} takes longer than {seconds:.0f} s: a longer --budget waits for it"
        limits = [(self.patience, why)]
        if settling and self._are_long:
            most = max(_LEAST_LOOK, HOPELESS * usual)
            why = f"more than {1 + int(most / usual)} times slower: its first steps were stopped"
            limits.append((most + longest, why))
        length = self.timed.steps_in_all or self.timed.planned_steps
        if settling and self._new and length and self.step_seconds_a is not None:
            pays = max(_SHORT_RUN, _PAYS * length * self.step_seconds_a)
            why = f"its set-up takes longer than {_PAYS:.0%} of the {length:,} steps of a run without it"
            limits.append((pays + longest, why))
        least, why = min(limits)
        return usual + least, why

    @property
    def _are_long(self) -> bool:
        """Whether steps are so long that those of a hopeless plan take seconds, and none of them has
        anything slow to set up.
        """
        usual = (self.step_seconds_a or 0.0) * self.timed.cycle
        return not self._slow and HOPELESS * usual > _LONG_WAIT

    def waited(self, seconds: float) -> None:
        """Steps of b took so much longer than as many of a."""
        self._waited += max(0.0, seconds)

    def hopeless(self, step_seconds_b: float) -> bool:
        """Whether b is so much slower that it need not be measured further."""
        if self.step_seconds_a is None:
            return False
        times = _HOPELESS_IF_LONG if step_seconds_b > LONG_SECONDS else HOPELESS
        return step_seconds_b > times * self.step_seconds_a

    def give_up(self, step_seconds_b: float, seen: str = "one block was") -> None:
        """Raises TrialFailed if it is, with where that was ``seen``."""
        if self.step_seconds_a is not None and self.hopeless(step_seconds_b):
            times = step_seconds_b / self.step_seconds_a
            raise TrialFailed(f"about {times:.0f} times slower: {seen} enough to see it")

    def took_up(self, setup_seconds: float, is_b: bool) -> None:
        """A worker's set-up time for a plan so far."""
        (self._setups_b if is_b else self._setups_a).append(setup_seconds)

    def add(self, log_ratio: float | None, contended: bool) -> None:
        """Add an ABBA block, None for one that could not be timed. Raises TrialFailed if hardly any can."""
        if log_ratio is not None:
            self._log_ratios.append((log_ratio, contended))
            return
        self._untimed += 1
        few = self._least < LEAST_ABBA_BLOCKS
        most = min(MOST_ABBA_BLOCKS, _HARDLY_ANY * (1 + self.gathered)) if few else MOST_ABBA_BLOCKS
        if self.too_few and self._untimed >= most:
            of_script = self.untimed_a >= _SHARE_OF_A * self._untimed
            raise (Untimable if of_script else TrialFailed)(TOO_FEW_REGULAR)

    @property
    def gathered(self) -> int:
        return len(self._log_ratios)

    @property
    def log_ratios(self) -> list[float]:
        """The log ratios of the undisturbed ABBA blocks, if there are enough of them; otherwise of all."""
        alone = [log_ratio for log_ratio, contended in self._log_ratios if not contended]
        return alone if len(alone) >= self._least else [log_ratio for log_ratio, _ in self._log_ratios]

    @property
    def too_few(self) -> bool:
        return self.gathered < self._least

    @property
    def decided(self) -> bool:
        """Clear, or known well, or as many ABBA blocks as are worth it. Stopping early bends the interval a
        little: it steers the search and is never a claim.
        """
        ratio = robust_interval(self.log_ratios, "ABBA blocks", 0.99)
        if clearly_worse([log_ratio for log_ratio, contended in self._log_ratios if not contended]):
            return True
        if self.too_few or ratio is None:
            return False
        return is_clear(ratio) or known_well(ratio) or len(self.log_ratios) >= MOST_ABBA_BLOCKS

    def _usual_step(self, blocks: Sequence[Block]) -> float | None:
        return self.timed.usual([block.step_seconds for block in blocks]) if blocks else None

    def trial(self, a: Plan, b: Plan, seconds: float, failure: str | None) -> Trial:
        return Trial(
            a=a,
            b=b,
            method="live",
            log_ratios=tuple(self.log_ratios),
            ratio=None if failure else robust_interval(self.log_ratios, "ABBA blocks"),
            step_seconds_a=self._usual_step(self.blocks_a),
            step_seconds_b=self._usual_step(self.blocks_b),
            seconds=seconds,
            setup_seconds=max(0.0, _setup(self._setups_b) - _setup(self._setups_a)),
            proofs=self.proofs,
            failure=failure,
            phases_b=usual_phases(self.steps_b, self.timed.cycle),
        )


def _setup(seconds: Sequence[float]) -> float:
    """Of a plan that was put in force so often: the first time takes the longest, but for one that is slow by
    chance; what is compiled in later steps stays in all that follow.
    """
    return max(seconds[0], median(seconds)) if seconds else 0.0
