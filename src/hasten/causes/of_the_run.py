"""Causes as shares of a run, or of the epochs that were seen."""

from __future__ import annotations

from dataclasses import replace

from ..records.cause import Cause
from ..records.facts import Facts
from ..records.whole_run import Breakdown, Part, breakdown_of

_WHOLE = {"run": "the run", "epochs": "an epoch", "steps": "what was watched"}
_OF_THE_REST = 0.6  # the most by which a cause was seen to lengthen what lies outside of it
_ALL_OF_IT = 0.95  # steps that take this much of the run count as all of it


def breakdown(facts: Facts) -> Breakdown | None:
    """The parts of the run that shares refer to; None if it was not watched."""
    run = facts.observation.run
    return breakdown_of(run) if run is not None else None


def cause_in_run(
    facts: Facts,
    name: str,
    part: str,
    least: float,
    text: str,
    techniques: tuple[str, ...],
    more: float = 0.0,
) -> Cause | None:
    """The cause that a ``part`` of the run is, if it takes at least ``least`` of it; ``text`` says what it
    does with it: "is evaluation". ``more``: the cause's share of other parts; below zero if this is shared.
    """
    seen = breakdown(facts)
    share = seen.share(part) + more if seen is not None else 0.0
    if seen is None or share < least:
        return None
    evidence = (
        f"{share:.0%} of {_WHOLE[seen.basis]} {text}; without it, {_faster(share)} times faster, "
        f"{_faster(bound_of(share))} at most"
    )
    return Cause(name, share, evidence, techniques)


def lines(part: Part) -> str:
    """The lines that took longest, to append to a sentence; "" if none is known."""
    return f" ({', '.join(part.where)})" if part.where else ""


def of_the_run(cause: Cause, facts: Facts, also: str = "") -> Cause:
    """Convert a cause's share of a step to its share of the run, if that was watched. ``also``: a part of the
    run that belongs to the cause entirely.
    """
    seen = breakdown(facts)
    steps = seen.share("steps") if seen is not None else 1.0
    if seen is None or steps >= _ALL_OF_IT:
        return cause
    more = seen.share(also) if also else 0.0
    share = cause.share * steps + more
    included = f", {also} included" if more else ""
    return replace(
        cause, share=share, evidence=f"{cause.evidence}; {share:.0%} of {_WHOLE[seen.basis]}{included}"
    )


def bound_of(share: float) -> float:
    """The largest share of a run that a cure can save, 0 to 1. ``share``: what was seen to be the cause's.

    A cure may also shorten the rest: after the cause, caches are cold and threads asleep, and hasten's own
    watching is in the rest, too. Refilling a cache takes about as long as it took to fill it with something
    else, so the rest is longer by no more than the cause itself takes. And by no more than 60% of the rest,
    as steps showed in which a pause of 10 ms took 85% of the time (``benchmarks/diagnosis.py``).
    """
    seen = min(1.0, share)
    return seen + min(seen, _OF_THE_REST * (1 - seen))


def _faster(share: float) -> str:
    """How many times faster a run is without this share of it, as text."""
    return f"{1 / (1 - share):.2f}" if share < 0.99 else "100"
