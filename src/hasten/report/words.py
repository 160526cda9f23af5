"""Numbers as text, the same everywhere."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from ..records.observation import STEPS_IN_BACKWARD, GpuMemory, Observation, Optimizer, Root
from ..records.plan import Plan, Settings
from ..records.result import Tried
from ..records.trial import Ratio
from ..units import counted, seconds_words

_MOST_NAMED = 8  # trainings of one script that are listed
_MOST_LISTED = 4  # optimizers of one kind


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
"""The name of one occurrence of a part of a run."""


def parts_words(parts: Sequence[str]) -> str:
    """Names of parts of a run: "evaluation and saving"."""
    names = ["garbage collection" if part == "garbage" else part for part in parts]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def settings_words(settings: Settings) -> str:
    """Settings of one technique, with values as --use takes them: "count=2, persistent_workers=true"."""
    return ", ".join(f"{key}={_value(value)}" for key, value in settings.items())


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def tried_words(row: Tried) -> str:
    """What a row is about: a technique with its settings, or "environment, 4 together"."""
    if row.together:
        return f"{row.technique}, {len(row.together.techniques)} together"
    return technique_words(row.technique, row.settings)


def measured_words(ratio: Ratio | None) -> str:
    """How often it was measured: "5 ABBA", "10 pairs", "-" for never."""
    return f"{ratio.count} {ratio.unit.removesuffix(' blocks')}" if ratio is not None else "-"


def earlier_words(row: Tried) -> str:
    """What to add to a row that an earlier tune measured."""
    return " (from an earlier tune)" if row.earlier else ""


def with_words(plan: Plan) -> str:
    """What a technique was tried in combination with: "malloc + bf16", "4 others", "-" for nothing."""
    if not plan:
        return "-"
    return plan.label if len(plan.techniques) < 3 else f"{len(plan.techniques)} others"


def number_words(value: float) -> str:
    """A number with at least two significant digits, and only the decimals that needs: "4,507", "3.1",
    "0.043".
    """
    return _significant(value, 2)


def percent_words(share: float, digits: int) -> str:
    """A share in percent with this many significant digits: 0.0006512 is "0.065%" with two."""
    return f"{_significant(100 * share, digits)}%"


def _significant(value: float, digits: int) -> str:
    """Keeps every digit before the point."""
    decimals = digits - 1 - math.floor(math.log10(abs(value))) if value else 0
    return f"{value:,.{max(0, decimals)}f}"


def rate_words(samples: float | None, seconds: float) -> str:
    """What to add to a step's time: ", 4,507 samples a second"; "" if samples are unknown."""
    return f", {number_words(samples / seconds)} samples a second" if samples and seconds else ""


def step_words(observation: Observation) -> str:
    """What counts as a step, what repeats, and what times are compared per."""
    if observation.step_said:
        step = "a step is what the script marks with hasten.step()"
    elif observation.steps_are_evaluations:
        step = "a step is one evaluation of the closure, of which each step of the optimizer takes many"
    elif STEPS_IN_BACKWARD in observation.uses:
        step = "a step is one backward pass, within which the optimizers step"
    elif observation.optimizers:
        step = "a step is one step of an optimizer"
    else:
        step = "a step is one backward pass (the script has no optimizer of torch.optim)"
    passes = [
        _usual_words([s.signature[at] for s in observation.steps], what)
        for at, what in ((1, "forward pass"), (2, "backward pass"))
    ]
    if observation.cycle == 1 and passes != ["1 forward pass", "1 backward pass"]:
        step += f", with {' and '.join(passes)}"
    if observation.cycle > 1:
        step += f"; a block is {observation.cycle} of them, after which the pattern repeats"
    per = "sample" if observation.batch_size else "step, because the number of samples is not known"
    usual = ", scaled to batches of the usual size" if observation.growth else ""
    return f"{step}; times are compared per {per}{usual}"


def _usual_words(counts: Sequence[int], what: str) -> str:
    """The number that most of them have, or their range: "4 to 11 forward passes"."""
    if not counts:
        return counted(1, what)
    usual, times = Counter(counts).most_common(1)[0]
    if times > len(counts) / 2:
        return counted(usual, what)
    return f"{min(counts)} to {counted(max(counts), what)}"


def optimizer_lines(optimizers: Sequence[Optimizer]) -> list[str]:
    """What updates how many parameters. Many of one kind are one line: some scripts have one for each
    parameter. If some have made steps, the others are left out: they may stand around one of these.
    """
    kinds: dict[tuple[str, bool], list[Optimizer]] = {}
    for one in [one for one in optimizers if one.stepped] or optimizers:
        kinds.setdefault((one.name, one.fused), []).append(one)
    lines = []
    for (name, is_fused), alike in kinds.items():
        fused = ", fused" if is_fused else ""
        if len(alike) > _MOST_LISTED:
            parameters = counted(sum(one.parameters for one in alike), "parameter")
            lines.append(f"updates by {name}, {len(alike)} of them: {parameters}{fused}")
        else:
            each = [counted(one.parameters, "parameter") for one in alike]
            lines += [f"updates by {name}: {parameters}{fused}" for parameters in each]
    return lines


def trainings_words(observation: Observation) -> str:
    """If there are several, one after another: how long each is, and which ones the timed steps come from."""
    lengths = observation.trainings
    timed = observation.warmup_steps + len(observation.steps)
    number = next((n for n, until in enumerate(accumulate(lengths), 1) if timed <= until), len(lengths))
    of = "the first" if number == 1 else f"the first {number}"
    so_far = "" if observation.run is not None and observation.run.ended else " so far"
    return (
        f"trains {len(lengths)} times{so_far}, one after another: {_each_words(lengths)}; the steps timed "
        f"above come from {of}, and models and optimizers that are gone are not listed"
    )


def _each_words(lengths: Sequence[int]) -> str:
    """The steps of each training; if there are many, the fewest and the most."""
    if len(lengths) <= _MOST_NAMED:
        return f"{parts_words([str(steps) for steps in lengths])} steps"
    least, most = min(lengths), max(lengths)
    return f"{least} steps each" if least == most else f"{least} to {most} steps each"


def parameters_words(root: Root) -> str:
    """How many are trained: an averaged copy or a frozen part is not."""
    if root.trained in (None, root.parameters):
        return counted(root.parameters, "parameter")
    return f"{root.trained:,} of {counted(root.parameters, 'parameter')}"


def gpu_memory_words(memory: GpuMemory) -> str:
    """How much of a GPU's memory was used, and whether it ran short."""
    gib = 2**30
    words = (
        f"takes {memory.allocated_bytes / gib:.2f} of {memory.device}'s {memory.total_bytes / gib:.0f} GiB "
        f"at most, {memory.reserved_bytes / gib:.2f} with torch's cache"
    )
    return words + (f"; it ran short {counted(memory.retries, 'time')}" if memory.retries else "")


def lasting_words(seconds: float) -> str:
    """On set-up that later runs do not pay again."""
    return f"; later runs skip {seconds_words(seconds)} of that: it is cached on disk" if seconds else ""
