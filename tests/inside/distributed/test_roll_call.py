"""Which rank is to blame, and where it stood: two ranks of one process, which share a store."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist

from hasten.inside.distributed import roll_call
from hasten.inside.distributed.nan_losses import watch_losses
from hasten.inside.distributed.parting import WAITED
from hasten.inside.distributed.roll_call import RollCall
from hasten.inside.internals.groups import TCPStore
from hasten.inside.seams import Seams
from hasten.launch.rendezvous import LOCAL, free_port

from ...cli.conftest import wait_until

TIMED_OUT = (
    "[gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 8000ms for recv operation to complete"
)
CLOSED = "[gloo/transport/tcp/pair.cc:553] Connection closed by peer [{}]:1234. This is typically"


@pytest.fixture
def place() -> Iterator[tuple[str, int]]:
    port = free_port()
    kept = TCPStore(LOCAL, port, is_master=True, wait_for_workers=False)
    yield LOCAL, port
    del kept


@pytest.fixture
def both(place: tuple[str, int]) -> Iterator[tuple[RollCall, RollCall]]:
    made = RollCall(0, 2, *place), RollCall(1, 2, *place)
    yield made
    for one in made:
        one.end()


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_who_waited_in_vain_is_told_where_the_other_stands(
    both: tuple[RollCall, RollCall], capsys: pytest.CaptureFixture[str]
) -> None:
    both[0].failed(RuntimeError(TIMED_OUT))
    first, second, *stack = lines(capsys)
    assert "rank 0 of 2 on host" in first
    assert "waited in vain (Timed out waiting 8000ms for recv operation to complete) for rank 1 on" in first
    assert second.startswith("hasten: where rank 1 on host ")
    assert any("test_who_waited_in_vain" in line for line in stack)


def test_who_does_not_answer_is_named(
    both: tuple[RollCall, RollCall], capsys: pytest.CaptureFixture[str]
) -> None:
    both[1].end()
    both[0].failed(RuntimeError(TIMED_OUT))
    (told,) = lines(capsys)
    assert "rank 1 on host" in told
    assert "does not answer: it is stopped or was killed" in told


def test_an_error_of_its_own_is_what_the_others_end_by(
    both: tuple[RollCall, RollCall], capsys: pytest.CaptureFixture[str]
) -> None:
    both[1].failed(ValueError("no such label\nat all"))
    both[0].failed(RuntimeError(CLOSED.format(LOCAL)))
    first, second = lines(capsys)
    assert first.endswith("failed: ValueError: no such label")
    assert "rank 0 of 2" in second
    assert "ended because of rank 1 on host" in second
    assert second.endswith(": ValueError: no such label")


def test_who_goes_on_without_the_others_is_ended(
    monkeypatch: pytest.MonkeyPatch, both: tuple[RollCall, RollCall], capsys: pytest.CaptureFixture[str]
) -> None:
    codes: list[int] = []
    monkeypatch.setattr(roll_call, "_GRACE_SECONDS", 0.5)
    monkeypatch.setattr(os, "_exit", codes.append)
    both[0].failed(ValueError("no such label"))
    wait_until(lambda: codes == [WAITED])
    assert "rank 1 of 2 on host" in lines(capsys)[-1]


def test_a_timeout_of_the_scripts_own_is_its_own_error(
    both: tuple[RollCall, RollCall], capsys: pytest.CaptureFixture[str]
) -> None:
    both[1].failed(RuntimeError("DataLoader timed out after 5 seconds"))
    (told,) = lines(capsys)
    assert "rank 1 of 2" in told
    assert "failed: RuntimeError: DataLoader timed out after 5 seconds" in told


def test_who_ended_without_a_word_is_named_by_its_address(
    both: tuple[RollCall, RollCall], capsys: pytest.CaptureFixture[str]
) -> None:
    both[0].failed(dist.DistNetworkError(CLOSED.format(LOCAL)))
    (told,) = lines(capsys)
    assert "ended because it has lost rank 1 on host" in told


def test_only_the_first_rank_whose_loss_is_nan_is_named(
    both: tuple[RollCall, RollCall], capsys: pytest.CaptureFixture[str]
) -> None:
    both[1].loss_is_nan(7)
    both[0].loss_is_nan(8)
    (told,) = lines(capsys)
    assert "rank 1 of 2" in told
    assert "NaN in its backward pass 7" in told


def test_the_first_loss_that_is_nan_is_noticed_once(seams: Seams) -> None:
    found: list[int] = []
    watch_losses(seams, found.append)
    weight = torch.ones((), requires_grad=True)
    for factor in (1.0, float("nan"), float("nan")):
        torch.autograd.backward(weight * factor)
    assert found == [2]
