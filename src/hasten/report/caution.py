"""What may spoil measured numbers, in words, with advice."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..records.caution import Caution, Code, Disturbance

_NAMED = 5  # of the files that were written outside
_WORDS: dict[Code, Callable[[Caution], str]] = {
    "busy": lambda found: (
        f"other programs kept {found.share:.0%} of this machine's cores busy before measuring began: "
        "intervals will be wide. Stop them, or measure when the machine is quiet"
    ),
    "quota": lambda found: (
        f"the container's CPU quota stopped the training in {found.share:.0%} of its periods: times "
        "tell of the quota. Give it more CPUs, or use fewer threads (threads:count=N)"
    ),
    "swapped": lambda found: (
        "memory was swapped to disk while tuning: times tell of the disk. Free memory, or train with "
        "smaller batches"
    ),
    "hot": lambda found: (
        f"cores slowed down {found.count} times because they were hot: later "
        "steps are slower than earlier ones. Tune again when the machine has cooled"
    ),
    "gpu clock": lambda found: (
        "a GPU's clock moved while tuning: lock it for steadier times (nvidia-smi --lock-gpu-clocks, "
        "as root), or give the tune a longer --budget"
    ),
    "few blocks": lambda found: (
        f"only {found.count} blocks of steps could be watched: what repeats rarely was not seen. Let the "
        "script train longer"
    ),
    "warming up": lambda found: (
        f"steps were still getting faster while they were watched, by {found.share:.0%}: the script "
        "warms up for longer than was waited. Compare with hasten profile --warmup 100"
    ),
    "growing": lambda found: (
        f"steps took ever longer while they were watched, by {found.share:.0%}: what grows with each of them "
        "(a list, a graph that is kept) may cost a long run more than any technique saves"
    ),
    "two speeds": lambda found: (
        "steps have two speeds: something switches between a fast and a slow state (clocks, memory, a "
        "neighbour). Pairs of processes average over it; a longer --budget narrows the interval"
    ),
    "became slower": lambda found: (
        f"plain steps took {found.times:.1f} times as long at the end of the tune as at its beginning: the "
        "machine became slower (its clock, or other programs). Tune again when it is steady"
    ),
    "disturbed": lambda found: _disturbed_words(found.disturbance) if found.disturbance is not None else "",
    "wrote outside": lambda found: _outside_words(found.paths),
    "another model": lambda found: (
        f"the script calls another model from step {found.count} on, as one does that trains several times: "
        "what is claimed was measured in its first steps, and the others are taken to be like them"
    ),
    "new journal": lambda found: (
        f"the journal of earlier tunes was broken, so a new one was begun; the old one is now {found.text}"
    ),
    "not written down": lambda found: f"not everything could be written down: {found.text}",
}


def caution_words(found: Caution) -> str:
    """What it is, what it does to the numbers, and what to do."""
    return _WORDS[found.code](found)


def _disturbed_words(found: Disturbance) -> str:
    counted = found.disturbed - found.set_aside
    also = f"; {counted} counted as they were" if counted else ""
    who = "the host of this virtual machine" if found.by_host else "other programs"
    if found.by_host:
        advice = "Tune when the host is less busy"
    else:
        advice = "Stop them, or tune when the machine is quiet"
    return (
        f"{who} took processor time from {found.disturbed} of {found.blocks} blocks of "
        f"steps: {found.set_aside} were set aside and measured again, which took "
        f"{found.seconds:.0f} s{also}. {advice}"
    )


def _outside_words(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    named = ", ".join(paths[:_NAMED])
    return f"the script wrote or removed files outside its folder; trials threw that away: {named}{more}"
