"""What shares of a run, or of the epochs that were seen, are told by."""

from __future__ import annotations

from dataclasses import replace

from ..records.cause import Cause
from ..records.facts import Facts
from ..records.whole_run import Account, Part, account_of

_WHOLE = {"run": "the run", "epochs": "an epoch", "steps": "what was watched"}
_ALL_OF_IT = 0.95  # steps that take so much of the run are the run


def account(facts: Facts) -> Account | None:
    """None where the run was not watched."""
    run = facts.observation.run
    return account_of(run) if run is not None else None


def cause_in_run(
    facts: Facts,
    name: str,
    part: str,
    least: float,
    text: str,
    techniques: tuple[str, ...],
    more: float = 0.0,
) -> Cause | None:
    """The cause that a part of the run is, where it takes ``least`` of it; ``text`` says what it does with
    it: "is evaluation". ``more``: the cause's share of other parts; below zero where it shares this one.
    """
    seen = account(facts)
    share = seen.share(part) + more if seen is not None else 0.0
    if seen is None or share < least:
        return None
    evidence = (
        f"{share:.0%} of {_WHOLE[seen.basis]} {text}; without it, at most {_at_most(share)} times faster"
    )
    return Cause(name, share, evidence, techniques)


def lines(part: Part) -> str:
    """The lines that took longest, to put behind a sentence; "" where none is known."""
    return f" ({', '.join(part.where)})" if part.where else ""


def of_the_run(cause: Cause, facts: Facts, also: str = "") -> Cause:
    """A cause whose share is a step's, with its share of the run, where that was watched. ``also``: a part of
    the run that is all of the cause's.
    """
    seen = account(facts)
    steps = seen.share("steps") if seen is not None else 1.0
    if seen is None or steps >= _ALL_OF_IT:
        return cause
    more = seen.share(also) if also else 0.0
    share = cause.share * steps + more
    included = f", {also} included" if more else ""
    return replace(
        cause, share=share, evidence=f"{cause.evidence}; {share:.0%} of {_WHOLE[seen.basis]}{included}"
    )


def _at_most(share: float) -> str:
    return f"{1 / (1 - share):.2f}" if share < 0.99 else "100"
