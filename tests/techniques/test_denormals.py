"""Numbers too small for full precision: zero in all threads, or in none."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from hasten.inside.process import torch_threads
from hasten.inside.process.torch_threads import TorchThreads
from hasten.inside.techniques.denormals import Denormals
from hasten.inside.training import NotApplicable
from hasten.records.facts import Facts
from hasten.records.plan import BASELINE, Plan
from hasten.testing.workbench import workbench
from tests.bench.made_up import step

from .made_up import facts, machine, optimizer, root

PLAN = Plan({"denormals": {}})
SLOW = 4.6e-9  # seconds that a product with such a number takes longer, on an Intel Xeon


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    TorchThreads(torch).each(lambda: torch.set_flush_denormal(False))
    torch.set_num_threads(threads)


def stay() -> int:
    """How many of many tiny numbers stay above zero, in all of torch's threads."""
    smallest = torch.ones(2**18, dtype=torch.int32).view(torch.float32)
    return int((smallest * 2).view(torch.int32).count_nonzero())


def test_they_are_zero_in_all_threads_while_it_is_on_and_as_before_afterwards() -> None:
    with workbench() as bench:
        bench.train(1)
        assert stay() == 2**18
        bench.switchboard.switch(PLAN)
        assert stay() == 0
        bench.train(1)
        (proof,) = bench.switchboard.proofs()
        assert proof.effective
        assert "computed by 2 threads" in proof.evidence
        assert not proof.remark
        bench.switchboard.switch(BASELINE)
        assert stay() == 2**18


def test_set_in_one_thread_alone_it_is_not_proven() -> None:
    with workbench() as bench:
        bench.train(1)
        torch.ones(2**20).mul_(2)
        one = Denormals()
        one.install(bench.training, {})
        bench.train(1)
        assert one.proof(bench.training).effective
        torch.set_flush_denormal(False)
        assert not one.proof(bench.training).effective
        one.remove(bench.training)


def silenced(bench: Any, value: float) -> torch.Tensor:
    """Adam's averages of the first weights, half of them ``value``."""
    bench.train(2)
    first = next(iter(bench.model.parameters()))
    average = bench.optimizer.state[first]["exp_avg"]
    assert isinstance(average, torch.Tensor)
    average[0] = value
    return average


def test_averages_that_it_takes_for_zero_are_back_without_it() -> None:
    """Plain and with it are compared by turns: what is slow must be slow again."""
    with workbench() as bench:
        average = silenced(bench, 1e-40)
        kept = average.clone()
        bench.switchboard.switch(PLAN)
        (proof,) = bench.switchboard.proofs()
        assert proof.remark == f"{average[0].numel()} averages of gradients had fallen below 1.2e-38"
        average.mul_(1.0)
        assert int(average.view(torch.int32)[0].count_nonzero()) == 0
        bench.switchboard.switch(BASELINE)
        assert average.view(torch.int32).equal(kept.view(torch.int32))


def test_what_has_grown_meanwhile_stays_as_it_is() -> None:
    with workbench() as bench:
        average = silenced(bench, 1e-40)
        bench.switchboard.switch(PLAN)
        average[0] = 0.5
        bench.switchboard.switch(BASELINE)
        assert bool((average[0] == 0.5).all())


def test_averages_that_lie_channels_last_are_back_too() -> None:
    with workbench() as bench:
        bench.train(1)
        weight = next(p for p in bench.model.parameters() if p.dim() == 4)
        state = bench.optimizer.state[weight]
        state["exp_avg"] = torch.full_like(weight, 1e-40).to(memory_format=torch.channels_last)
        kept = state["exp_avg"].clone()
        bench.switchboard.switch(PLAN)
        state["exp_avg"].mul_(1.0)
        bench.switchboard.switch(BASELINE)
        assert state["exp_avg"].view(torch.int32).equal(kept.view(torch.int32))


def test_without_threads_that_can_be_found_it_does_not_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_threads, "_NAME", "no_such_function")
    with workbench() as bench:
        bench.train(1)
        with pytest.raises(NotApplicable, match="no OpenMP library"):
            bench.switchboard.switch(PLAN)


# ---- when it is tried
def seen(**other: Any) -> Facts:
    """An Adam of a million weights, most of them without gradients, in steps of 10 ms."""
    kept = other.pop("kept", 0.9)
    silent = other.pop("silent", 900_000)
    usual = {
        "steps": (step(0.010), step(0.011)),
        "optimizers": (optimizer(kept=kept, silent=silent),),
        "tiny_seconds": SLOW,
        "threads": 2,
    }
    return facts(**{**usual, **other})


def test_what_the_script_sets_itself_stands() -> None:
    found = Denormals.refuse(seen(uses=("set_flush_denormal",)))
    assert found == ["the script calls torch.set_flush_denormal itself, and that stands"]


@pytest.mark.parametrize(
    ("architecture", "refused"), [("x86_64", False), ("aarch64", False), ("s390x", True)]
)
def test_where_torch_can_set_it(architecture: str, refused: bool) -> None:
    found = Denormals.refuse(Facts(machine(architecture=architecture), seen().observation))
    assert bool(found) is refused


def test_training_on_a_gpu_is_no_case_for_it() -> None:
    found = seen(roots=(root(devices=("cuda:0",)),), tiny_seconds=None)
    assert Denormals.refuse(found) == ["the training is not on the CPU"]


@pytest.mark.parametrize(("seconds", "refused"), [(0.0, True), (1e-10, True), (SLOW, False), (None, False)])
def test_a_processor_that_is_as_fast_with_such_numbers_gains_nothing(
    seconds: float | None, refused: bool
) -> None:
    found = Denormals.refuse(seen(tiny_seconds=seconds))
    assert found == (["this processor computes with such numbers as fast as with others"] if refused else [])


def test_it_is_compared_once_averages_can_be_so_small() -> None:
    after = Denormals.shows_after(seen())
    assert 0.9**after * 1e-3 < 1.2e-38
    assert after < 1000
    assert Denormals.shows_after(seen(kept=0.95)) > 1.9 * after


@pytest.mark.parametrize(
    "other",
    [
        {"kept": 0.0},  # no average of gradients
        {"silent": 10},  # too few to make a step slower
        {"silent": 0},
        {"steps": ()},
        {"steps": (step(10.0),)},  # of which they can take next to nothing
    ],
)
def test_elsewhere_it_is_compared_at_once(other: dict[str, Any]) -> None:
    assert Denormals.shows_after(seen(**other)) == 0


def test_twenty_times_as_many_silent_weights_are_worth_the_wait_in_steps_as_much_longer() -> None:
    few, many = seen(silent=50_000), seen(silent=1_000_000, steps=(step(0.2),))
    assert Denormals.shows_after(few) == Denormals.shows_after(many) > 0


def test_optimizers_that_take_turns_need_as_many_more_steps() -> None:
    """A GAN's critic may make five steps for one of the generator's."""
    turns = tuple(step(0.01, signature=(number % 6 == 5, 1, 1)) for number in range(60))
    both = (optimizer(kept=0.9), optimizer(kept=0.9, silent=900_000))
    alone = Denormals.shows_after(seen())
    assert Denormals.shows_after(seen(steps=turns, optimizers=both)) == 6 * alone
    assert Denormals.shows_after(seen(steps=turns, optimizers=both[::-1])) == math.ceil(1.2 * alone)


@pytest.mark.parametrize(("eps", "applies"), [(0.0, False), (1e-40, False), (1e-8, True)])
def test_an_optimizer_that_would_divide_by_zero_is_left_alone(eps: float, applies: bool) -> None:
    with workbench(make_optimizer=lambda p: torch.optim.Adam(p, eps=eps)) as bench:
        bench.train(1)
        if applies:
            bench.switchboard.switch(PLAN)
            return
        with pytest.raises(NotApplicable, match="its eps is too small"):
            bench.switchboard.switch(PLAN)


def test_what_it_took_for_zero_is_kept_no_longer_than_it_may_be_switched_off() -> None:
    with workbench() as bench:
        average = silenced(bench, 1e-40)
        bench.switchboard.switch(PLAN)
        one = bench.switchboard._on["denormals"]
        assert isinstance(one, Denormals)
        assert len(one._lost) == 1
        first = next(iter(bench.model.parameters()))
        bench.optimizer.state[first]["exp_avg"] = torch.zeros_like(average)
        del average
        assert one._lost[0][0]() is None, "the script has dropped it"
        one._steps = 999
        one._step_ended()
        assert one._lost == []


def test_it_is_no_matter_of_rounding_alone() -> None:
    """Adam with eps=0 divides by a root that would become zero."""
    assert Denormals.risk == "close"
    assert "set_flush_denormal(True)" in Denormals.by_hand({})
    assert math.isclose(1.2e-38, torch.finfo(torch.float32).tiny, rel_tol=0.03)
