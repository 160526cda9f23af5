"""How large a step's batches are, where several loaders may give them."""

from __future__ import annotations


class GivenBatches(dict[int, tuple[int, int]]):
    """Of each pass over a loader: the samples that it gave, and the numbers in their tensors.

    Of loaders read side by side the one that gave most counts, and no sum: ``itertools.cycle`` gives the
    batches of the shorter one again without asking it, and the steps after that are no smaller.
    """

    def add(self, source: int, samples: int, elements: int) -> None:
        before = self.get(source, (0, 0))
        self[source] = before[0] + samples, before[1] + elements

    def take_in(self, others: GivenBatches) -> None:
        """They are given here, and no longer there."""
        for source, (samples, elements) in others.items():
            self.add(source, samples, elements)
        others.clear()

    def most(self) -> tuple[int, int]:
        """Samples and numbers of one pass; zeros where no batch came."""
        return max(self.values(), default=(0, 0))
