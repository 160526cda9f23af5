"""A closure is timed, and is called as the script's own."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

from hasten.inside.observing.closures import with_timed_closure
from hasten.inside.observing.observer import Observer

from ..watching import Watch


def loss(scale: float = 1.0) -> float:
    return 2.0 * scale


@pytest.mark.parametrize("closure", [loss, partial(loss, 1.0), lambda: loss()])
@pytest.mark.parametrize("named", [False, True])
def test_a_closure_tells_its_seconds(closure: Any, named: bool) -> None:
    took: list[float] = []
    given = with_timed_closure(
        ("optimizer",) if named else ("optimizer", closure, 3),
        {"closure": closure} if named else {},
        took.append,
    )
    assert given is not None
    args, kwargs = given
    timed: Any = kwargs["closure"] if named else args[1]
    assert (timed(), len(took)) == (2.0, 1)
    assert args == (("optimizer",) if named else ("optimizer", timed, 3))


def test_a_closure_that_raises_is_timed_too() -> None:
    took: list[float] = []
    given = with_timed_closure(("optimizer", lambda: 1 / 0), {}, took.append)
    assert given is not None
    timed: Any = given[0][1]
    with pytest.raises(ZeroDivisionError):
        timed()
    assert len(took) == 1


@pytest.mark.parametrize("other", [None, torch.nn.Linear(1, 1), torch.ones(1)])
def test_what_is_no_closure_is_left_as_it_is(other: Any) -> None:
    assert with_timed_closure(("optimizer", other), {}, lambda _: None) is None
    assert with_timed_closure(("optimizer",), {"closure": other}, lambda _: None) is None


def test_each_evaluation_of_a_closure_is_taken_out_of_the_update(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A picture is trained through a network that is frozen."""
    picture = torch.zeros(4, requires_grad=True)
    frozen = torch.nn.Linear(4, 1).requires_grad_(False)
    optimizer: Any = torch.optim.LBFGS(
        [picture], max_iter=3, max_eval=3, tolerance_grad=0, tolerance_change=0
    )
    took: list[float] = []
    monkeypatch.setattr(Observer, "closure_took", lambda _, seconds: took.append(seconds))

    def closure() -> Any:
        optimizer.zero_grad()
        value: Any = (frozen(picture) - 1).pow(2).sum()
        value.backward()
        return value

    optimizer.step(closure)
    assert len(took) == watch.steps[0].backwards > 1
