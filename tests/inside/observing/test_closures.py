"""A closure is timed, and is called as the script's own."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import torch

from hasten.inside.observing.closures import Evaluations, with_timed_closure
from hasten.inside.observing.observer import Observer
from hasten.inside.seams import Seams

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
        lambda: took.append(0.0),
        took.append,
    )
    assert given is not None
    args, kwargs = given
    timed: Any = kwargs["closure"] if named else args[1]
    assert timed() == 2.0
    assert (len(took), took[0]) == (2, 0.0)
    assert args == (("optimizer",) if named else ("optimizer", timed, 3))


def test_a_closure_that_raises_is_timed_too() -> None:
    took: list[float] = []
    given = with_timed_closure(("optimizer", lambda: 1 / 0), {}, lambda: None, took.append)
    assert given is not None
    timed: Any = given[0][1]
    with pytest.raises(ZeroDivisionError):
        timed()
    assert len(took) == 1


@pytest.mark.parametrize("other", [None, torch.nn.Linear(1, 1), torch.ones(1)])
def test_what_is_no_closure_is_left_as_it_is(other: Any) -> None:
    assert with_timed_closure(("optimizer", other), {}, lambda: None, lambda _: None) is None
    assert with_timed_closure(("optimizer",), {"closure": other}, lambda: None, lambda _: None) is None


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


class Fit:
    """A network fitted by LBFGS. ``evaluations`` of each update, which go on whatever the gradient is."""

    def __init__(self, evaluations: int) -> None:
        torch.manual_seed(0)
        self._x = torch.randn(12, 3)
        self._model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        self.weight: Any = self._model[0].weight
        self.losses: list[float] = []
        self._optimizer: Any = torch.optim.LBFGS(
            self._model.parameters(),
            max_iter=evaluations,
            max_eval=evaluations,
            tolerance_grad=0,
            tolerance_change=0,
        )

    def update(self) -> None:
        self._optimizer.step(self._closure)

    def _closure(self) -> Any:
        self._optimizer.zero_grad()
        loss: Any = (self._model(self._x) - 1).square().mean()
        loss.backward()
        self.losses.append(loss.item())
        return loss


def test_few_evaluations_make_one_step(watch: Watch) -> None:
    fit = Fit(evaluations=10)
    for _ in range(3):
        fit.update()
    assert [step.backwards for step in watch.steps] == [10, 10, 10]
    assert not watch.observer.evaluations.are_steps


def test_once_there_are_many_each_is_a_step(watch: Watch) -> None:
    fit = Fit(evaluations=15)
    for _ in range(2):
        fit.update()
    assert [step.backwards for step in watch.steps] == [10] + 5 * [1] + 15 * [1]
    assert [loss for step in watch.steps for loss in map(float, step.losses)] == fit.losses
    assert {step.inputs for step in watch.steps} == {12}
    assert {step.optimizer for step in watch.steps} == {0}
    assert watch.observer.evaluations.are_steps


def test_the_time_of_a_step_within_an_update_is_divided_without_rest(watch: Watch) -> None:
    Fit(evaluations=30).update()
    for step in watch.steps[1:]:
        assert min(step.update, step.forward, step.backward) > 0
        assert step.forward + step.loss + step.backward + step.update <= step.seconds


def test_a_step_ends_where_the_next_evaluation_begins(watch: Watch) -> None:
    """Not where one has ended: what the update does with its gradient is part of it."""
    fit = Fit(evaluations=14)
    weights: list[torch.Tensor] = []
    watch.observer._on_step = lambda _: weights.append(fit.weight.detach().clone())
    fit.update()
    assert len(weights) == 5
    assert all(not torch.equal(a, b) for a, b in pairwise(weights[:-1]))


def test_steps_that_the_script_marks_are_the_only_ones(watch: Watch) -> None:
    fit = Fit(evaluations=30)
    watch.observer.step_said()
    fit.update()
    assert len(watch.steps) == 1
    assert not watch.observer.evaluations.are_steps


def test_a_failure_of_ours_within_an_update_leaves_the_update_alone() -> None:
    told: list[BaseException] = []
    seams = Seams(told.append)
    watch, fit, plain = Watch(seams), Fit(evaluations=30), Fit(evaluations=30)

    def fails(step: object) -> None:
        raise RuntimeError("ours")

    watch.observer._on_step = fails
    fit.update()
    assert (seams.given_up, [str(error) for error in told]) == (True, ["ours"])
    plain.update()
    assert fit.losses == plain.losses


@pytest.mark.parametrize(
    ("updates", "steps"),
    [
        ([15, 15, 15], 10 * 15 - 9),
        ([4, 4, 16], 10 * 8 - 3 - 3 - 9),
    ],
)
def test_how_many_steps_updates_will_take(updates: list[int], steps: int) -> None:
    """Nine steps are missing where ten evaluations made one."""
    evaluations, ended = Evaluations(), 0
    for count in updates:
        evaluations.update_begins()
        ended += sum(evaluations.begins() for _ in range(count)) + 1
        evaluations.update_ends()
    assert evaluations.steps_of(len(updates)) == ended
    assert evaluations.steps_of(10) == steps
