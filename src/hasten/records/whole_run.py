"""Where the wall clock of a whole run went: a person waits for a run, not for a step."""

from __future__ import annotations

from dataclasses import dataclass, replace

PARTS = (
    "start", "steps", "first batches", "epoch turns", "evaluation", "saving", "output", "garbage", "set-up",
    "tail", "other",
)  # fmt: skip
"""They do not overlap: what happens inside another (a collection in a step) counts in the innermost.

- start: interpreter, imports, data set, model, up to the first training step's own batch.
- steps: training steps, without what falls into one of the parts below.
- first batches: waiting for the first batch of an epoch, workers' start included.
- epoch turns: from the last step of an epoch to the loader's next beginning.
- evaluation: consecutive forward passes without training, the batches that they wait for and what happens
  between them.
- saving: files written by torch.save, safetensors, numpy.save, pickle.
- output: print, logging, tqdm, TensorBoard.
- garbage: Python's garbage collector, from the first step on.
- set-up: by techniques.
- tail: after the last step.
- other: what no seam sees.
"""


@dataclass(frozen=True)
class Part:
    """``seconds`` of wall clock in all; ``count``: how often, such as steps taken, epochs begun,
    evaluation loops, files saved, collections.
    """

    name: str  # one of PARTS
    seconds: float
    count: int
    each: tuple[float, ...] = ()  # seconds of each occurrence, in order, as far as kept; none for steps
    samples: int = 0  # that went through it, if known (evaluation)
    where: tuple[str, ...] = ()  # "train.py:41", slowest first, if known
    folders: tuple[str, ...] = ()  # folders that files were saved into, if known
    occasions: int = 0  # how often with a step in between; 0: not known
    longest: float = 0.0  # seconds of the longest occurrence


ENDLESS_STEPS = 10_000_000  # of an epoch: a sampler that says so is made to go on until the script stops


@dataclass(frozen=True)
class WatchedRun:
    """``seconds``: wall clock from the script's start to the end of watching; ``ended``: the script
    ended by itself. ``parts``, in the order of PARTS, add up to ``seconds``.

    An epoch is a pass over the training's loader, from its beginning to the next one's. ``whole_epochs`` are
    the parts of those that were seen to their end. ``saved_elsewhere``: a folder of saved files
    that go to another disk when a trial saves them; "" for none.
    """

    seconds: float
    ended: bool
    parts: tuple[Part, ...]
    epochs: int = 0  # that were seen to their end
    epoch_steps: int | None = None  # that an epoch takes; None: not known
    whole_epochs: tuple[Part, ...] = ()
    failure: str = ""  # how the script failed, if it did after enough had been seen
    saved_elsewhere: str = ""
    rollouts: int = 0  # runs of passes in eval mode that collected what was trained on next
    planned_steps: int | None = None  # of the whole run, as the loops around a step say; None: they do not
    epoch_seen: bool = False  # ``epoch_steps`` are what those took that ended, not what a loader says

    def part(self, name: str) -> Part:
        """The part of that name; empty if none was seen."""
        return named(self.parts, name)

    def share(self, name: str) -> float:
        """The share of the watched wall clock that these parts take, 0 to 1."""
        return self.part(name).seconds / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True)
class Breakdown:
    """The parts of the run that shares refer to. ``basis``: "run" (it was watched to its end), "epochs"
    (those that were seen to their end, without the run's start), "steps" (no epoch was seen to its end: what
    happened among the watched steps).
    """

    basis: str
    parts: tuple[Part, ...]

    @property
    def seconds(self) -> float:
        return sum(part.seconds for part in self.parts)

    def part(self, name: str) -> Part:
        """The part of that name; empty if there is none."""
        return named(self.parts, name)

    def share(self, *names: str) -> float:
        """The share of the breakdown's seconds that these parts take, 0 to 1."""
        seconds = self.seconds
        return sum(self.part(name).seconds for name in names) / seconds if seconds > 0 else 0.0


_WITH_EACH_STEP = ("steps", "output", "garbage")
_ONCE = ("start", "first batches", "set-up", "tail", "other")


def breakdown_of(run: WatchedRun) -> Breakdown:
    """The breakdown that shares refer to: of as much of the run as was seen.

    Among steps alone, seeing something once does not say how often it happens.
    """
    if run.ended:
        return Breakdown("run", run.parts)
    if run.epochs and run.whole_epochs:
        return Breakdown("epochs", run.whole_epochs)
    often = (_without_longest(part) for part in run.parts if part.name not in _ONCE)
    return Breakdown(
        "steps", tuple(part for part in often if part.name in _WITH_EACH_STEP or _came_again(part))
    )


def seconds_in_all(run: WatchedRun) -> float | None:
    """Of the whole run: as it was watched to its end, else as far as the loops around a step go, if all of it
    is like what was seen; None if they do not say.
    """
    breakdown = breakdown_of(run)
    if breakdown.basis == "run":
        return run.seconds
    steps = breakdown.part("steps").count
    if run.planned_steps is None or not steps:
        return None
    return run.part("start").seconds + run.planned_steps * breakdown.seconds / steps


def _came_again(part: Part) -> bool:
    """Two evaluations with no step in between, of two data sets, do not say how often they come."""
    return (part.occasions or part.count) > 1


def _without_longest(part: Part) -> Part:
    """Garbage without its longest collection: one of all objects may not come again for hours."""
    if part.name != "garbage" or not part.count:
        return part
    return replace(part, seconds=max(0.0, part.seconds - part.longest), count=part.count - 1)


def named(parts: tuple[Part, ...], name: str) -> Part:
    """The part of that name; an empty one if there is none."""
    return next((part for part in parts if part.name == name), Part(name, 0.0, 0))


def less(parts: tuple[Part, ...], before: tuple[Part, ...]) -> tuple[Part, ...]:
    """What was added to ``parts`` since ``before``."""
    return tuple(
        replace(
            part,
            seconds=max(0.0, part.seconds - old.seconds),
            count=part.count - old.count,
            occasions=part.occasions - old.occasions,
            each=part.each[len(old.each) :],
            samples=part.samples - old.samples,
        )
        for part in parts
        for old in (named(before, part.name),)
    )
