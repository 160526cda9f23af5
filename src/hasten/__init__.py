"""hasten: find out why a PyTorch training script is slow here, and train it faster, unchanged.

The command line is the product: ``hasten tune train.py`` and ``hasten run train.py``. For what cannot
be seen from outside, a script may call ``hasten.step()``, ``hasten.metric(accuracy=...)`` and
``hasten.is_main()``; a notebook may train ``with hasten.applied(plan):``. Importing this package
imports nothing else, and without hasten the calls do nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .inside.script_side import is_main, metric, step

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from .records.plan import Settings

__version__ = "0.1.0"
__all__ = ["applied", "is_main", "metric", "step"]


def applied(plan: str | Path | Mapping[str, Settings]) -> AbstractContextManager[None]:
    """Train under a plan inside a ``with`` block, in a notebook or your own program.

    ``plan`` is a plan file's path, or techniques with their settings: ``{"bf16": {}}``. What belongs to
    a process (malloc, threads) cannot be changed in a running one; it is reported and left out, and so is
    what does not apply. Raises PlanError if the plan is broken.
    """
    from .in_process import under

    return under(plan)
