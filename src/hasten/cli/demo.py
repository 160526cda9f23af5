"""``hasten demo``: tune a real example on real data in a temporary folder, then train under the plan."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import click

from .common import require_platform
from .tune import DEFAULT_BUDGET, DEFAULT_MOST
from .values import positive_seconds

NAME = "demo"
HELP = "tune a small CNN on real data (Fashion-MNIST, shipped with hasten) and train it under the plan"
PARAMETERS = (
    click.Option(
        ["--budget"],
        type=positive_seconds,
        default=None,
        metavar="SECONDS",
        help=f"time for the tune (default {DEFAULT_BUDGET:.0f}; up to {DEFAULT_MOST:.0f} on a slow machine)",
    ),
)


def execute(arguments: SimpleNamespace) -> int:
    from ..errors import UsageError
    from ..examples import path
    from ..report.console import open_console

    require_platform()
    missing = [name for name in ("numpy", "PIL") if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"the example imports {' and '.join(missing)}: pip install 'hasten[examples]'")
    script = str(path("fashion_cnn"))
    with tempfile.TemporaryDirectory(prefix="hasten-demo-") as folder:
        budget = [] if arguments.budget is None else ["--budget", f"{arguments.budget:g}"]
        _type(folder, "tune", *budget, script)
        plain = _type(folder, "run", "--no-plan", script, "--seed", "0")
        planned = _type(folder, "run", script, "--seed", "0")
        (path_of_plan,) = Path(folder, ".hasten").glob("*/plan.toml")
        plan = path_of_plan.read_text(encoding="utf-8")
    console = open_console(sys.stdout)
    console.print(f"\nThe plan:\n\n{plan}", soft_wrap=True)
    console.print(
        f"One whole run each, start and evaluation included: plain {plain:.1f} s, "
        f"under the plan {planned:.1f} s.\n"
        "The claim is the interval above: one run each proves nothing.",
        soft_wrap=True,
    )
    return 0


def _type(folder: str, *words: str) -> float:
    """Run a hasten command as a person would type it; its wall-clock seconds. Its failure is ours."""
    from ..report.console import open_console

    open_console(sys.stdout).print(f"\n$ hasten {' '.join(words)}", soft_wrap=True)
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "hasten.cli.main", *words], cwd=folder, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)
    return time.monotonic() - began
