"""What libraries whose own loops train know of a run's length.

Their loops go on until something says that they are done, so they cannot be read; but their objects keep how
far a run goes, and how far it is. Nothing of theirs is called.

Sources: transformers' ``TrainerState``; Lightning's ``_FitLoop`` and ``_TrainingEpochLoop``; ignite's
``Engine`` and ``State``.
"""

from __future__ import annotations

from ..class_names import module_of
from .loops import OTHER, Around, Loop
from .plain_values import is_whole, kept


def own_count(trainer: object) -> Around | None:
    """The loops that this object runs, of which functions of its class are on the stack; None if it is no
    library's.
    """
    kind = type(trainer)
    library = module_of(kind).partition(".")[0]
    if type(kept(trainer).get("state")).__name__ == "TrainerState":
        found = _loop(*(_within(trainer, "state", name) for name in ("max_steps", "global_step")))
        return None if found is None else [found]
    if kind.__name__ in ("_FitLoop", "FitLoop") and library in ("lightning", "pytorch_lightning"):
        return _of_lightning(trainer)
    if kind.__name__ == "Engine" and library == "ignite":
        return _of_ignite(trainer)
    return None


def _of_lightning(fitting: object) -> Around:
    """``max_steps`` of -1 sets no limit to steps, and then ``max_epochs`` does."""
    most = _within(fitting, "epoch_loop", "max_steps")
    epochs = _loop(_within(fitting, "max_epochs"), _within(fitting, "epoch_progress", "current", "processed"))
    if most != -1:
        progress = _within(fitting, "epoch_loop", "automatic_optimization", "optim_progress")
        found = _loop(most, _within(progress, "optimizer", "step", "total", "completed"))
        return [OTHER if found is None or _within(fitting, "max_epochs") != -1 else found]
    batches, each = _within(fitting, "max_batches"), _within(fitting, "trainer", "accumulate_grad_batches")
    begun = _within(fitting, "epoch_loop", "batch_progress", "current", "ready")
    if _changes_accumulation(fitting):
        return [OTHER]
    if epochs is None or not (is_whole(batches) and is_whole(begun) and is_whole(each) and each > 0):
        return [OTHER]
    return [epochs, _loop(-(-batches // each), (begun - 1) // each) or OTHER]


def _changes_accumulation(fitting: object) -> bool:
    """Whether batches of a step become more or fewer from epoch to epoch."""
    callbacks = _within(fitting, "trainer", "callbacks")
    kinds = {type(one).__name__ for one in callbacks} if isinstance(callbacks, list) else set()
    return "GradientAccumulationScheduler" in kinds


def _of_ignite(engine: object) -> Around:
    """``iteration`` goes on over epochs; both are counted from 1. ``max_iters`` ends a run in mid-epoch."""
    if _within(engine, "state", "max_iters") is not None:
        return [OTHER]
    epoch, number, each = (_within(engine, "state", name) for name in ("epoch", "iteration", "epoch_length"))
    if not (is_whole(epoch) and is_whole(number) and is_whole(each)):
        return [OTHER]
    epochs = _loop(_within(engine, "state", "max_epochs"), epoch - 1)
    batches = _loop(each, number - 1 - each * (epoch - 1))
    return [OTHER] if epochs is None or batches is None else [epochs, batches]


def _loop(turns: object, done: object) -> Loop | None:
    return Loop(turns, done) if is_whole(turns) and is_whole(done) and 0 <= done < turns else None


def _within(one: object, *names: str) -> object:
    for name in names:
        one = kept(one).get(name)
    return one
