"""Numbers in words, the same everywhere."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from ..records.observation import GpuMemory, Observation, Root
from ..records.plan import Plan, Settings
from ..records.result import Tried
from ..records.trial import Ratio
from ..units import seconds_words

_MOST_NAMED = 8  # trainings of one script


def ratio_words(ratio: Ratio | None) -> str:
    """A ratio of times as a speedup with its interval: "1.31x (1.28 to 1.34)"."""
    if ratio is None:
        return "-"
    speedup = ratio.inverted()
    return f"{speedup.value:.2f}x ({speedup.low:.2f} to {speedup.high:.2f})"


def technique_words(name: str, settings: Settings) -> str:
    """A technique with its settings: "threads (count=1)"."""
    return f"{name} ({settings_words(settings)})" if settings else name


ONE_OF = {
    "evaluation": "evaluation",
    "first batches": "beginning of an epoch",
    "epoch turns": "turn of an epoch",
}
"""What comes by, one of it, by the part of a run that it is."""


def parts_words(parts: Sequence[str]) -> str:
    """Parts of a run: "evaluation and saving"."""
    names = ["garbage collection" if part == "garbage" else part for part in parts]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def settings_words(settings: Settings) -> str:
    """Those of one technique: "count=2, bind=cores"."""
    return ", ".join(f"{key}={value}" for key, value in settings.items())


def tried_words(row: Tried) -> str:
    """What a row is about: a technique with its settings, or "environment, 4 together"."""
    if row.together:
        return f"{row.technique}, {len(row.together.techniques)} together"
    return technique_words(row.technique, row.settings)


def measured_words(ratio: Ratio | None) -> str:
    """How often it was measured: "5 ABBA", "10 pairs", "-" for never."""
    return f"{ratio.count} {ratio.unit.removesuffix(' blocks')}" if ratio is not None else "-"


def earlier_words(row: Tried) -> str:
    """What is to be added to a row that an earlier tune has measured."""
    return " (by an earlier tune)" if row.earlier else ""


def with_words(plan: Plan) -> str:
    """In combination with what a technique was tried: "malloc + bf16", "4 others", "-" for nothing."""
    if not plan:
        return "-"
    return plan.label if len(plan.techniques) < 3 else f"{len(plan.techniques)} others"


def number_words(value: float) -> str:
    """With two significant digits at least, and no more decimals than that takes: "4,507", "3.1", "0.043"."""
    return _significant(value, 2)


def percent_words(share: float, digits: int) -> str:
    """With so many significant digits: 0.0006512 is "0.065%" with two."""
    return f"{_significant(100 * share, digits)}%"


def _significant(value: float, digits: int) -> str:
    """No digit before the point is left out."""
    decimals = digits - 1 - math.floor(math.log10(abs(value))) if value else 0
    return f"{value:,.{max(0, decimals)}f}"


def rate_words(samples: float | None, seconds: float) -> str:
    """What to add to a step's time: ", 4,507 samples a second"; "" where samples are unknown."""
    return f", {number_words(samples / seconds)} samples a second" if samples and seconds else ""


def step_words(observation: Observation) -> str:
    """What counts as a step, what repeats, and per what times are compared."""
    if observation.step_said:
        step = "a step is what the script says by hasten.step()"
    elif observation.optimizers:
        step = "a step is one step of an optimizer"
    else:
        step = "a step is one backward pass (the script has no optimizer)"
    forwards, backwards = (_usual_words([s.signature[at] for s in observation.steps]) for at in (1, 2))
    if observation.cycle == 1 and (forwards, backwards) != ("1", "1"):
        step += f", with {forwards} forward and {backwards} backward passes"
    if observation.cycle > 1:
        step += f"; a block is {observation.cycle} of them, after which the pattern repeats"
    per = "sample" if observation.batch_size else "step, as it is not clear how many samples take part"
    usual = ", as of batches of the usual size" if observation.growth else ""
    return f"{step}; times are compared per {per}{usual}"


def _usual_words(counts: Sequence[int]) -> str:
    """The number that most of them are, or from which to which they go: "4 to 11"."""
    if not counts:
        return "1"
    usual, times = Counter(counts).most_common(1)[0]
    return str(usual) if times > len(counts) / 2 else f"{min(counts)} to {max(counts)}"


def trainings_words(observation: Observation) -> str:
    """Where there are several, one after the other: how long each is, and which the timed steps are of."""
    lengths = observation.trainings
    timed = observation.warmup_steps + len(observation.steps)
    number = next((n for n, until in enumerate(accumulate(lengths), 1) if timed <= until), len(lengths))
    of = "the first" if number == 1 else f"the first {number}"
    so_far = "" if observation.run is not None and observation.run.ended else " so far"
    return (
        f"trains {len(lengths)} times{so_far}, one after the other: {_each_words(lengths)}; the steps timed "
        f"above are of {of}, and models and optimizers that are gone are not listed"
    )


def _each_words(lengths: Sequence[int]) -> str:
    """The steps of each training; of many, how few and how many they have."""
    if len(lengths) <= _MOST_NAMED:
        return f"{parts_words([str(steps) for steps in lengths])} steps"
    least, most = min(lengths), max(lengths)
    return f"{least} steps each" if least == most else f"{least} to {most} steps each"


def parameters_words(root: Root) -> str:
    """How many are trained; a copy that averages them, or a frozen part, is not."""
    if root.trained in (None, root.parameters):
        return f"{root.parameters:,} parameters"
    return f"{root.trained:,} of {root.parameters:,} parameters"


def gpu_memory_words(memory: GpuMemory) -> str:
    """What a GPU's memory was needed for, and whether there was too little."""
    gib = 2**30
    words = (
        f"takes {memory.allocated_bytes / gib:.2f} of {memory.device}'s {memory.total_bytes / gib:.0f} GiB "
        f"at most, {memory.reserved_bytes / gib:.2f} with what torch keeps for reuse"
    )
    return words + (f"; it ran short {memory.retries} times" if memory.retries else "")


def lasting_words(seconds: float) -> str:
    """Of set-up that later runs do not pay again."""
    return f"; later runs read what {seconds_words(seconds)} of that have made" if seconds else ""
