"""Numbers with their units, the same in reports, in errors and in what a run says."""

from __future__ import annotations

_DAYS = 1e6  # seconds


def seconds_words(seconds: float) -> str:
    """Seconds in the unit that reads well: "830 us", "14.2 ms", "3.1 s", "1,678 days"."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.3g} ms"
    if seconds >= _DAYS:
        return f"{seconds / 86400:,.0f} days"
    return f"{seconds:.0f} s" if seconds >= 999.5 else f"{seconds:.3g} s"  # .3g would say 1e+03


def counted(count: int, what: str) -> str:
    """A number of things: "1 epoch", "1,200 epochs", "2 passes"."""
    ending = "es" if what.endswith("s") else "s"
    return f"{count:,} {what}{ending * (count != 1)}"


def bytes_words(amount: float) -> str:
    """Bytes in the unit that reads well: "312 KiB", "1.5 GiB"."""
    for unit in ("bytes", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"
