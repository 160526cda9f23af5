"""The other settings of a technique that was tried with its first: is one of them better, in combination with
the whole plan?
"""

from __future__ import annotations

from ..bench.comparing.decisions import gains
from ..inside.techniques.exclusion import Catalog, Exclusion
from ..records.plan import Plan
from ..records.reasons import Decision, WhyNot
from .candidate import Candidate
from .comparisons import Comparisons
from .reasons import reason_of


def with_best_settings(comparisons: Comparisons, found: Plan, candidate: Candidate, catalog: Catalog) -> Plan:
    """``found`` with the best settings of the candidate's, as far as there is time to compare them."""
    name = candidate.technique.name
    first = found.techniques.get(name, candidate.options[0])
    fitting = candidate.fitting(found, catalog)
    options = () if isinstance(fitting, Exclusion) else fitting.options
    others = [settings for settings in options if settings != first]
    for position, settings in enumerate(others):
        wanted = found.adding(name, settings)
        if not comparisons.affords(found, wanted):
            comparisons.leave_out(name, WhyNot("no time", untried=tuple(others[position:])))
            break
        seconds = comparisons.seconds_left / (len(others) - position)
        trial = comparisons.compare(name, found, wanted, seconds)
        won = gains(trial.ratio) and not trial.never_pays
        kept, reason = comparisons.judged(trial, won, trial.b)
        if kept == won:
            decision: Decision = "settings replaced" if kept else "settings stay"
            reason = reason_of(trial, kept, decision if name in found.techniques else "")
        comparisons.record(name, settings, trial, kept, reason)
        found = trial.b if kept else found
    return found
