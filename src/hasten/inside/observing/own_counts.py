"""What libraries whose own loops train know of a run's length.

Their loops go on until something says that they are done, so they cannot be read; but their objects keep how
far a run goes, and how far it is. Nothing of theirs is called.

Sources: transformers' ``TrainerState``; Lightning's ``_FitLoop`` and ``_TrainingEpochLoop``; ignite's
``Engine`` and ``State``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .plain_values import is_whole, kept


@dataclass(frozen=True)
class Loop:
    """It goes round ``turns`` times, of which ``done`` are over, unless it is left ``early``. ``elsewhere``:
    a turn may have other steps, too.
    """

    turns: int
    done: int
    early: bool = False
    elsewhere: bool = False


LOADER, CUT, OTHER = "loader", "cut", "other"
Around = Sequence[Loop | str]
"""Loops around a step, outer ones first. LOADER: over the batches of a loader; CUT: it may be left early;
OTHER: it cannot be read.
"""


def own_count(trainer: object) -> Around | None:
    """The loops that this object runs, of which functions of its class are on the stack; None if it is no
    library's.
    """
    kind = type(trainer)
    library = (kind.__module__ or "").partition(".")[0]
    if type(kept(trainer).get("state")).__name__ == "TrainerState":
        return _of_transformers(kept(trainer)["state"])
    if kind.__name__ in ("_FitLoop", "FitLoop") and library in ("lightning", "pytorch_lightning"):
        return _of_lightning(trainer)
    if library == "ignite" and "state" in kept(trainer):
        state = kept(kept(trainer)["state"])
        if is_whole(epoch := state.get("epoch")):
            return _epochs(state.get("max_epochs"), epoch - 1)
    return None


def _of_transformers(state: object) -> Around | None:
    found = _loop(*(kept(state).get(name) for name in ("max_steps", "global_step")))
    return None if found is None else [found]


def _of_lightning(fitting: object) -> Around:
    """``max_steps`` of -1 sets no limit to steps, and then ``max_epochs`` does."""
    most = _within(fitting, "epoch_loop", "max_steps")
    epochs = _within(fitting, "max_epochs"), _within(fitting, "epoch_progress", "current", "processed")
    if most == -1:
        return _epochs(*epochs)
    progress = _within(fitting, "epoch_loop", "automatic_optimization", "optim_progress")
    found = _loop(most, _within(progress, "optimizer", "step", "total", "completed"))
    return [OTHER if found is None or epochs[0] != -1 else found]


def _epochs(most: object, done: object) -> Around:
    found = _loop(most, done)
    return [OTHER] if found is None else [found, LOADER]


def _loop(turns: object, done: object) -> Loop | None:
    return Loop(turns, done) if is_whole(turns) and is_whole(done) and 0 <= done < turns else None


def _within(one: object, *names: str) -> object:
    for name in names:
        one = kept(one).get(name)
    return one
