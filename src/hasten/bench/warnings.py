"""What may spoil a measurement: a closed list, each with advice."""

from __future__ import annotations

import time
from pathlib import Path

_WATCH_SECONDS = 0.5
_BUSY_SHARE = 0.2


def machine_busy(root: Path = Path("/")) -> str | None:
    """Whether others keep this machine busy, watched for half a second; asked before our own work begins.

    None where it is quiet, or where the kernel does not tell (only Linux does).
    """
    before = _cpu_ticks(root)
    time.sleep(_WATCH_SECONDS)
    after = _cpu_ticks(root)
    if before is None or after is None or after[1] == before[1]:
        return None
    share = (after[0] - before[0]) / (after[1] - before[1])
    if share < _BUSY_SHARE:
        return None
    return (
        f"other programs kept {share:.0%} of this machine's cores busy before tuning began: intervals will "
        "be wide. Stop them, or tune when the machine is quiet"
    )


def _cpu_ticks(root: Path) -> tuple[int, int] | None:
    """(busy, all) clock ticks of all cores since boot. Source: proc(5), /proc/stat."""
    try:
        fields = (root / "proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    except OSError:
        return None
    ticks = [int(field) for field in fields]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)
