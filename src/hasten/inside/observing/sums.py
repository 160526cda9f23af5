"""The parts of a run, and its epochs, while they are summed up."""

from __future__ import annotations

from ...records.whole_run import PARTS, Part, less

_KEPT = 100  # occurrences and lines that are kept individually
_LINES_TOLD = 3
_MOST_FOLDERS = 20


class Sum:
    """Seconds, and how often, by the line that led there. ``steps``: the training's."""

    def __init__(self, steps: Sum | None = None) -> None:
        self.seconds, self.count, self.samples, self.longest = 0.0, 0, 0, 0.0
        self._steps, self._latest = steps, -1  # how many steps had ended when it came the last time
        self.occasions = 0
        self.each: list[float] = []
        self.lines: dict[str, float] = {}
        self.folders: dict[str, None] = {}

    def add(self, seconds: float, where: str = "", samples: int = 0, folder: str = "") -> None:
        """``folder``: the one written into."""
        self.seconds += seconds
        self.count += 1
        self.longest = max(self.longest, seconds)
        if self._steps is not None and self._latest != self._steps.count:
            self.occasions, self._latest = self.occasions + 1, self._steps.count
        self.samples += samples
        if len(self.each) < _KEPT:
            self.each.append(seconds)
        if where and (where in self.lines or len(self.lines) < _KEPT):
            self.lines[where] = self.lines.get(where, 0.0) + seconds
        if folder and len(self.folders) < _MOST_FOLDERS:
            self.folders[folder] = None

    def part(self, name: str) -> Part:
        lines = sorted(self.lines, key=lambda line: -self.lines[line])[:_LINES_TOLD]
        return Part(
            name, self.seconds, self.count, tuple(self.each), self.samples,
            tuple(lines), tuple(self.folders), self.occasions, self.longest,
        )  # fmt: skip


def sums_of_a_run() -> dict[str, Sum]:
    """One for each of PARTS."""
    steps = Sum()
    return {name: steps if name == "steps" else Sum(steps) for name in PARTS}


def parts_of(sums: dict[str, Sum]) -> tuple[Part, ...]:
    return tuple(one.part(name) for name, one in sums.items())


_SHORTER = 0.95  # times an epoch as its loader says: one that ends before that is left early


class Epochs:
    """``whole``: what the parts have grown by in the epochs that were seen from start to end."""

    def __init__(self, sums: dict[str, Sum]) -> None:
        self._sums = sums
        self._begun = False
        self._before: tuple[Part, ...] = ()  # as of the first epoch's start
        self.seen = 0  # to their end
        self.whole: tuple[Part, ...] = ()
        self.batches: int | None = None  # of the latest, if its loader says so
        self._first = 0  # steps before the latest
        self._lengths: set[int] = set()  # steps of each that ended
        self._alike = True  # all of them, and the latest, should have as many batches

    def one_begins(self, batches: int | None) -> None:
        self.one_ends()
        self._alike &= batches == self.batches or not self._begun
        self.batches, self._first = batches, self._steps
        if not self._begun:
            self._begun, self._before = True, parts_of(self._sums)

    def one_ends(self) -> None:
        if self._begun:
            self.seen += 1
            self.whole = less(parts_of(self._sums), self._before)
            self._lengths.add(self._steps - self._first)

    def length(self, said: int | None) -> tuple[int | None, bool]:
        """Steps of an epoch, None if not known, and whether these were seen. Otherwise it is what its loader
        ``said``: where epochs went on to its end, and where they were of unequal length, as those are in
        which a learning rate is sought first, or those of several loaders.
        """
        most, least = max(self._lengths, default=0), min(self._lengths, default=0)
        left_early = most < _SHORTER * said - 1 if said is not None else self.batches is None
        seen = (
            self._alike
            and left_early
            and most > 0
            and most - least <= 1
            and self._steps - self._first <= most
        )
        return (most, True) if seen else (said, False)

    @property
    def _steps(self) -> int:
        return self._sums["steps"].count
