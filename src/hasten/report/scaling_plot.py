"""Speed against workers, as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..records.scaling import Scaled, ScalingForecast

if TYPE_CHECKING:
    from collections.abc import Sequence


def check_drawing() -> None:
    """Raises UsageError if matplotlib is not installed."""
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        raise UsageError("--plot needs matplotlib: pip install 'hasten[plot]'")


def draw(found: ScalingForecast, path: str, title: str) -> None:
    """Writes the picture to ``path``, in the format of its ending (.svg, .png, .pdf).

    Raises UsageError if ``path`` cannot be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    _curve(axes, found.same, "the script's batch", "tab:blue")
    _curve(axes, found.grown, "a batch for each worker", "tab:orange")
    workers = [row.workers for row in found.grown]
    alone = found.same[0].samples_per_second.mid
    axes.plot(workers, [alone * count for count in workers], ":", color="grey", label="no loss")
    axes.set(xscale="log", yscale="log", xlabel="workers", ylabel="samples a second", title=title)
    axes.legend()
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:  # ValueError: an ending that it does not know
        raise UsageError(f"--plot {path} cannot be written: {error}") from None


def _curve(axes: Any, rows: Sequence[Scaled], label: str, color: str) -> None:
    workers = [row.workers for row in rows]
    speeds = [row.samples_per_second for row in rows]
    axes.plot(workers, [speed.mid for speed in speeds], "o-", color=color, label=label)
    axes.fill_between(workers, [s.low for s in speeds], [s.high for s in speeds], color=color, alpha=0.25)
