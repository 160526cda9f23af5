"""After how many steps a script repeats itself: a GAN trains its parts in turns."""

from __future__ import annotations

from collections.abc import Sequence


def cycle_length(
    signatures: list[tuple[int, int, int]], took_batch: Sequence[bool] = (), longest: int = 16
) -> int:
    """Steps in one repeating block of the script: the shortest period of the steps' signatures.

    A signature is (optimizer, forward passes, backward passes). The number of passes may depend on the data,
    as with a decoder called for each word: then it only counts whether there are any. ``took_batch``: whether
    a loader gave a batch in each step; where at most half of them got one, each batch may be trained on
    several times. If there is no period with that, it does not count. 1 if no period is found.
    """
    if 2 * sum(took_batch) > len(took_batch):
        took_batch = ()
    whether = [(optimizer, forwards > 0, backwards > 0) for optimizer, forwards, backwards in signatures]
    taken = [
        [(*one, took) for one, took in zip(ones, took_batch, strict=False)] for ones in (signatures, whether)
    ]
    without = _period(signatures, longest) or _period(whether, longest) or 1
    return max(without, _period(taken[0], longest) or _period(taken[1], longest))


def _period(signatures: Sequence[tuple[int, ...]], longest: int) -> int:
    """The shortest period; 0 if there is none. A remainder at an epoch's end may break the pattern, so nine
    steps in ten must follow it.
    """
    for period in range(1, min(longest, len(signatures) // 2) + 1):
        pairs = list(zip(signatures, signatures[period:], strict=False))
        if sum(a == b for a, b in pairs) >= 0.9 * len(pairs):
            return period
    return 0
