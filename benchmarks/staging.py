"""A script on a stage of its own, for as long as it is measured."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hasten.bench.stage import Stage
from hasten.machine import this_machine


@contextmanager
def staged(script: Path, arguments: Sequence[str] = ()) -> Iterator[Stage]:
    """What it prints and writes goes with the stage."""
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(
            argv=(str(script), *arguments),
            machine=this_machine(),
            environment=dict(os.environ),
            folders=(folder,),
            trial_folder=Path(folder, "output"),
        )
        with stage:
            yield stage
