"""Warnings about what may spoil the numbers, with advice."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..records.caution import Caution, Code, Disturbance
from ..units import counted

_NAMED = 5  # of the files written outside the folder
_WORDS: dict[Code, Callable[[Caution], str]] = {
    "busy": lambda found: (
        f"other programs kept {found.share:.0%} of this machine's cores busy before measuring began, so "
        "intervals will be wide. Stop them, or measure when the machine is idle"
    ),
    "quota": lambda found: (
        f"the container's CPU quota stopped the training in {found.share:.0%} of its periods, so times "
        "reflect the quota. Give it more CPUs, or use fewer threads (threads:count=N)"
    ),
    "swapped": lambda found: (
        "memory was swapped to disk while tuning, so times reflect the disk. Free memory, or train with "
        "smaller batches"
    ),
    "hot": lambda found: (
        f"cores slowed down {counted(found.count, 'time')} because they ran hot: later "
        "steps are slower than earlier ones. Tune again when the machine has cooled"
    ),
    "gpu clock": lambda found: (
        "a GPU's clock moved while tuning: lock it for steadier times (nvidia-smi --lock-gpu-clocks, "
        "as root), or tune with a longer --budget"
    ),
    "few blocks": lambda found: (
        f"only {counted(found.count, 'block')} of steps {'was' if found.count == 1 else 'were'} observed, "
        "so anything rarer was missed. Let the script train longer or, if its steps are slow, name a longer "
        "--budget"
    ),
    "warming up": lambda found: (
        f"steps were still getting faster while they were observed, by {found.share:.0%}: the script "
        "needs a longer warm-up. Compare with hasten profile --warmup 100"
    ),
    "growing": lambda found: (
        f"steps took ever longer while they were watched, by {found.share:.0%}: what grows with each of them "
        "(a list, a graph that is kept) may cost a long run more than any technique saves"
    ),
    "two speeds": lambda found: (
        "steps run at two speeds: something switches between a fast and a slow state (clocks, memory, a "
        "neighbour). Pairs of processes average over it; a longer --budget narrows the interval"
    ),
    "became slower": lambda found: (
        f"plain steps took {found.times:.1f} times as long at the end of the tune as at its beginning: the "
        "machine slowed down (clock speed or other programs). Tune again when it is steady"
    ),
    "disturbed": lambda found: _disturbed_words(found.disturbance) if found.disturbance is not None else "",
    "wrote outside": lambda found: _outside_words(found.paths),
    "another model": lambda found: (
        f"the script calls another model from step {found.count} on, so it probably trains several times: "
        "the claim was measured in its first steps and assumes that the others are like them"
    ),
    "fewer threads": lambda _: (
        "the plan has fewer threads than plain training, whose threads wait while other programs keep "
        "processors busy: tune again once these have ended, as more threads may be faster then"
    ),
    "new journal": lambda found: (
        f"the journal of earlier tunes was corrupt, so a new one was started; the old one is now {found.text}"
    ),
    "not written down": lambda found: f"some results could not be saved: {found.text}",
}


def caution_words(found: Caution) -> str:
    """What happened, what it does to the numbers, and what to do about it."""
    return _WORDS[found.code](found)


def _disturbed_words(found: Disturbance) -> str:
    told = []
    if found.set_aside:
        told.append(
            f"{_were(found.set_aside)} set aside and measured again, which took {found.seconds:.0f} s"
        )
    if found.kept:
        told.append(f"{_were(found.kept)} not measured again, as this went on from the start")
    if left := found.disturbed - found.set_aside - found.kept:
        told.append(f"{left} could not be measured again")
    who = "the host of this virtual machine" if found.by_host else "other programs"
    if found.by_host:
        advice = "Tune when the host is less busy"
    else:
        advice = "Stop them, or tune when the machine is idle"
    taken = f"{who} took processor time from {found.disturbed} of {found.blocks} blocks of steps"
    return f"{taken}: {'; '.join(told)}. {advice}"


def _were(count: int) -> str:
    return f"{count} {'was' if count == 1 else 'were'}"


def _outside_words(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    named = ", ".join(paths[:_NAMED])
    return f"the script wrote or removed files outside its folder; trials threw that away: {named}{more}"
