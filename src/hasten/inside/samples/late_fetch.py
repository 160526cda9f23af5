"""Makes batches of pictures that become tensors together, in the training process and in loaders' workers.

If anything goes wrong in making one, the batch is made as without us, from the same RNG state. Now and then a
sample is also made as without us, and compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from ..internals.loaders import collating
from ..internals.other_functions import leaves
from ..random_state import State, rng_states, set_rng_states
from ..seams import Call
from .columns import same_batch
from .fetching import Fetcher, samples_of
from .late_dataset import same_objects
from .late_pictures import Gather, Pixels, collate, floats_of
from .late_proof import Proven
from .store_counts import Counts
from .worker_entry import fetch_by, listed

BETWEEN_CHECKS = 64  # batches


class LateBatches:
    """For one data set, in one process, for one pass. ``slot``: where it counts; ``gather`` as for
    ``collate``.
    """

    def __init__(
        self,
        torch: ModuleType,
        dataset: Any,
        proof: Proven,
        counts: Counts,
        slot: int,
        gather: Gather = floats_of,
    ) -> None:
        """Raises LookupError if the data set differs from the proven one."""
        self._gather = gather
        self._torch = torch
        self.dataset = dataset
        self._proof = proof
        self._counts = counts
        self._slot = slot
        self._until_check = 1
        self._late = proof.trusted(torch, dataset)

    def batch(self, indices: Any) -> object:
        """The batch; None if it must be made as without us."""
        wanted = listed(indices)
        if not wanted or self._counts.given_up or not self._is_right_now():
            return None
        before = rng_states(self._torch)
        try:
            batch = self._collated(samples_of(self._late.copy, wanted))
            checked = self._checked(wanted[0], before)
        except Exception as error:
            set_rng_states(self._torch, before)
            batch = self._as_without_us(wanted)  # raises the samples' own errors
            self._counts.give_up(f"a batch could not be made ({type(error).__name__}: {error})")
            return batch
        self._counts.add(self._slot, len(wanted), 0, checked)
        return batch

    def _collated(self, samples: Sequence[object]) -> object:
        """Raises TypeError if what should become floats later could not be found again."""
        if self._gather is floats_of:
            return collate(samples)
        put: list[object] = []

        def gather(pictures: Sequence[Pixels]) -> object:
            put.append(self._gather(pictures))
            return put[-1]

        batch = collate(samples, gather)
        found = {id(leaf) for leaf in leaves(self._torch, batch)}
        if any(id(one) not in found for one in put):
            raise TypeError(f"a {type(batch).__name__} holds them")
        return batch

    def _as_without_us(self, indices: Sequence[Any]) -> object:
        self.left(len(indices))
        return self._torch.utils.data.default_collate(samples_of(self.dataset, indices))

    def left(self, samples: int) -> None:
        """This many were made as without us."""
        self._counts.add(self._slot, 0, samples, 0)

    def _is_right_now(self) -> bool:
        """Examines the script's data set, which may have changed, and adopts its current state."""
        if self._torch.get_default_dtype() != self._torch.float32:
            return False
        if not self._late.is_as_it_was:
            try:
                now = self._proof.trusted(self._torch, self.dataset)
            except LookupError:
                return False
            if not same_objects(now.tails, self._late.tails):
                return False
            self._late = now
        return True

    def _checked(self, index: Any, before: State) -> int:
        """Compare a sample with the script's own, at first and after every few batches; RNG states stay as
        they are. Raises ValueError.
        """
        self._until_check -= 1
        if self._until_check:
            return 0
        self._until_check = BETWEEN_CHECKS
        torch, after = self._torch, rng_states(self._torch)
        try:
            set_rng_states(torch, before)
            theirs = torch.utils.data.default_collate([self.dataset[index]])
            set_rng_states(torch, before)
            ours = collate([self._late.copy[index]])
        finally:
            set_rng_states(torch, after)
        if not same_batch(ours, theirs):
            raise ValueError(f"sample {index} differs")
        return 1


class HandedProof:
    """What a worker process needs to make batches this way."""

    def __init__(self, proof: Proven, counts: Counts, gather: Gather) -> None:
        self._proof, self._counts, self._gather = proof, counts, gather
        self._first_slot = counts.take()

    def serve(self, dataset: Any, worker: int) -> None:
        import torch

        slot = self._first_slot + worker
        late = LateBatches(torch, dataset, self._proof, self._counts, slot, self._gather)
        fetch_by(dataset, lambda fetcher, how: LateFetch(fetcher, late, is_usual(torch, how)))


class LateFetch:
    """A worker's fetcher. ``usual``: batches are made by torch's own default_collate."""

    def __init__(self, fetcher: Fetcher, late: LateBatches, usual: bool) -> None:
        self._fetcher, self._late, self._usual = fetcher, late, usual

    def fetch(self, indices: Any) -> object:
        batch = self._late.batch(indices) if self._usual else None
        if batch is None:
            self._late.left(len(listed(indices) or ()))
            return self._fetcher.fetch(indices)
        return batch


def is_usual(torch: ModuleType, collate: Call) -> bool:
    """Whether batches are made by torch's own functions, which a script may have replaced."""
    functions = collating()
    return (
        collate is torch.utils.data.default_collate
        and functions.default_collate_fn_map[torch.Tensor] is functions.collate_tensor_fn
    )
