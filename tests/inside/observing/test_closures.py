"""A closure is timed, and is called as the script's own."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from hasten.inside.observing.closures import Evaluations, watched_closure, with_watched_closure
from hasten.inside.observing.observer import Observer
from hasten.inside.seams import Seams

from ..watching import Watch


def loss(scale: float = 1.0) -> float:
    return 2.0 * scale


class Told:
    """What a watched closure tells."""

    def __init__(self) -> None:
        self.heard: list[str | float] = []

    def watched(self, optimizer: Any, closure: Any) -> Any:
        hear = self.heard.append
        return watched_closure(closure, lambda: hear(f"{optimizer} begins"), hear)


@pytest.mark.parametrize("closure", [loss, partial(loss, 1.0), lambda: loss()])
@pytest.mark.parametrize("named", [False, True])
def test_a_closure_tells_that_it_begins_and_its_seconds(closure: Any, named: bool) -> None:
    told = Told()
    given = with_watched_closure(
        ("optimizer",) if named else ("optimizer", closure, 3),
        {"closure": closure} if named else {},
        told.watched,
    )
    assert given is not None
    args, kwargs = given
    watched: Any = kwargs["closure"] if named else args[1]
    assert watched() == 2.0
    begins, seconds = told.heard
    assert begins == "optimizer begins"
    assert isinstance(seconds, float)
    assert args == (("optimizer",) if named else ("optimizer", watched, 3))


def test_a_closure_that_raises_is_timed_too() -> None:
    told = Told()
    given = with_watched_closure(("optimizer", lambda: 1 / 0), {}, told.watched)
    assert given is not None
    watched: Any = given[0][1]
    with pytest.raises(ZeroDivisionError):
        watched()
    assert (told.heard[0], len(told.heard)) == ("optimizer begins", 2)


@pytest.mark.parametrize("other", [None, torch.nn.Linear(1, 1), torch.ones(1)])
def test_what_is_no_closure_is_left_as_it_is(other: Any) -> None:
    assert with_watched_closure(("optimizer", other), {}, Told().watched) is None
    assert with_watched_closure(("optimizer",), {"closure": other}, Told().watched) is None


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
        self.raises_after: int | None = None  # evaluations
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
        if len(self.losses) == self.raises_after:
            raise StopIteration
        return loss


@pytest.fixture
def asked(seams: Seams) -> Callable[[bool | None], Watch]:
    """A watch that takes evaluations for steps, or does not, or finds out whether they are."""
    return lambda evaluations: Watch(seams, evaluations)


@pytest.mark.parametrize("evaluations", [False, None])
def test_few_evaluations_make_one_step(
    evaluations: bool | None, asked: Callable[[bool | None], Watch]
) -> None:
    watch, fit = asked(evaluations), Fit(evaluations=10)
    for _ in range(3):
        fit.update()
    assert [step.backwards for step in watch.steps] == [10, 10, 10]
    assert watch.observer.evaluations.are_steps is evaluations


@pytest.mark.parametrize(
    ("evaluations", "backwards"), [(False, [15, 15]), (None, [10] + 20 * [1]), (True, 30 * [1])]
)
def test_many_evaluations_are_steps_where_they_are_asked_for_or_found(
    evaluations: bool | None, backwards: list[int], asked: Callable[[bool | None], Watch]
) -> None:
    watch, fit = asked(evaluations), Fit(evaluations=15)
    for _ in range(2):
        fit.update()
    assert [step.backwards for step in watch.steps] == backwards
    assert [loss for step in watch.steps for loss in map(float, step.losses)] == fit.losses
    assert {step.inputs for step in watch.steps} == {12}
    assert {step.optimizer for step in watch.steps} == {0}
    assert watch.observer.evaluations.are_steps is (evaluations is not False)


def test_many_more_evaluations_are_steps_though_a_batch_was_waited_for(
    asked: Callable[[bool | None], Watch],
) -> None:
    """All samples as one batch, before the only update."""
    watch, fit = asked(None), Fit(evaluations=60)
    next(iter(DataLoader(TensorDataset(torch.zeros(4, 1)), batch_size=4)))
    fit.update()
    assert [step.backwards for step in watch.steps] == [50] + 10 * [1]


def test_updates_on_a_loaders_batches_stay_steps(asked: Callable[[bool | None], Watch]) -> None:
    """A batch comes once an update: an evaluation is not what repeats."""
    watch, fit = asked(None), Fit(evaluations=15)
    for _ in DataLoader(TensorDataset(torch.zeros(4, 1)), batch_size=2):
        fit.update()
    assert [step.backwards for step in watch.steps] == [15, 15]
    assert watch.observer.evaluations.are_steps is None


def test_few_evaluations_are_steps_too_where_that_is_known(asked: Callable[[bool | None], Watch]) -> None:
    watch, fit = asked(True), Fit(evaluations=3)
    fit.update()
    assert [step.backwards for step in watch.steps] == [1, 1, 1]


def test_the_time_of_a_step_within_an_update_is_divided_without_rest(
    asked: Callable[[bool | None], Watch],
) -> None:
    watch = asked(True)
    Fit(evaluations=30).update()
    assert len(watch.steps) == 30
    for step in watch.steps:
        assert min(step.update, step.forward, step.backward) > 0
        assert step.forward + step.loss + step.backward + step.update <= step.seconds


def test_a_step_ends_where_the_next_evaluation_begins(asked: Callable[[bool | None], Watch]) -> None:
    """Not where one has ended: what the update does with its gradient is part of it."""
    watch, fit = asked(True), Fit(evaluations=5)
    weights: list[torch.Tensor] = []
    watch.observer._on_step = lambda _: weights.append(fit.weight.detach().clone())
    fit.update()
    assert len(weights) == 5
    assert not any(torch.equal(a, b) for a, b in pairwise(weights[:-1]))


def test_once_the_script_marks_steps_they_are_the_only_ones(asked: Callable[[bool | None], Watch]) -> None:
    watch, fit = asked(None), Fit(evaluations=30)
    fit.update()  # nothing is marked before
    before = len(watch.steps)
    for _ in range(2):
        watch.observer.step_said()
        fit.update()
    assert len(watch.steps) == before + 2
    assert watch.observer.evaluations.are_steps is False


def squares(weight: torch.Tensor, optimizer: torch.optim.Optimizer) -> Any:
    """The closure of a step."""
    optimizer.zero_grad()
    value: Any = weight.square().sum()
    value.backward()
    return value


def test_a_closure_that_is_called_outside_of_its_update_ends_no_step(
    asked: Callable[[bool | None], Watch],
) -> None:
    watch, kept = asked(True), list[Any]()

    class Keeps(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            kept.append(closure)
            return super().step(closure)

    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = Keeps([weight], lr=0.1)

    optimizer.step(partial(squares, weight, optimizer))
    kept[0]()
    assert len(watch.steps) == 1


@pytest.mark.parametrize("with_closure", [False, True])
def test_a_step_that_calls_its_base_classs_step_is_one_step(with_closure: bool, watch: Watch) -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    plain = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1)  # from now on its steps are seen

    class Decaying(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            for group in self.param_groups:
                group["lr"] *= 0.9
            return super().step(closure)

    optimizer = Decaying([weight], lr=0.1)

    closure: Any = partial(squares, weight, optimizer)
    for _ in range(3):
        if with_closure:
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
    assert [step.optimizer for step in watch.steps] == [1, 1, 1]
    assert [step.backwards for step in watch.steps] == [1, 1, 1]
    assert plain is not None


def test_a_step_that_raised_is_over(watch: Watch) -> None:
    weight = torch.nn.Parameter(torch.ones(2))

    class Fails(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            if weight[0] > 0.9:
                raise FloatingPointError
            return super().step(closure)

    optimizer = Fails([weight], lr=0.1)
    for _ in range(3):
        value: Any = weight.square().sum()
        value.backward()
        with suppress(FloatingPointError):
            optimizer.step()
        weight.data.mul_(0.5)
    assert len(watch.steps) == 2


def test_after_a_closure_that_raised_other_optimizers_steps_are_seen(watch: Watch) -> None:
    """Some end LBFGS by an exception."""
    fit, weight = Fit(evaluations=5), torch.nn.Parameter(torch.ones(2))
    other = torch.optim.SGD([weight], lr=0.1)
    fit.raises_after = 3
    with pytest.raises(StopIteration):
        fit.update()
    for _ in range(2):
        other.zero_grad()
        value: Any = weight.square().sum()
        value.backward()
        other.step()
    assert [step.optimizer for step in watch.steps] == [1, 1]


def test_a_step_that_raised_holds_nothing(watch: Watch) -> None:
    """What it needed is needed for another try: memory of a GPU that was too small."""
    fit = Fit(evaluations=5)
    fit.raises_after = 3

    class Large:
        pass

    def train() -> weakref.ref[Large]:
        large = Large()
        with suppress(StopIteration):
            fit.update()
        return weakref.ref(large)

    assert train()() is None


def test_an_optimizer_steps_while_its_only_update_goes_on(asked: Callable[[bool | None], Watch]) -> None:
    watch, fit = asked(True), Fit(evaluations=5)
    fit.raises_after = 3
    with pytest.raises(StopIteration):
        fit.update()
    assert len(watch.training.stepped) == 1


def test_an_optimizer_that_goes_on_after_its_closure_raised_ends_one_step(watch: Watch) -> None:
    weight = torch.nn.Parameter(torch.ones(2))

    class Patient(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            with suppress(ZeroDivisionError):
                closure()
            return super().step()

    optimizer = Patient([weight], lr=0.1)
    for _ in range(2):
        value: Any = weight.square().sum()
        value.backward()
        optimizer.step(lambda: 1 / 0)
    assert len(watch.steps) == 2


def test_a_failure_of_ours_within_an_update_leaves_the_update_alone() -> None:
    told: list[BaseException] = []
    seams = Seams(told.append)
    watch, fit, plain = Watch(seams, evaluations=True), Fit(evaluations=30), Fit(evaluations=30)

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
        ([15, 15, 15], 150),
        ([20, 25, 24], 230),
        ([20, 20, 5], None),  # it has converged: later ones take fewer
        ([20, 0, 20], None),  # one without a closure
        ([], None),
    ],
)
def test_how_many_steps_ten_updates_will_take(updates: list[int], steps: int | None) -> None:
    evaluations = Evaluations(are_steps=True)
    for count in updates:
        evaluations.update_begins()
        for _ in range(count):
            evaluations.begins(waited=False)
        evaluations.update_ends()
    assert evaluations.steps_of(10) == steps
    assert evaluations.steps_of(None) is None
