"""Samples of one data set, kept in memory."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

from ..random_state import restorer, rng_states, set_rng_states
from ..training import NotApplicable
from .cache_source import CacheSource
from .columns import Columns, Uneven
from .draws_in_samples import Drawing
from .files_noted import FilesNoted, opened
from .files_read import mark_of
from .forked_filling import cores, made_in_parallel
from .made_records import Made
from .own_objects import own_objects
from .sample_room import SampleRoom
from .samples_ahead import InOrder
from .sampling_proof import same_sample
from .transform_prefix import Divided
from .visible_state import State, difference, visible_state

_SPOT_CHECKS = 4  # samples compared with the dataset again at every pass over the cache
_MOST_CHANGES = 3  # between passes: a data set that changes more often gains nothing from a cache


class Cache:
    """Samples of one dataset by index, made on first use.

    They take ``needed`` bytes of ``room``. ``divided``: what is kept is unfinished, and is completed to a
    sample each time it is requested.
    """

    def __init__(
        self, dataset: object, room: SampleRoom, needed: int, divided: Divided | None = None
    ) -> None:
        self.source = CacheSource(dataset, divided)
        self.hits = 0
        self.made = 0
        self.stale = ""
        self.uneven = "samples have random transforms" if divided is not None else ""
        self._samples: dict[int, object] = {}
        self._columns: Columns | None = None
        self._since_check = 0
        self._own: str | None = None
        self._files = FilesNoted()
        self._room, self._needed, self._taken = room, needed, 0
        self._take()
        self._changes = 0
        self._seen: State | None = self._look()
        self._drawing = Drawing(sys.modules["torch"], self.source.made_from)
        self._ahead = InOrder()

    @property
    def dataset(self) -> Any:
        """Only valid while the script has it."""
        return self.source.dataset

    # ---- room
    def _take(self) -> None:
        self._room.take(self._needed)
        self._taken += self._needed

    def drop(self) -> None:
        """Drop it: it is not used again."""
        self._empty()
        self._room.give_back(self._taken)
        self._taken = 0

    # ---- changes that set no attribute
    def look_again(self) -> None:
        """A new pass begins: check that nothing changed, nor a file that samples were made from."""
        if self.stale:
            return
        before, self._seen = self._seen, self._look()
        changed = difference(before, self._seen) if before is not None else ""
        changed = changed or self._files.changed()
        if changed:
            self._changes += 1
            self._empty()
        if changed or before is None:
            self._drawing = Drawing(sys.modules["torch"], self.source.made_from)
        if changed and (self.source.is_divided or self._changes > _MOST_CHANGES):
            self._give_up(f"{changed} was changed")

    def _look(self) -> State:
        return visible_state(self.source.made_from, lenient=True)

    # ---- samples
    def __getitem__(self, index: int) -> object:
        if not (self.stale or self.source.is_intact):
            self._give_up("the transforms were replaced")
        if self.stale:
            self.made += 1
            return self.dataset[index]
        sample = self._samples.get(index, self)
        if sample is self:
            self._drawing.begin()
            with self._files.noting():
                sample = self._samples[index] = self.source.make(index)
            self.made += 1
            if self._drawing.drew:
                self._give_up(f"making sample {index} drew random numbers")
        else:
            self.hits += 1
            if self._check_is_due(1):
                sample = self._checked(index, sample)
        return self.source.finish(sample)

    def several(self, indices: Sequence[int]) -> list[object]:
        """The samples with these indices. Whether making one draws random numbers is looked at once for all:
        that takes longer than to make a small sample.
        """
        if indices and not (self.source.is_divided or self.stale):
            self._make_ahead(self._ahead.before(indices, len(self.dataset)))
        if self.source.is_divided or self.stale:
            return [self[index] for index in indices]
        kept = {index: self._samples[index] for index in indices if index in self._samples}
        missing = [index for index in dict.fromkeys(indices) if index not in kept]
        if not missing:
            return [self[index] for index in indices]
        self._drawing.begin()
        with self._files.noting():
            new = {index: self.source.make(index) for index in missing}
        self.made += len(missing)
        self.hits += len(indices) - len(missing)
        if self._drawing.drew:
            self._give_up(f"making sample {missing[0]}, or one after it, drew random numbers")
        else:
            self._samples.update(new)
        return [new[index] if index in new else kept[index] for index in indices]

    def _make_ahead(self, coming: Sequence[int]) -> None:
        """Only in the main thread: while another one reads, that one may draw random numbers."""
        if not any(index not in self._samples for index in coming):
            return
        if threading.current_thread() is not threading.main_thread() or cores() == 1:
            self._ahead.off = True
            return
        try:
            self.fill(sys.modules["torch"], coming)
        except Exception:  # any: the script will see what is wrong with a sample when it asks for it
            self._ahead.off = True

    def gives_the_same(self, index: Any, number: int) -> bool:
        """Whether the dataset makes the same sample for ``index``, which is ``number`` in another type."""
        if self.source.is_divided:  # whose transforms would draw random numbers
            return False
        return same_sample(self.dataset[index], self.source.make(number))

    def gives_copies(self, torch: ModuleType) -> bool:
        """Whether copies may stand for the samples where a script's own function makes batches of them. If
        not, it is given up.
        """
        if self._own is None:
            self._own = own_objects(torch, self.dataset, len(self.dataset))
            if self._own and not self.stale:
                self.stale = self._own
                self.drop()
        return not self._own

    @property
    def remark(self) -> str:
        """How the samples are kept, if that is worth saying."""
        return self.stale or self.source.remark

    def columns(self, torch: ModuleType) -> Columns | None:
        """All samples in columns, once all are made, if possible."""
        if self._columns is None and not (self.stale or self.uneven):
            length = len(self.dataset)
            if len(self._samples) >= length and all(index in self._samples for index in range(length)):
                self._lay(torch, [self._samples[index] for index in range(length)])
        return self._columns

    def _lay(self, torch: ModuleType, samples: list[object]) -> None:
        if self._room.why_not("", self._needed):
            self.uneven = "there is no room for a second copy of the samples"
            return
        try:
            self._columns = Columns(torch, samples)
            self._take()
        except Uneven as error:
            self.uneven = str(error)

    def batch(self, torch: ModuleType, indices: list[int]) -> object:
        """A batch gathered from ``columns``; None if it cannot be."""
        columns = self.columns(torch)
        found = columns.batch(indices) if columns is not None else None
        if found is None:
            return None
        if self._check_is_due(len(indices)):
            self._checked(indices[0], self._samples[indices[0]])
            if self.stale:
                return None
        self.hits += len(indices)
        return found

    def _check_is_due(self, samples: int) -> bool:
        self._since_check += samples
        if self._since_check * _SPOT_CHECKS < len(self._samples):
            return False
        self._since_check = 0
        return True

    def _checked(self, index: int, sample: object) -> object:
        """Compares a sample with the dataset's own, to find changes that set no attribute (such as an array
        modified in place).
        """
        fresh = self.source.make(index)
        if not same_sample(fresh, sample):
            self._give_up(f"sample {index} changed")
        return fresh

    def _give_up(self, why: str) -> None:
        self.stale = f"{why} while training: the cache was given up"
        self.drop()

    def _empty(self) -> None:
        self._samples.clear()
        self._files.clear()
        if self._columns is not None:
            self._columns = None
            self._room.give_back(self._needed)
            self._taken -= self._needed

    def fill(self, torch: ModuleType, wanted: Sequence[int] | None = None) -> None:
        """Make all samples, or those that are ``wanted``. Raises NotApplicable if the dataset cannot make one
        of them, or if making one draws random numbers although the examined ones did not: then the generators
        are as before.
        """
        before, put_back = rng_states(torch), [restorer(one) for one in self._drawing.generators]
        self._drawing.begin()
        try:
            self._fill(torch, range(len(self.dataset)) if wanted is None else wanted)
        finally:
            if drew := self._drawing.drew:
                set_rng_states(torch, before)
                for put in put_back:
                    put()
        if drew:
            self._give_up("making some of its samples draws random numbers")
            raise NotApplicable(f"making some samples of {type(self.dataset).__name__} draws random numbers")

    def _fill(self, torch: ModuleType, wanted: Sequence[int]) -> None:
        missing = [index for index in wanted if index not in self._samples]
        generators = self._drawing.generators
        self.take(made_in_parallel(torch, self._surely_made, missing, generators, _same_made))

    def take(self, made: Iterable[tuple[int, Made]]) -> None:
        """Keep samples by index, each with files that it was made from."""
        for index, (sample, files) in made:
            self._samples[index] = sample
            self._files.add(files)

    @property
    def is_empty(self) -> bool:
        return not self._samples

    def kept(self) -> Iterator[tuple[int, Made]]:
        """All samples that are kept, as ``take`` wants them; the first with the files of all."""
        files = self._files.marks
        for index, sample in self._samples.items():
            yield index, (sample, files)
            files = []

    def _surely_made(self, index: int) -> Made:
        """The sample, and the files that it was made from."""
        try:
            with opened() as heard:
                sample = self.source.make(index)
        except Exception as error:
            name = type(self.dataset).__name__
            raise NotApplicable(f"sample {index} of {name} raised {type(error).__name__}: {error}") from error
        return sample, list(map(mark_of, heard))

    def invalidate_if_made_from(self, part: object) -> None:
        """Empty the cache if the samples are made from ``part``, which the script has changed."""
        if not any(part is known for known in self.source.parts):
            return
        self._empty()
        self._seen = None  # it is examined again when the next pass begins
        if self.source.is_divided:  # what was proven about its transforms may no longer hold
            self._give_up("the dataset was changed")


def _same_made(ours: Made, theirs: Made) -> bool:
    """Whether the samples are; a file that is opened once is among those of the first."""
    return same_sample(ours[0], theirs[0])
