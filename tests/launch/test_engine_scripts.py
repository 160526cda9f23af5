"""Which scripts ranks of an engine can train."""

from __future__ import annotations

import pytest

from hasten.launch.engine_scripts import why_not_by_ranks
from hasten.records.diagnosis import Distribution

ITS_OWN = Distribution(kind="ranks", sign="init_process_group in train.py:3")
SPAWNS = Distribution(kind="spawns", sign="mp.spawn in train.py:9")


@pytest.mark.parametrize("found", [ITS_OWN, Distribution()], ids=["its own", "of no ranks"])
def test_a_fixed_number_of_hosts_trains_both_kinds(found: Distribution) -> None:
    assert why_not_by_ranks(found, "train.py", 4, says_it_is=False, elastic=False) == ""


def test_hosts_that_come_and_go_are_for_scripts_that_are_distributed_themselves() -> None:
    assert why_not_by_ranks(ITS_OWN, "train.py", 4, says_it_is=False, elastic=True) == ""
    assert why_not_by_ranks(Distribution(), "train.py", 4, says_it_is=True, elastic=True) == ""
    assert "--nnodes N" in why_not_by_ranks(Distribution(), "train.py", 4, says_it_is=False, elastic=True)


def test_a_script_that_starts_its_own_ranks_is_refused_by_name() -> None:
    assert "mp.spawn in train.py:9" in why_not_by_ranks(
        SPAWNS, "train.py", 4, says_it_is=False, elastic=False
    )
    assert why_not_by_ranks(SPAWNS, "train.py", 1, says_it_is=False, elastic=False) == ""
