"""DataLoaders built with other batch sizes than the script asks for, where they draw in random order."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from fractions import Fraction
from types import ModuleType
from typing import Any

from ....records.observation import Loader
from ...samples.dataset_traits import length_of
from ...seams import Call
from ...training import Training


def is_large_enough(loader: Loader, factor: int) -> bool:
    """Whether its batches can be ``factor`` times as large. Not for a stream or a batch sampler."""
    known = loader.samples is not None and not loader.iterable and loader.batch_size is not None
    return known and loader.batch_size * factor <= loader.samples  # type: ignore[operator]


@dataclass
class LargerBatches:
    """What was done to loaders. ``factor``: times as many samples, or below 1 so many fewer, but at least
    one. ``sizes``: by dataset, the batch size as written and as built.
    """

    factor: int | Fraction
    sizes: dict[int, tuple[int, int]] = field(default_factory=dict)
    datasets: list[object] = field(default_factory=list)  # kept alive, so that their ids are not reused
    why_not: str = ""

    def build(self, training: Training) -> None:
        """From now on loaders are enlarged as they are built: only then does the script see their length."""
        from torch.utils.data import DataLoader

        signature = inspect.signature(vars(DataLoader)["__init__"])

        def building(original: Call) -> Call:
            def __init__(loader: DataLoader[object], *args: object, **kwargs: object) -> None:
                try:
                    bound = signature.bind(loader, *args, **kwargs)
                except TypeError:
                    original(loader, *args, **kwargs)  # which raises its own error
                    return
                self.change(bound.arguments, training.torch)
                original(*bound.args, **bound.kwargs)

            return __init__

        training.seams.replace(DataLoader, "__init__", building)

    def change(self, arguments: dict[str, Any], torch: ModuleType) -> None:
        """Enlarge the batch among the ``arguments`` of a loader about to be built, if it trains."""
        dataset, size = arguments.get("dataset"), arguments.get("batch_size", 1)
        if (
            size is None
            or arguments.get("batch_sampler") is not None
            or not _in_random_order(arguments, torch)
        ):
            return
        if self.sizes.get(id(dataset), (0, 0))[1] == size:
            return  # built anew from one of ours, as Lightning does
        samples, wanted = length_of(dataset), max(1, int(size * self.factor))
        if samples is None or wanted > samples:
            self.why_not = f"a batch of {wanted} is more than the {samples} samples there are"
            return
        self.sizes[id(dataset)] = (size, wanted)
        self.datasets.append(dataset)
        arguments["batch_size"] = wanted


def _in_random_order(arguments: dict[str, Any], torch: ModuleType) -> bool:
    data = torch.utils.data
    if isinstance(arguments.get("dataset"), data.IterableDataset):
        return False
    sampler = arguments.get("sampler")
    if sampler is None:
        return bool(arguments.get("shuffle"))
    return not isinstance(sampler, data.SequentialSampler) and bool(getattr(sampler, "shuffle", True))
