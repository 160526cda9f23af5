"""Whether what others do while a script is watched is taken to last."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from hasten.records.observation import Processors
from hasten.tuning.progress import Progress
from hasten.tuning.surroundings import quiet_here
from tests.bench.made_up import facts


@pytest.mark.parametrize(("waiting", "stay"), [(0.9, True), (0.1, False)])
def test_nothing_waits_for_those_that_ran_all_the_time(waiting: float, stay: bool) -> None:
    seen = facts(
        {"logical_cpus": 2}, threads=2, processors=Processors(1.1, 0.0, waiting=waiting, others=waiting)
    )
    silent = cast(Progress, SimpleNamespace(remark=lambda text: None))
    quiet = quiet_here(5.0, silent, seen)
    assert (quiet.others_stay, quiet.patience) == (stay, 5.0)
