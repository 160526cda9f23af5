"""What this machine is: read from the kernel's files, without torch or anything heavy.

Every function that reads files takes their ``root``, so a recorded machine can be read as well.
``run_facts`` and what it imports are also imported by ``inside``: they need little of Python's library.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hasten.records.machine import Machine

__all__ = ["this_machine"]


def this_machine(root: Path = Path("/")) -> Machine:
    """As ``facts.this_machine``, which imports much."""
    from hasten.machine import facts

    return facts.this_machine(root)
