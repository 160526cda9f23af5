"""Larger batches from the script's own loaders, and the learning rate that each step uses."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, SequentialSampler, Subset

from hasten.inside.techniques.batch_size import BatchSize
from hasten.inside.training import NotApplicable
from hasten.records.plan import BASELINE, Plan, Settings
from hasten.testing.workbench import Pictures, Workbench, workbench

from .made_up import facts, loader

TWICE = {"factor": 2}


@pytest.fixture
def bench() -> Iterator[Workbench]:
    """As in a process that was started for twice the batch: what follows comes after torch."""
    with workbench(make_optimizer=lambda p: torch.optim.SGD(p, lr=0.1)) as made:
        BatchSize().start(made.training, TWICE)
        made.loader = DataLoader(Pictures(), batch_size=8, shuffle=True)
        yield made


def test_the_loader_is_built_with_larger_batches(bench: Workbench) -> None:
    assert bench.loader.batch_size == 16
    assert len(bench.loader) == 3  # of 40 pictures
    assert [len(labels) for _, labels in bench.loader] == [16, 16, 8]


@pytest.mark.parametrize(
    "arguments",
    [
        {"shuffle": False},
        {"sampler": SequentialSampler(range(40))},
        {"shuffle": True, "batch_size": None},
        {"shuffle": True, "batch_size": 24},
    ],
    ids=["in order", "a sampler in order", "no batches", "more than there are"],
)
def test_other_loaders_stay_as_they_are(bench: Workbench, arguments: dict[str, Any]) -> None:
    made: Any = DataLoader(range(40), **{"batch_size": 8, **arguments})  # type: ignore[arg-type]
    assert made.batch_size == arguments.get("batch_size", 8)


def test_a_sampler_that_draws_at_random_is_one_of_a_training(bench: Workbench) -> None:
    data = Pictures()
    assert DataLoader(data, 8, sampler=RandomSampler(data)).batch_size == 16


def test_a_stream_stays_as_it_is(bench: Workbench) -> None:
    class Stream(IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            return iter(range(40))

    assert DataLoader(Stream(), batch_size=8).batch_size == 8


def test_a_loader_built_anew_from_an_enlarged_one_is_not_enlarged_twice(bench: Workbench) -> None:
    again = DataLoader(bench.loader.dataset, batch_size=bench.loader.batch_size, shuffle=True)
    assert again.batch_size == 16


def test_wrong_arguments_are_told_by_torch(bench: Workbench) -> None:
    with pytest.raises(TypeError, match="batchsize"):
        DataLoader(Pictures(), batchsize=8)  # type: ignore[call-arg]


@pytest.mark.parametrize(("rate", "scale"), [("linear", 2.0), ("sqrt", 2**0.5), ("none", 1.0)])
def test_each_step_uses_the_rate_of_the_rule_and_the_script_sees_its_own(
    bench: Workbench, rate: str, scale: float
) -> None:
    bench.switchboard.switch(Plan({"batch_size": {**TWICE, "rate": rate}}))
    for _ in range(2):
        weight: Any = bench.model[0][0].weight  # type: ignore[index]
        before = weight.detach().clone()
        bench.train(1)
        torch.testing.assert_close(before - weight, 0.1 * scale * weight.grad)
        assert bench.optimizer.param_groups[0]["lr"] == 0.1
        assert bench.optimizer.state_dict()["param_groups"][0]["lr"] == 0.1
    bench.switchboard.switch(BASELINE)
    before = weight.detach().clone()
    bench.train(1)
    torch.testing.assert_close(before - weight, 0.1 * weight.grad)


def test_the_proof_needs_larger_batches_in_the_training_and_a_step(bench: Workbench) -> None:
    bench.switchboard.switch(Plan({"batch_size": TWICE}))
    assert not bench.switchboard.proofs()[0].effective
    bench.train(3)
    (proof,) = bench.switchboard.proofs()
    assert proof.effective
    assert proof.evidence == "batches of 16 in place of 8; 3 steps at 2 times the script's learning rate"


def test_a_loader_that_feeds_no_training_is_no_proof(bench: Workbench) -> None:
    few: Any = Subset(Pictures(), range(12))
    bench.loader = DataLoader(few, batch_size=8, shuffle=True)
    bench.switchboard.switch(Plan({"batch_size": TWICE}))
    bench.train(3)
    (proof,) = bench.switchboard.proofs()
    assert not proof.effective
    assert proof.evidence.startswith("a batch of 16 is more than the 12 samples there are; 3 steps")


@pytest.mark.parametrize(("every", "words"), [(1, "stepped with every step"), (3, "stepped by the epoch")])
def test_schedules_by_the_step_are_told_from_those_by_the_epoch(
    bench: Workbench, every: int, words: str
) -> None:
    bench.switchboard.switch(Plan({"batch_size": TWICE}))
    schedule = StepLR(bench.optimizer, step_size=1, gamma=0.5)
    for _ in range(2):
        for _ in range(3 // every):
            bench.train(every)
            schedule.step()
    assert bench.optimizer.param_groups[0]["lr"] == pytest.approx(0.1 * 0.5 ** (6 // every))
    assert words in bench.switchboard.proofs()[0].evidence


def test_where_it_applies() -> None:
    assert BatchSize.refuse(facts()) == BatchSize.refuse(facts(loaders=())) == []
    (reason,) = BatchSize.refuse(facts(optimizers=()))
    assert reason == "the script has no torch optimizer whose learning rate could follow"


@pytest.mark.parametrize(
    "loaders",
    [
        (),
        (loader(training=False),),
        (loader(iterable=True, samples=None),),
        (loader(batch_size=None),),
        (loader(samples=60),),
    ],
    ids=["none", "none that trains", "a stream", "a batch sampler", "too few samples"],
)
def test_where_no_loader_can_give_more_it_accumulates(loaders: tuple[Any, ...]) -> None:
    ways = [(o["factor"], o["by"]) for o in BatchSize.options(facts(loaders=loaders))]
    assert ways == [(2, "accumulation")] * 2 + [(4, "accumulation")] * 2


def test_what_is_worth_trying() -> None:
    options = BatchSize.options(facts())
    pairs = [(o["factor"], o["rate"]) for o in options]
    assert pairs == [(2, "linear"), (2, "sqrt"), (4, "linear"), (4, "sqrt")]
    assert all("by" not in option for option in options)


THREE: Settings = {"factor": 3, "rate": "none", "by": "accumulation"}


def trained(steps: int, plan: Plan, before_step: Any = None, to_none: bool = True, **more: Any) -> list[Any]:
    """Weights after each of ``steps`` calls of a usual loop's body, batches of 4 in a fixed order."""
    with workbench(make_optimizer=lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.1), **more) as bench:
        bench.switchboard.switch(plan)
        weights = []
        pictures = Pictures()
        for number in range(steps):
            images, labels = zip(*(pictures[(4 * number + i) % 40] for i in range(4)), strict=True)
            bench.optimizer.zero_grad(set_to_none=to_none)
            loss = torch.nn.functional.cross_entropy(bench.model(torch.stack(images)), torch.tensor(labels))
            torch.autograd.backward(loss)
            if before_step is not None:
                before_step(bench)
            bench.optimizer.step()
            weights.append([p.detach().clone() for p in bench.model.parameters()])
        return weights


@pytest.mark.parametrize("to_none", [True, False])
def test_accumulation_is_the_loop_that_a_person_would_write(to_none: bool) -> None:
    found = trained(9, Plan({"batch_size": THREE}), to_none=to_none)
    sums: list[Any] = []

    def by_hand(bench: Workbench) -> None:
        """The mean of three, at every third; nothing at the others."""
        sums.append([p.grad.clone() for p in bench.model.parameters() if p.grad is not None])
        for index, parameter in enumerate(bench.model.parameters()):
            mean = sum(each[index] for each in sums[-3:]) / 3
            parameter.grad = mean if len(sums) % 3 == 0 else None

    expected = trained(9, BASELINE, by_hand)
    for number, (a, b) in enumerate(zip(found, expected, strict=True)):
        torch.testing.assert_close(a, b, msg=f"step {number}")
    assert all(torch.equal(a, b) for a, b in zip(found[0], found[1], strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(found[1], found[2], strict=True))


def test_the_script_keeps_its_own_gradients(bench: Workbench) -> None:
    bench.switchboard.switch(Plan({"batch_size": THREE}))
    seen = []
    for _ in range(6):
        bench.train(1)
        weight: Any = bench.model[0][0].weight  # type: ignore[index]
        seen.append(weight.grad.clone())
        for known in seen[:-1]:
            assert not torch.equal(known, seen[-1])
    (proof,) = bench.switchboard.proofs()
    assert proof.effective
    assert proof.evidence == (
        "gradients of 6 batches gathered; 2 steps at 1 times the script's learning rate"
    )


def test_before_the_first_whole_group_nothing_is_proven(bench: Workbench) -> None:
    bench.switchboard.switch(Plan({"batch_size": THREE}))
    bench.train(2)
    assert not bench.switchboard.proofs()[0].effective


def test_an_optimizer_that_computes_gradients_itself_is_refused() -> None:
    with (
        workbench(make_optimizer=lambda p: torch.optim.LBFGS(p)) as bench,
        pytest.raises(NotApplicable, match="LBFGS computes its gradients within its step"),
    ):
        bench.switchboard.switch(Plan({"batch_size": THREE}))


@pytest.mark.parametrize(
    "settings", [{"factor": 2, "by": "magic"}, {"factor": 2, "by": 1}, {"factor": 1, "by": "accumulation"}]
)
def test_a_way_that_does_not_exist_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"by must be one of loader, accumulation|factor, a whole number"):
        BatchSize.check(settings)
    few = facts(loaders=(loader(samples=100),))
    assert {o["factor"] for o in BatchSize.options(few)} == {2}


@pytest.mark.parametrize("settings", [{"factor": 2}, {"factor": 64, "rate": "none"}])
def test_settings_that_can_be_carried_out(settings: dict[str, Any]) -> None:
    BatchSize.check(settings)
    BatchSize.by_hand(settings)


@pytest.mark.parametrize(
    "settings",
    [{}, {"factor": 1}, {"factor": 65}, {"factor": True}, {"factor": 2.0}, {"factor": 2, "rate": "log"},
     {"factor": 2, "more": 1}],
)  # fmt: skip
def test_settings_that_cannot(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"batch_size needs|rate must be"):
        BatchSize.check(settings)


# ---- a step that raises, and whose exception the script catches
class Stumbling(torch.optim.SGD):
    """Raises in the steps of these numbers, from 0 on."""

    def __init__(self, parameters: Any, at: tuple[int, ...], **more: Any) -> None:
        super().__init__(parameters, lr=0.1, **more)
        self.at, self.number = at, -1

    def step(self, closure: Any = None) -> Any:
        self.number += 1
        if self.number in self.at:
            raise RuntimeError("stumbled")
        return super().step(closure)


def stumbled(at: tuple[int, ...], plan: Plan, scheduled: bool = False) -> tuple[list[Any], list[float]]:
    """The weight after each step, whose gradients are 1, 2, 3, ...; and the rate that the script sees."""
    with workbench() as bench:
        weight = torch.nn.Parameter(torch.zeros(1))
        optimizer = Stumbling([weight], at)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5) if scheduled else None
        bench.switchboard.refresh()
        bench.switchboard.switch(plan)
        weights, rates = [], []
        for number in range(6):
            weight.grad = torch.full((1,), float(number + 1))
            with suppress(RuntimeError):
                optimizer.step()
            if schedule is not None:
                schedule.step()
                rates.append(optimizer.param_groups[0]["lr"])
            weights.append(round(weight.item(), 6))
        bench.switchboard.switch(BASELINE)
        assert optimizer.param_groups[0]["lr"] == (rates[-1] if rates else 0.1)
        return weights, rates


TWO: Settings = {"factor": 2, "rate": "none", "by": "accumulation"}


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ((), [0.0, -0.15, -0.15, -0.5, -0.5, -1.05]),  # means of 1 and 2, 3 and 4, 5 and 6
        ((0,), [0.0, 0.0, -0.25, -0.25, -0.7, -0.7]),  # 2 and 3, 4 and 5
        ((1,), [0.0, 0.0, -0.2, -0.2, -0.65, -0.65]),  # 1 and 3, 4 and 5
        ((2,), [0.0, -0.15, -0.15, -0.15, -0.6, -0.6]),  # 1 and 2, 4 and 5
        ((0, 1), [0.0, 0.0, 0.0, -0.35, -0.35, -0.9]),  # 3 and 4, 5 and 6
        ((1, 2), [0.0, 0.0, 0.0, -0.25, -0.25, -0.8]),  # 1 and 4, 5 and 6
    ],
)
def test_a_step_that_raised_is_not_gathered_and_the_next_is(
    at: tuple[int, ...], expected: list[float]
) -> None:
    """As if it had never begun: what was gathered before stays, what comes next is added."""
    assert stumbled(at, Plan({"batch_size": TWO}))[0] == pytest.approx(expected)


@pytest.mark.attack("truth")
@pytest.mark.parametrize("at", [(), (0,), (1,), (0, 1), (5,), (0, 1, 2, 3, 4, 5)])
def test_a_step_that_raised_leaves_the_scripts_learning_rate(at: tuple[int, ...]) -> None:
    """Schedules go on from the script's own rate, not from the one that the step used."""
    settings: Settings = {"factor": 4, "rate": "linear", "by": "accumulation"}
    plain, planned = (
        stumbled(at, plan, scheduled=True)[1] for plan in (BASELINE, Plan({"batch_size": settings}))
    )
    assert planned == plain


@pytest.mark.attack("truth")
def test_a_gradient_that_is_no_number_goes_with_the_step_that_raised(bench: Workbench) -> None:
    """A script that checks its gradients in a hook of its own, and skips the step by an exception."""
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    bench.switchboard.refresh()
    bench.switchboard.switch(Plan({"batch_size": TWO}))

    def check(optimizer: Any, args: Any, kwargs: Any) -> None:
        if math.isnan(number):
            raise FloatingPointError

    optimizer.register_step_pre_hook(check)
    for number in (1.0, math.nan, 3.0):
        weight.grad = torch.full((1,), number)
        with suppress(FloatingPointError):
            optimizer.step()
    assert weight.item() == pytest.approx(-0.2)


def test_a_step_within_its_own_step_is_one(bench: Workbench) -> None:
    class Twice(torch.optim.SGD):
        """Its step is made of another that torch watches, too."""

        @torch.optim.Optimizer.profile_hook_step
        def inner(self) -> None:
            torch.optim.SGD.step(self)

        def step(self, closure: Any = None) -> Any:
            self.inner()

    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = Twice([weight], lr=0.1)
    bench.switchboard.refresh()
    bench.switchboard.switch(Plan({"batch_size": TWO}))
    for number in (1.0, 2.0):
        weight.grad = torch.full((1,), number)
        optimizer.step()
    assert weight.item() == pytest.approx(-0.15)
