"""A script on a stage of its own, for as long as it is measured."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hasten.bench.stage import Stage
from hasten.bench.trials import Trials
from hasten.machine import this_machine


@contextmanager
def staged(script: Path, arguments: Sequence[str] = ()) -> Iterator[Trials]:
    """What it prints and writes goes with the trials."""
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(
            argv=(str(script), *arguments),
            machine=this_machine(),
            environment=dict(os.environ),
            folders=(folder,),
        )
        with Trials(stage, Path(folder, "output")) as trials:
            yield trials
