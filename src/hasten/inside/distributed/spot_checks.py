"""Spot checks that what the rehearsal proved about the first steps still holds.

Every rank forks. The forks compute the gradients of their slices, and another fork of rank 0 those of the
whole batch, while the ranks train on; when all are done, the ranks compare the results. Rank 0 decides when:
at growing intervals, and in each new epoch, as long as all checks together cost less than a set share of the
time.
"""

from __future__ import annotations

import os
import sys
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ...saying import say
from ..internals.loaders import workers_of
from ..seams import Call
from .agreement import Agreement
from .batch_norm import averaged_running_statistics
from .forks import Fork, fork, have_memory
from .slicing import Slice
from .step_apart import WIDTH, Alike, StepApart

if TYPE_CHECKING:
    from ..internals.loaders import LoaderIterator
    from .this_rank import ThisRank

SHARE = 0.004  # of the ranks' time for all checks but the first
_FIRST = 50  # passes before the first check: the rehearsal has covered the beginning
_GROWTH = 1.2  # factor on the number of passes until the next check
_MOST_PASSES = 8  # of one batch
_EXACT = 1e-5  # relative, in float64: smaller differences are rounding of something that stayed in float32
_HEAD = 4  # first numbers of a rank's row: whether it failed, its share, whether it counts, passes
_LEAST_SECONDS, _TIMES_SLOWER, _MOST_SECONDS = 60, 40, 600  # after which a fork is killed


@dataclass
class _Check:
    """A check in progress. ``part``: this rank's samples; ``children``: for the slice, in rank 0 also for the
    batch.
    """

    step: int
    part: Slice
    passes: int
    in_float64: bool
    children: list[Fork]


class SpotChecks:
    """``told`` and ``heard`` are called before and after the message of each backward pass; the rest wraps
    the iterators of loaders.
    """

    def __init__(self, this_rank: ThisRank) -> None:
        self._this_rank = this_rank
        self._rank, self._size = this_rank.ranks.rank, this_rank.ranks.world_size
        self._given_up = False
        self._under_way: _Check | None = None
        self._due = 0  # backward passes to check with the next batch; the same in all ranks
        self._in_float64 = True
        self._failures = 0  # one after another
        self._told_of_memory = False
        self._doubts = 0  # one after another
        self._began = time.perf_counter()
        self._passes, self._since_batch, self._per_batch = 0, 0, 1
        self._next, self._epoch_came = _FIRST, False
        self._spent, self._last_cost = 0.0, 0.0  # seconds of processor time of all ranks
        self._fresh: weakref.WeakSet[LoaderIterator] = weakref.WeakSet()  # that begin a new epoch
        self.done = 0
        self.last_proved = 0  # step
        self.apart: StepApart | None = None  # in a fork

    # ---- with each backward pass
    def told(self) -> list[float]:
        """Numbers to sum over the ranks; ``heard`` is given the sums."""
        self._passes += 1
        self._since_batch += 1
        if self._under_way is not None:
            for child in self._under_way.children:
                child.look()
            return [0.0, float(all(child.seconds is not None for child in self._under_way.children))]
        wishes = not self._due and self._rank == 0 and self._is_time()
        return [float(min(max(self._per_batch, self._since_batch), _MOST_PASSES)) if wishes else 0.0, 0.0]

    def heard(self, sums: Sequence[float]) -> str:
        """Why the ranks no longer compute what one process does, or ""."""
        wished, ended = sums
        self._due = self._due or int(wished)
        return self._compared() if ended >= self._size else ""

    def finish(self) -> str:
        """As ``heard``, at the end of the training; all ranks come here."""
        if self._under_way is None:
            return ""
        for child in self._under_way.children:
            child.look(wait=True)
        return self._compared()

    def _is_time(self) -> bool:
        if self._given_up or not (self._passes >= self._next or (self._epoch_came and self.done)):
            return False
        elapsed = time.perf_counter() - self._began
        if self.done and self._spent + self._last_cost > SHARE * elapsed * self._size:
            return False
        if not have_memory(self._size + 1, self._this_rank.training.available_bytes):
            self._next = int(self._passes * _GROWTH) + 1
            if not self._told_of_memory:
                self._told_of_memory = True
                say(
                    f"hasten: at step {self._this_rank.steps + 1} there is too little memory to compare a "
                    "step with one process's; it will be tried again"
                )
            return False
        return True

    # ---- with each batch
    def around_reset(self, original: Call) -> Call:
        """Wraps the reset of a loader's iterator, where an epoch begins."""

        def _reset(iterator: LoaderIterator, *args: object, **kwargs: object) -> object:
            self._fresh.add(iterator)
            return original(iterator, *args, **kwargs)

        return _reset

    def around_next(self, original: Call) -> Call:
        """Wraps ``next`` of a loader's iterator."""

        def __next__(iterator: LoaderIterator) -> object:
            cut = self._this_rank.slicer.is_cut
            if self.apart is not None:  # a fork has no other batch
                if cut(iterator):
                    self.apart.batch_asked()
                elif workers_of(iterator):
                    self.apart.end("the script reads a second loader, whose workers are the training's")
            batch = original(iterator)
            return self._came(iterator, batch) if cut(iterator) else batch

        return __next__

    def _came(self, iterator: LoaderIterator, batch: object) -> object:
        """A batch that was cut has come: returns what the script gets. In a fork that is another batch."""
        self._per_batch, self._since_batch = self._since_batch or self._per_batch, 0
        if iterator in self._fresh:
            self._fresh.discard(iterator)
            self._epoch_came = True
        if not self._due:
            return batch
        passes, self._due = self._due, 0
        self._next, self._epoch_came = int(self._passes * _GROWTH) + 1, False
        return self._forked(iterator, batch, passes)

    def _forked(self, iterator: LoaderIterator, batch: object, passes: int) -> object:
        this_rank, began = self._this_rank, time.perf_counter()
        part, indices = this_rank.slicer.latest, this_rank.slicer.indices
        assert part is not None
        parts = [part] if self._rank else [part, Slice(0, part.whole, part.whole)]
        alike = Alike(
            this_rank.rng.shared_state(),
            averaged_running_statistics(this_rank.communication, this_rank.training.roots),
        )
        per_pass = (began - self._began) / max(1, self._passes)
        seconds = int(min(_MOST_SECONDS, _LEAST_SECONDS + _TIMES_SLOWER * self._size * passes * per_pass))
        children: list[Fork] = []
        for one in parts:
            result = os.memfd_create("hasten-step")
            try:
                child = fork()
            except OSError:  # no more processes, or no memory
                children.append(Fork(0, result, seconds=0.0))
                continue
            if not child:
                self.apart = StepApart(this_rank, one, passes, self._in_float64, result)
                return self.apart.begin(iterator, indices, alike, seconds)
            children.append(Fork(child, result))
        self._under_way = _Check(this_rank.steps + 1, part, passes, self._in_float64, children)
        self._last_cost = (time.perf_counter() - began) * self._size
        return batch

    # ---- what came out; all ranks together
    def _compared(self) -> str:
        check, self._under_way = self._under_way, None
        assert check is not None
        found = [child.told() for child in check.children]
        self._account_for(check)
        why = next((one for one, _ in found if one), "")
        if len({len(passes) for _, passes in found}) > 1:
            why = why or "on the whole batch the script makes a different number of backward passes"
        length = WIDTH * len(self._this_rank.parameters())
        talk = self._this_rank.communication
        rows = talk.gathered(_row(check, bool(why), found[0][1], length))
        whole = torch.zeros(check.passes * length, dtype=torch.float64)
        if not self._rank:
            whole = _row(check, False, found[1][1], length)[_HEAD:]
        talk.sum(whole)
        if bool(rows[:, 0].any()) or len(set(rows[:, 3].tolist())) > 1:
            self._failed(why or "another rank could not compute it", check)
            return ""
        self.done, self._failures = self.done + 1, 0
        return self._verdict(check, rows, whole, int(rows[0, 3]), length)

    def _account_for(self, check: _Check) -> None:
        seconds = [child.seconds or 0.0 for child in check.children]
        self._last_cost += sum(seconds) + seconds[0] * (self._size - 1)
        self._spent += self._last_cost

    def _verdict(
        self, check: _Check, rows: torch.Tensor, whole: torch.Tensor, passes: int, length: int
    ) -> str:
        shares, counts = rows[:, 1].tolist(), [bool(one) for one in rows[:, 2].tolist()]
        for number in range(passes):
            place = slice(number * length, (number + 1) * length)
            if not bool(torch.isfinite(whole[place]).all()):
                return ""  # the training has diverged, and nothing can be said of it
            agreement = Agreement(shares, counts)
            agreement.add(whole[place], rows[:, _HEAD:][:, place].contiguous())
            why = self._why_not(agreement, check)
            if why:
                self._doubts += 1
                if not check.in_float64 and self._doubts == 1:
                    self._next = self._passes  # rounding may have switched a unit: it must be seen twice
                    return ""
                proved = f" (at step {self.last_proved} it still was)" if self.last_proved else ""
                return f"the gradient of step {check.step} is not that of one process{proved}: {why}"
        self._doubts, self.last_proved = 0, check.step
        return ""

    def _why_not(self, agreement: Agreement, check: _Check) -> str:
        loss = self._this_rank.findings.loss
        if check.in_float64:
            return agreement.why_not("float64") if agreement.residual(loss) > _EXACT else ""
        return agreement.why_not("lower") if loss not in agreement.kinds("lower") else ""

    def _failed(self, why: str, check: _Check) -> None:
        """Some rank could not compute it. Some scripts fail in float64 only, so that is tried no more."""
        self._failures += 1
        self._in_float64 = False
        self._next = self._passes + 1
        if self._failures < 2:
            return
        self._given_up = True
        proved = f"the last that was is step {self.last_proved}" if self.last_proved else "none was"
        if not self._rank:
            say(
                f"hasten: from step {check.step} on no step can be compared with one process's ({proved}): "
                f"{why}. The ranks are still compared with each other"
            )


def can_check(device: str) -> bool:
    """Whether this process may fork in the middle of a training on ``device``."""
    return device == "cpu" and sys.platform == "linux"


def _row(check: _Check, failed: bool, passes: Sequence[Sequence[float]], length: int) -> torch.Tensor:
    """What a rank tells the others, of the same length in all of them."""
    row = torch.zeros(_HEAD + check.passes * length, dtype=torch.float64)
    failed = failed or any(len(one) != length for one in passes) or not passes
    row[:_HEAD] = torch.tensor([failed, check.part.share, check.part.counts, len(passes)])
    if not failed:
        flat = torch.tensor([number for one in passes for number in one], dtype=torch.float64)
        row[_HEAD : _HEAD + len(flat)] = flat
    return row
