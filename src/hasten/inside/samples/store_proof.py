"""What is proven before samples are kept in a store, and before an existing store is trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from .draws_in_samples import Drawing
from .files_read import has_changed
from .sampling_proof import drawn_apart, prove_deterministic, same_sample, spread, states_of
from .store_files import Store
from .stored_form import Unstorable, decode, encode
from .transform_prefix import Divided, divide, has_transforms

_BOTH_WAYS = 8  # samples that must survive a round trip through bytes


@dataclass(frozen=True)
class Proven:
    """``why_not``: "" if samples may be kept; ``prefix``: up to so many transforms, None for whole ones.
    ``sample_bytes``: of the largest that was looked at.
    """

    why_not: str
    prefix: int | None = None
    sample_bytes: int = 0


def prove(torch: ModuleType, dataset: Any, length: int) -> Proven:
    """Whether making samples, or their first transforms, gives the same each time."""
    reason, sample_bytes = prove_deterministic(torch, dataset, length)
    if not reason:
        return Proven("", None, sample_bytes)
    if not has_transforms(dataset):
        return Proven(reason)
    divided, sample_bytes = divide(torch, dataset, length)
    if isinstance(divided, str):
        return Proven(f"{reason}; and of its transforms: {divided}")
    return Proven("", divided.count, sample_bytes)


def division(dataset: Any, prefix: int | None) -> Divided | str | None:
    """The data set divided after this many transforms; why it cannot be; None for whole samples."""
    if prefix is None:
        return None
    try:
        return Divided(dataset, prefix)
    except Exception as error:  # whatever copying objects of the script's raises
        return str(error)


def sample_of(dataset: Any, divided: Divided | None, index: int) -> object:
    """The kept part of a sample, made by the data set."""
    return dataset[index] if divided is None else divided.make(index)


def why_not_equal(
    torch: ModuleType, store: Store, dataset: Any, divided: Divided | None, chosen: list[int]
) -> str:
    """Why the store's samples differ from the data set's; "" if the chosen ones do not."""

    def compare() -> tuple[str, int]:
        drawing, state, name = Drawing(torch, dataset, apart=True), states_of(dataset), type(dataset).__name__
        for index in chosen:
            kept = store.read(index)
            if kept is None or has_changed(kept.files):
                continue  # it is made again whenever it is asked for
            fresh = sample_of(dataset, divided, index)
            if not same_sample(fresh, decode(torch, kept.layout, kept.body, copied=False)):
                return f"sample {index} of {name} is not as it was kept", 0
        if drawing.drew:
            return f"drawing a sample of {name} draws random numbers", 0
        return (f"drawing a sample of {name} changes the data set" if states_of(dataset) != state else ""), 0

    return drawn_apart(torch, dataset, compare)[0]


def why_not_kept(torch: ModuleType, dataset: Any, divided: Divided | None, places: Sequence[int]) -> str:
    """Why samples do not survive a round trip through bytes; "" if they do."""
    name = type(dataset).__name__

    def look() -> tuple[str, int]:
        for number, _ in zip(spread(len(places)), range(_BOTH_WAYS), strict=False):
            index = places[number]
            sample = sample_of(dataset, divided, index)
            try:
                layout, body = encode(sample)
            except Unstorable as error:
                return f"samples of {name} hold {error}, which cannot be kept as plain bytes", 0
            if not same_sample(sample, decode(torch, layout, memoryview(bytearray(body)), copied=True)):
                return f"sample {index} of {name} does not come back from its bytes as it was", 0
        return "", 0

    return drawn_apart(torch, dataset, look)[0]
