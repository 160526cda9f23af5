"""Worker processes that stay for the next epoch, and start it as new ones would.

A new worker is a copy of the training process as of the epoch's start; its RNG states are seeded from that
epoch's base seed, and ``worker_init_fn`` is called in it. A worker that stays is equivalent if the training
process's visible state (``visible_state``) is what it was when the worker was started, and so is the
worker's: it is asked before each epoch. Then its RNG states are seeded and ``worker_init_fn`` is called, as
in a new one. If anything differs, workers are started again, as without us.

At the end of the process, workers that stay are told to end, like those of a pass that is over. Python would
kill them, and their temporary folders (``pymp-*``) would be left.

Source: https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading
"""

from __future__ import annotations

import atexit
import functools
import inspect
import os
import select
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ..internals.loaders import (
    WORKER_LOOP,
    end_workers,
    index_queues,
    put_base_seed,
    put_resume_seed,
    put_worker_seed,
    resume_seed,
    seed_worker,
    worker_module,
    worker_processes,
)
from ..seams import Call
from ..training import NotApplicable, Training
from .visible_state import State, difference, visible_state

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

    from ..internals.loaders import LoaderIterator

_MOST_LOADERS = 4  # whose workers stay at once: they take memory
_QUESTION = "hasten: is all as it was when you began?"
_ARGUMENTS = {"index_queue", "collate_fn", "base_seed", "init_fn", "worker_id"}
_DATASET, _HOLDER = "dataset", "dataset_holder"  # since torch 2.15 in a list that the worker empties
_NAME = "kept workers"  # in Training.kept
_LONGEST = 200  # bytes of an answer: a pipe takes this much at once
_LOOK_SECONDS = 0.1  # between two checks that workers live


class KeptWorkers:
    """For all loaders of a training. ``resumed`` counts epochs started by workers that had stayed;
    ``renewed`` says why workers were started again.
    """

    def __init__(self, training: Training) -> None:
        """Raises NotApplicable if this version of torch is not known."""
        self.resumed = 0
        self.renewed: dict[str, None] = {}
        self._training = training
        self._answers = -1  # where starting workers write their answers
        self._held: weakref.WeakKeyDictionary[LoaderIterator, _Held] = weakref.WeakKeyDictionary()
        module = worker_module()
        self._signature = inspect.signature(getattr(module, WORKER_LOOP))
        names = set(self._signature.parameters)
        if not names >= _ARGUMENTS or not names & {_DATASET, _HOLDER}:
            raise NotApplicable(
                "this version of torch passes its workers arguments that hasten does not know"
            )
        training.seams.replace(module, WORKER_LOOP, self._around_loop)
        training.kept[_NAME] = self
        _end_with_process(self)

    @classmethod
    def of(cls, training: Training) -> KeptWorkers | None:
        """The instance of this training; None if no technique keeps workers."""
        found = training.kept.get(_NAME)
        return found if isinstance(found, cls) else None

    # ---- in the training process
    def __len__(self) -> int:
        """How many passes hold workers now."""
        return len(self._held)

    def holds(self, loader: DataLoader[object]) -> bool:
        """Whether workers of this loader are being kept."""
        return any(loader is one() for one in (held.loader for held in self._held.values()))

    def why_no_more(self, loader: DataLoader[object]) -> str:
        """Why workers of this loader should not stay, too; "" if they may."""
        if self.holds(loader) or len(self) < _MOST_LOADERS:
            return ""
        return f"workers of {_MOST_LOADERS} loaders stay already"

    def may_go_on(self, loader: DataLoader[object], iterator: LoaderIterator) -> bool:
        """Whether the workers of ``iterator`` are as good as new ones now."""
        held = self._held.get(iterator)
        if held is None:
            return False
        try:
            reason = difference(held.state, _state_of(loader)) or held.asked(iterator)
        except Exception as error:  # errors of the script's own objects when examined
            reason = f"{type(error).__name__}: {error}"
        if reason:
            self.renewed[f"{reason} changed between two epochs"] = None
        return not reason

    @contextmanager
    def starting(
        self, loader: DataLoader[object], made: list[LoaderIterator], forked: bool
    ) -> Iterator[None]:
        """Within the block, workers are started that will stay; ``made`` gets their iterator. Workers that
        are not ``forked`` cannot be asked.
        """
        state = _state_of(loader)
        if not forked:
            yield
            self._held.update(dict.fromkeys(made, _Held(loader, state, None)))
            return
        answers, self._answers = os.pipe()
        try:
            yield
        finally:
            os.close(self._answers)
            self._answers = -1
            if made:
                self._held[made[0]] = _Held(loader, state, answers)
                weakref.finalize(made[0], os.close, answers)
            else:
                os.close(answers)

    def go_on(self, iterator: LoaderIterator, base_seed: int) -> None:
        """The iterator is about to tell its workers, if kept here, to resume: they start with this seed.
        Ranks seed their own workers in another way: those continue with their own numbers.
        """
        if iterator not in self._held:
            return
        if self._training.this_rank is None:
            put_base_seed(iterator, base_seed)
            put_resume_seed(iterator, base_seed)
        self.resumed += 1

    def end(self) -> None:
        """End all workers that are kept."""
        for iterator in list(self._held):
            with suppress(Exception):  # they are killed then, as without us
                end_workers(iterator)

    # ---- in a worker
    def _around_loop(self, original: Call) -> Call:
        @functools.wraps(original)  # it is passed by name to workers that are not forked
        def loop(*args: object, **kwargs: object) -> object:
            if self._answers < 0:
                return original(*args, **kwargs)
            given = self._signature.bind(*args, **kwargs)
            given.arguments["index_queue"] = _Listening(self._training, given.arguments, self._answers)
            return original(*given.args, **given.kwargs)

        return loop


class _Held:
    """The training process's visible state when workers were started, and where they answer."""

    def __init__(self, loader: DataLoader[object], state: State, answers: int | None) -> None:
        self.loader = weakref.ref(loader)
        self.state = state
        self._answers = answers

    def asked(self, iterator: LoaderIterator) -> str:
        """What a worker reports as changed; "" if nothing changed in any."""
        if self._answers is None:
            return ""
        processes = worker_processes(iterator)
        for queue in index_queues(iterator):
            queue.put(_QUESTION)
        poll = select.poll()
        poll.register(self._answers, select.POLLIN)
        told = b""
        while told.count(b"\n") < len(processes):
            ready = poll.poll(_LOOK_SECONDS * 1000)
            part = os.read(self._answers, 65536) if ready else b""
            told += part
            if (ready and not part) or not (part or all(process.is_alive() for process in processes)):
                return "a worker has ended and the number of workers"
        return next((line for line in told.decode().split("\n") if line), "")


class _Listening:
    """A worker's queue of indices. It answers our question, and starts an epoch as a new worker would."""

    def __init__(self, training: Training, given: dict[str, Any], answers: int) -> None:
        self._training = training
        self._queue = given["index_queue"]
        self._answers = answers
        self._number = int(given["worker_id"])
        self._begin = given["init_fn"]
        dataset = given[_DATASET] if _DATASET in given else given[_HOLDER][0]
        self._watched = (dataset, given["collate_fn"], given["init_fn"])
        self._state = visible_state(*self._watched)

    def get(self, *args: object, **kwargs: object) -> object:
        message = self._queue.get(*args, **kwargs)
        while isinstance(message, str) and message == _QUESTION:
            self._answer()
            message = self._queue.get(*args, **kwargs)
        seed = resume_seed(message)
        if seed is not None:
            seed_worker(self._training.torch, seed, self._number)
            put_worker_seed(seed + self._number)
            if self._begin is not None:
                self._begin(self._number)
        return message

    def _answer(self) -> None:
        changed = difference(self._state, visible_state(*self._watched))
        line = changed.replace("\n", " ").encode(errors="replace")[:_LONGEST] + b"\n"
        with suppress(OSError):  # no longer listening
            os.write(self._answers, line)

    def __getattr__(self, name: str) -> object:
        return getattr(self._queue, name)


def _state_of(loader: DataLoader[object]) -> State:
    return visible_state(loader.dataset, loader.collate_fn, loader.worker_init_fn)


def _end_with_process(kept: KeptWorkers) -> None:
    """What is registered last comes first: before multiprocessing kills what is left."""
    home, ref = os.getpid(), weakref.ref(kept)

    def end() -> None:
        living = ref()
        if living is not None and os.getpid() == home:
            living.end()

    atexit.register(end)
    weakref.finalize(kept, atexit.unregister, end).atexit = False
