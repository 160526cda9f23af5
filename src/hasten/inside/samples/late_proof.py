"""Proof that batches whose pictures become tensors late are the script's own.

A forked child, in which nothing can disturb the training, makes some samples both ways from the same RNG
state. Batches must be equal in every byte and stride, the RNG states must end up the same, and neither the
data set nor its transforms may change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from ..process.own_offsets import open_files_anew
from ..random_state import fingerprint, rng_states, set_rng_states
from .columns import same_batch
from .late_dataset import LateDataset
from .late_pictures import collate, holds_pixels
from .sampling_proof import incomparable, spread, state_of, states_of, told_apart
from .shared_memory import why_not_apart

_SECONDS = 1.0  # after which what was made so far decides
_PATIENCE_SECONDS = 30.0


@dataclass(frozen=True)
class Proven:
    """``reason``: why samples are left as they are, "" if they are proven. ``kinds``: for each ``Late``
    of the data set what it may delay.
    """

    reason: str
    kinds: list[dict[str, int]] = field(default_factory=list)
    channels_last: bool = False

    def trusted(self, torch: ModuleType, dataset: object) -> LateDataset:
        """The data set as it is now. Raises LookupError if it differs from the proven one."""
        late = LateDataset(torch, dataset)
        if len(late.lates) != len(self.kinds):
            raise LookupError(f"{type(dataset).__name__} has other transforms than before")
        for one, kinds in zip(late.lates, self.kinds, strict=True):
            one.trust(kinds)
            one.channels_last = self.channels_last
        return late


def proven(torch: ModuleType, dataset: Any, length: int) -> Proven:
    """Raises LookupError if there is nothing to delay."""
    name = type(dataset).__name__
    LateDataset(torch, dataset)
    if reason := why_not_apart(dataset):
        return Proven(reason)
    told = told_apart(torch, lambda: _answer(torch, dataset, length), _PATIENCE_SECONDS)
    if told is None:
        return Proven(f"making samples of {name} in a separate process did not end")
    reason, kinds, channels_last = told
    return Proven(reason, kinds, channels_last)


def _answer(torch: ModuleType, dataset: Any, length: int) -> tuple[str, list[dict[str, int]], bool]:
    """All that the child does."""
    name = type(dataset).__name__
    try:
        open_files_anew()
        late = LateDataset(torch, dataset)
        kinds = [one.prove() for one in late.lates]
        for one, found in zip(late.lates, kinds, strict=True):
            one.trust(found)
        if not any(kinds):
            return f"the last transforms of {name} do more than scale a picture's bytes", [], False
        reason, channels_last = _compare(torch, dataset, late, length)
    except Exception as error:
        return f"making a sample of {name} again failed: {error!r}"[:500], [], False
    return reason, kinds, channels_last


def _compare(torch: ModuleType, dataset: Any, late: LateDataset, length: int) -> tuple[str, bool]:
    name = type(dataset).__name__
    before = _state(late)
    theirs, ours = [], []
    for index in spread(length, _SECONDS):
        start = rng_states(torch)
        sample, end = dataset[index], fingerprint(torch)
        set_rng_states(torch, start)
        made = late.copy[index]
        if kind := incomparable(sample):
            return f"samples of {name} hold {kind} objects, which cannot be compared byte by byte", False
        if fingerprint(torch) != end:
            return f"the transforms of {name} that turn pictures into tensors draw random numbers", False
        theirs.append(sample)
        ours.append(made)
    if not theirs:
        return f"{name} has no length: its samples cannot be compared before they are used", False
    if not all(map(holds_pixels, ours)):
        return f"the transforms of {name} make tensors of something other than pictures of bytes", False
    if _state(late) != before:
        return f"making a sample of {name} changes the dataset's own state", False
    channels_last = _layout(torch, late, theirs, ours)
    if channels_last is None:
        return f"batches of {name} differ when its pictures become tensors together", False
    return "", channels_last


def _state(late: LateDataset) -> list[object]:
    return [*states_of(late.copy), *states_of(late.dataset), *map(state_of, late.tails)]


def _layout(
    torch: ModuleType, late: LateDataset, theirs: Sequence[object], ours: Sequence[object]
) -> bool | None:
    """Whether the script's batches lie in memory channels last; None if ours differ either way."""
    default_collate = torch.utils.data.default_collate
    expected = [[_outcome(default_collate, [one]) for one in theirs], _outcome(default_collate, theirs)]
    for channels_last in (False, True):
        for one in late.lates:
            one.channels_last = channels_last
        if same_batch([[_outcome(collate, [one]) for one in ours], _outcome(collate, ours)], expected):
            return channels_last
    return None


def _outcome(make: Callable[[Any], object], samples: Sequence[object]) -> object:
    """The batch, or the kind of error: samples of different sizes do not make a batch."""
    try:
        return make(samples)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
