"""What oneCCL finds in the environment of a rank."""

from __future__ import annotations

from pathlib import Path

import pytest

from hasten.inside.distributed.backends.ccl import variables

FOLDER = Path("/env/lib")
RANK = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}


@pytest.mark.parametrize("launcher", [None, "torch", "torchrun", "hydra", "none", ""])
def test_no_launcher_is_asked_whatever_the_script_says(launcher: str | None) -> None:
    said = {} if launcher is None else {"CCL_PROCESS_LAUNCHER": launcher}
    made = variables({**RANK, **said}, FOLDER)
    assert made["CCL_PROCESS_LAUNCHER"] == "none"
    assert (made["CCL_LOCAL_RANK"], made["CCL_LOCAL_SIZE"]) == ("1", "2")


def test_what_the_user_says_of_oneccl_stands() -> None:
    said = {"CCL_ATL_TRANSPORT": "mpi", "CCL_LOCAL_RANK": "0", "CCL_WORKER_OFFLOAD": "1"}
    made = variables({**RANK, **said}, FOLDER)
    assert not made.keys() & said.keys()
    assert made["CCL_LOCAL_SIZE"] == "2"


def test_a_rank_that_is_told_nothing_is_told_nothing_of_others() -> None:
    made = variables({}, FOLDER)
    assert "CCL_LOCAL_RANK" not in made
    assert made["FI_PROVIDER_PATH"] == "/env/lib"
