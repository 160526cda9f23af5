"""Where the wall clock of a whole run went: a person waits for a run, not for a step."""

from __future__ import annotations

from dataclasses import dataclass

PARTS = (
    "start", "steps", "first batches", "epoch turns", "evaluation", "saving", "output", "garbage", "set-up",
    "tail", "other",
)  # fmt: skip
"""They do not overlap: what happens inside another (a collection in a step) counts in the innermost.

- start: interpreter, imports, data set, model, up to the first training step's own batch.
- steps: training steps, without what falls into one of the parts below.
- first batches: waiting for the first batch of an epoch, workers' start included.
- epoch turns: from the last step of an epoch to the loader's next beginning.
- evaluation: forward passes without gradients in a row, the batches they wait for and what lies between them.
- saving: files written by torch.save, save_pretrained, safetensors, np.save, pickle.
- output: print, logging, tqdm, tensorboard.
- garbage: Python's collector.
- set-up: of techniques.
- tail: after the last step.
- other: what no seam accounts for.
"""

SHARE_HELD = 0.02  # by which the parts may miss the wall clock


@dataclass(frozen=True)
class Part:
    """``seconds`` of the wall clock in all; ``count``: how often, such as steps taken, epochs begun,
    evaluation loops, files saved, collections.
    """

    name: str  # one of PARTS
    seconds: float
    count: int
    each: tuple[float, ...] = ()  # seconds of each time, in order, as far as kept
    samples: int = 0  # that went through it, where that is known (evaluation)
    where: tuple[str, ...] = ()  # "train.py:41", what took longest first, as far as known


@dataclass(frozen=True)
class WatchedRun:
    """``seconds``: wall clock from the process's start to the end of what was watched; ``ended``: the script
    came to its end by itself. ``parts``, in the order of PARTS, add up to ``seconds``.
    """

    seconds: float
    ended: bool
    parts: tuple[Part, ...]
    epochs: int = 0  # that were seen to their end
    epoch_steps: int | None = None  # that an epoch takes, as the training's loader says; None: not known
    planned_epochs: int | None = None  # as the script says; None: not known

    def part(self, name: str) -> Part:
        """The part of that name; empty where none was seen."""
        return next((part for part in self.parts if part.name == name), Part(name, 0.0, 0))

    def share(self, name: str) -> float:
        """Of the wall clock that was watched, 0 to 1."""
        return self.part(name).seconds / self.seconds if self.seconds > 0 else 0.0
