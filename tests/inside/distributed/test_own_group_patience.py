"""How long ranks of a script's own wait for each other."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch.distributed import HashStore  # type: ignore[attr-defined]

from hasten.inside.distributed.own_group import find_backends
from hasten.inside.job import OwnGroup
from hasten.inside.seams import Seams

MINUTE, HOUR = timedelta(seconds=60), timedelta(hours=1)


@pytest.fixture(autouse=True)
def no_group_is_left() -> Iterator[None]:
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def patience_of(group: object) -> timedelta:
    found = group._get_backend(torch.device("cpu")).options._timeout  # type: ignore[attr-defined]
    assert isinstance(found, timedelta)
    return found


@pytest.mark.parametrize(
    ("own", "said", "expected"),
    [
        (OwnGroup(timeout_seconds=60.0), None, MINUTE),
        (OwnGroup(timeout_seconds=60.0), HOUR, HOUR),
        (OwnGroup(), None, dist.distributed_c10d.default_pg_timeout),
    ],
)
def test_what_the_script_says_stands(
    seams: Seams, own: OwnGroup, said: timedelta | None, expected: timedelta
) -> None:
    find_backends(seams, own)
    store = HashStore()
    dist.init_process_group("gloo", rank=0, world_size=1, store=store, timeout=said)
    assert patience_of(dist.distributed_c10d._get_default_group()) == expected


def test_a_timeout_by_its_place_stands_as_well(seams: Seams) -> None:
    find_backends(seams, OwnGroup(timeout_seconds=60.0))
    dist.init_process_group("gloo", None, HOUR, 1, 0, HashStore())
    assert patience_of(dist.distributed_c10d._get_default_group()) == HOUR


def test_groups_that_are_made_later_wait_as_long(seams: Seams) -> None:
    find_backends(seams, OwnGroup(timeout_seconds=60.0))
    dist.init_process_group("gloo", rank=0, world_size=1, store=HashStore())
    assert patience_of(dist.new_group()) == MINUTE
    assert patience_of(dist.new_group(timeout=HOUR)) == HOUR


def test_no_group_waits_for_less_where_the_script_has_said_how_long(seams: Seams) -> None:
    find_backends(seams, OwnGroup(timeout_seconds=60.0))
    dist.init_process_group("gloo", rank=0, world_size=1, store=HashStore(), timeout=HOUR)
    assert patience_of(dist.new_group()) == dist.distributed_c10d.default_pg_timeout
