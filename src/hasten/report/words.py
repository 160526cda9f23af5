"""Numbers in words, the same everywhere."""

from __future__ import annotations

from ..records.plan import Plan, Settings
from ..records.trial import Ratio


def ratio_words(ratio: Ratio | None) -> str:
    """A ratio of times as a speedup with its interval: "1.31x (1.28 to 1.34)"."""
    if ratio is None:
        return "-"
    speedup = ratio.inverted()
    return f"{speedup.value:.2f}x ({speedup.low:.2f} to {speedup.high:.2f})"


def technique_words(name: str, settings: Settings) -> str:
    """A technique with its settings: "threads (count=1)"."""
    inside = ", ".join(f"{key}={value}" for key, value in settings.items())
    return f"{name} ({inside})" if inside else name


def company_words(plan: Plan) -> str:
    """What is on beside a technique, briefly: "malloc + bf16", "4 others", "-" for nothing."""
    if not plan:
        return "-"
    return plan.label if len(plan.techniques) < 3 else f"{len(plan.techniques)} others"


def seconds_words(seconds: float) -> str:
    """Seconds in the unit that reads well: "830 us", "14.2 ms", "3.1 s"."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 999.5 else f"{seconds:.0f} s"  # .3g would say 1e+03
