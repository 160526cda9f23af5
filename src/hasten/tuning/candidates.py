"""Which techniques are worth trying here, and in what order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from ..inside.techniques.base import RISKS, Risk, Technique
from ..inside.techniques.catalog import CATALOG
from ..inside.techniques.threads import Threads
from ..records.cause import Cause
from ..records.facts import Facts
from ..records.machine import Machine
from ..records.observation import Observation
from ..records.plan import Plan, Settings
from ..records.reasons import WhyNot
from ..records.result import Refused
from ..records.technique_list import Entry, Listing
from ..records.thresholds import LARGE_SHARE, LEAST_SHARE
from ..records.whole_run import Breakdown, breakdown_of
from .bounds import Bounds
from .candidate import Candidate
from .outside_steps import LARGE_START

NOT_NAMED = "--only names others"
_UNCLEAR = ("epoch turns", "other")
_SURE = {"first batches", "garbage", *_UNCLEAR}  # other parts may not be recognised


def choose(
    facts: Facts,
    causes: Sequence[Cause],
    risk: Risk,
    ruled_out: Mapping[str, str] | None = None,
    within: frozenset[str] = frozenset(),
) -> tuple[list[Candidate], list[Refused]]:
    """Candidates in the order to try them, and what was refused with its reasons. Another number of threads
    comes first where the wrong one takes much of a step: all other comparisons take as much longer with it.
    ``ruled_out``: techniques not to be tried, whatever was observed, each with the one reason to report.
    ``within``: parts of a run that belong to each step.
    """
    accepted: list[type[Technique]] = []
    bounds = Bounds.seen(facts, within)
    refused: list[Refused] = []
    for name, technique in CATALOG.items():
        if ruled_out and name in ruled_out:
            text = ruled_out[name]
            refused.append(Refused(name, (WhyNot("not named" if text == NOT_NAMED else "said", text),)))
            continue
        reasons = [WhyNot("said", text) for text in technique.refuse(facts)]
        share = share_of(technique, facts, within)
        if share is not None and share < LEAST_SHARE:
            reasons.append(WhyNot("small part", parts=technique.parts, share=share))
        if (small := bounds.why_not(technique)) is not None:
            reasons.append(small)
        if technique.not_tried:
            reasons.append(WhyNot("by name", technique.not_tried))
        found = (
            technique.risk_for(facts) if reasons else technique.risk_of(technique.options(facts)[0], facts)
        )
        if RISKS.index(found) > RISKS.index(risk):
            reasons.append(WhyNot("risk", risk=found, allowed=risk))
        if reasons:
            refused.append(Refused(name, tuple(reasons)))
        else:
            accepted.append(technique)
    names = {technique.name for technique in accepted}
    ruled = {*names, *(ruled_out or ())}
    carried = {one.name: _carried(one, facts, risk, ruled) for one in accepted}
    shares = {technique.name: share_of(technique, facts, within) for technique in accepted}
    early = {name for name, share in shares.items() if (share or 0.0) >= LARGE_START}
    in_turn = sorted(accepted, key=lambda one: _turn(one, causes, any(carried[one.name])))
    at_once: list[type[Technique]] = [
        one for one in in_turn if one is Threads and _cures(one, causes) >= LARGE_SHARE
    ]
    later = _with_starts_in_place([one for one in in_turn if one not in at_once], early)
    candidates = [
        _candidate(one, facts, _allowed(risk, one, facts), carried[one.name], names, shares[one.name], within)
        for one in (*at_once, *later)
    ]
    candidates = [replace(one, first=one.technique in at_once) for one in candidates]
    return candidates, refused


def shown_late(candidates: Sequence[Candidate], facts: Facts) -> dict[str, int]:
    """Techniques that have nothing to gain at first, with the steps before they have."""
    found = {one.technique.name: one.technique.shows_after(facts) for one in candidates}
    return {name: steps for name, steps in found.items() if steps}


def _candidate(
    technique: type[Technique],
    facts: Facts,
    options: Sequence[Settings],
    carried: Sequence[dict[str, Settings]],
    names: Set[str],
    share: float | None,
    within: frozenset[str],
) -> Candidate:
    """``carried``: by option, what applies only with it. Options that carry something come first. ``names``:
    techniques that apply by themselves. ``within``: as in ``choose``.
    """
    order = sorted(range(len(options)), key=lambda number: not carried[number])
    together_with = [
        Plan({**technique.together_with(options[n], facts), **carried[n]}).only({*names, *carried[n]})
        for n in order
    ]
    all_carried = frozenset(name for some in carried for name in some)
    chosen, gains_with = [options[n] for n in order], technique.gains_with(facts)
    return Candidate(technique, chosen, together_with, share, gains_with, all_carried, within=within)


def _carried(
    technique: type[Technique], facts: Facts, risk: Risk, ruled: Set[str]
) -> list[dict[str, Settings]]:
    """For each of its options, what applies only once that is in force, with its first settings. ``ruled``:
    techniques that apply by themselves, or must not be tried.
    """
    return [
        _applying(technique, technique.facts_under(settings, facts), facts, risk, ruled)
        for settings in _allowed(risk, technique, facts)
    ]


def _applying(
    technique: type[Technique], under: Facts, facts: Facts, risk: Risk, ruled: Set[str]
) -> dict[str, Settings]:
    """What applies where these are the facts, unless they are no others, and acts on the same layer."""
    if under == facts:
        return {}
    found = {}
    for name, other in CATALOG.items():
        alike = other.layer == technique.layer and not other.not_tried
        if name not in ruled and alike and not other.refuse(under):
            first = other.options(under)[0]
            if RISKS.index(other.risk_of(first, under)) <= RISKS.index(risk):
                found[name] = first
    return found


def share_of(technique: type[Technique], facts: Facts, within: frozenset[str] = frozenset()) -> float | None:
    """The share of a run taken by the parts that it shortens; None for steps, what is ``within`` them,
    and if unknown. A part that did not occur in the steps seen may take any share unless an epoch was
    seen to its end; and a part that was not recognised, such as an evaluation in training mode, counts as
    an epoch's turn.
    """
    run = facts.observation.run
    if not {"steps", *within}.isdisjoint(technique.parts) or run is None:
        return None
    breakdown = breakdown_of(run)
    if technique.parts == ("start",):
        return _share_of_start(facts.observation, breakdown)
    share, unclear = breakdown.share(*technique.parts), breakdown.share(*_UNCLEAR)
    if breakdown.basis == "steps" or (
        share < LEAST_SHARE <= unclear and not _SURE.issuperset(technique.parts)
    ):
        return None
    return share


def _share_of_start(seen: Observation, breakdown: Breakdown) -> float | None:
    """An upper bound: a run has at least one epoch. None if less was seen. By the run's loops it is what it
    takes if nothing stops it early, so it may be small then, but not too small to try.
    """
    if breakdown.basis == "run":
        return breakdown.share("start")
    steps, planned = breakdown.part("steps").count, seen.run.planned_steps if seen.run is not None else None
    if planned and steps:
        share = seen.start_seconds / (seen.start_seconds + planned * breakdown.seconds / steps)
        return max(LEAST_SHARE, share)
    if breakdown.basis == "steps":
        return None
    return seen.start_seconds / (seen.start_seconds + breakdown.seconds)


def _allowed(risk: Risk, technique: type[Technique], facts: Facts) -> list[Settings]:
    """The technique's options that the risk level allows."""
    level = RISKS.index(risk)
    return [o for o in technique.options(facts) if RISKS.index(technique.risk_of(o, facts)) <= level]


def list_for_script(label: str, facts: Facts, ruled_out: Mapping[str, str] | None = None) -> Listing:
    """The whole catalogue, as it applies to the observed script and machine. ``ruled_out`` as in
    ``choose``.
    """
    entries, obstacles = [], facts.observation.obstacles
    hindered = ["the script cannot be tuned"] if obstacles else []
    for name, technique in CATALOG.items():
        known = [ruled_out[name]] if ruled_out and name in ruled_out else []
        reasons = [*hindered, *known, *technique.refuse(facts)]
        options = () if reasons else tuple(technique.options(facts))
        risk = technique.risk_of(options[0], facts) if options else technique.risk_for(facts)
        entries.append(_entry(technique, risk, reasons, options))
    return Listing(label, facts.machine.identity, tuple(entries), obstacles)


def list_for_machine(machine: Machine) -> Listing:
    """The whole catalogue, as far as the machine alone decides."""
    entries = [_entry(t, t.risk, t.refuse_machine(machine), ()) for t in CATALOG.values()]
    return Listing("", machine.identity, tuple(entries))


def _entry(
    technique: type[Technique], risk: Risk, reasons: Sequence[str], options: tuple[Settings, ...]
) -> Entry:
    return Entry(
        name=technique.name,
        summary=technique.summary,
        layer=technique.layer,
        risk=risk,
        scope=technique.scope,
        reasons=tuple(reasons),
        options=options,
    )


def with_remedies_here(causes: Sequence[Cause], facts: Facts) -> list[Cause]:
    """The causes, each with its techniques that are not refused for this script on this machine."""
    return [
        replace(cause, techniques=tuple(name for name in cause.techniques if _applies(name, facts)))
        for cause in causes
    ]


def _applies(name: str, facts: Facts) -> bool:
    return name in CATALOG and not (facts.observation.obstacles or CATALOG[name].refuse(facts))


def _with_starts_in_place(techniques: Sequence[type[Technique]], early: set[str]) -> list[type[Technique]]:
    """What shortens the start alone comes last: it saves seconds of a run, however long. In ``early``,
    where starting may take much of a run, it comes before all that needs whole processes to compare steps,
    and after what it excludes: that may shorten steps.
    """
    others = [one for one in techniques if one.parts != ("start",)]
    starts = [one for one in techniques if one.parts == ("start",)]
    soon = [one for one in starts if one.name in early]
    first = next((n for n, one in enumerate(others) if _needs_processes(one)), len(others))
    excluded = {name for one in soon for name in one.conflicts}
    first = max(first, *(n + 1 for n, one in enumerate(others) if one.name in excluded), 0)
    return [*others[:first], *soon, *others[first:], *(one for one in starts if one not in soon)]


def _needs_processes(technique: type[Technique]) -> bool:
    """Whether its steps must be compared in new processes; what steadies steps is left out."""
    return technique.scope != "live" and "steps" in technique.parts and not technique.steadies


def _cures(technique: type[Technique], causes: Sequence[Cause]) -> float:
    """The share of what it may shorten, at most."""
    return max((cause.share for cause in causes if technique.name in cause.techniques), default=0.0)


def _turn(
    technique: type[Technique], causes: Sequence[Cause], carries: bool
) -> tuple[bool, int, float, bool, bool, int]:
    """Sort key: by what the causes suggest, most expensive first, with what is slow to set up, or to show, at
    the end of that. What needs new processes comes after everything live or, if it answers the most expensive
    cause, after what is live for that cause; what ``carries`` others comes before others like it, which may
    exclude those.
    """
    share, largest = _cures(technique, causes), max((cause.share for cause in causes), default=0.0)
    fresh = technique.scope != "live"
    late = fresh and (share < largest or share < LARGE_SHARE)
    slow = technique.slow_to_set_up + 2 * technique.slow_to_show
    return (late, slow, -share, fresh, not carries, list(CATALOG).index(technique.name))
