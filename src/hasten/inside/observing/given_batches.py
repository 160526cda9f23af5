"""How large a step's batches are, if they may come from several loaders."""

from __future__ import annotations


class GivenBatches(dict[int, tuple[int, int]]):
    """For each pass over a loader: the samples that it gave, and the numbers in their tensors.

    Of loaders read in parallel, the one that gave most counts, not the sum: ``itertools.cycle`` repeats the
    batches of the shorter one without asking it, and the steps after that are no smaller.
    """

    def add(self, source: int, samples: int, elements: int) -> None:
        before = self.get(source, (0, 0))
        self[source] = before[0] + samples, before[1] + elements

    def take_in(self, others: GivenBatches) -> None:
        """Move the batches of ``others`` here."""
        for source, (samples, elements) in others.items():
            self.add(source, samples, elements)
        others.clear()

    def most(self) -> tuple[int, int]:
        """Samples and numbers of one pass; zeros if no batch came."""
        return max(self.values(), default=(0, 0))
