"""Which techniques are on: only what differs is switched, and what comes later is taken in."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from hasten.inside import switch as module
from hasten.inside.observing.hooks import Hooks
from hasten.inside.observing.observer import Observer
from hasten.inside.observing.raw_step import RawStep
from hasten.inside.seams import Seams
from hasten.inside.switch import Switchboard
from hasten.inside.techniques.base import Technique
from hasten.inside.training import NotApplicable, Training
from hasten.records.plan import BASELINE, Plan, Settings
from hasten.records.trial import Proof
from hasten.testing.workbench import Workbench, workbench

from ..thorough import in_turn


class Noting(Technique):
    """Notes what is done to it; refuses where its class is told to."""

    layer, risk, scope = "application", "exact", "live"
    log: list[str]
    refusing = ""  # "install" or "prepare"
    in_steps = 0.0  # seconds that it says to have taken in steps
    staying = ""  # why it cannot be switched off entirely

    def install(self, training: Training, settings: Settings) -> None:
        self.log.append(f"install {self.name} {dict(settings)}" if settings else f"install {self.name}")
        if self.refusing == "install":
            raise NotApplicable("not here")

    def prepare(self, training: Training) -> None:
        self.log.append(f"prepare {self.name}")
        if self.refusing == "prepare":
            raise NotApplicable("not enough memory")

    def seconds_in_steps(self) -> float:
        return self.in_steps

    def remove(self, training: Training) -> None:
        self.log.append(f"remove {self.name}")

    def left_on(self) -> str:
        return self.staying

    def proof(self, training: Training) -> Proof:
        return Proof(self.name, True, "noted")


class Desk:
    """A switchboard over three made-up techniques, a, b and c."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.kinds: dict[str, type[Noting]] = {
            name: type(name, (Noting,), {"name": name, "log": self.log}) for name in "abc"
        }
        self.training = Training(torch, Seams(), available_bytes=0)
        self.board = Switchboard(self.training)

    def switch(self, *names: str, prepare: bool = False) -> list[str]:
        """What is done to come to this plan."""
        self.log.clear()
        self.board.switch(Plan({name: {} for name in names}), prepare)
        return list(self.log)


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    desk = Desk()
    monkeypatch.setattr(module, "CATALOG", desk.kinds)
    return desk


def test_techniques_go_on_in_the_plans_order_and_off_in_reverse(desk: Desk) -> None:
    assert desk.switch("b", "a") == ["install b", "install a"]
    assert desk.switch() == ["remove a", "remove b"]
    assert desk.board.plan == BASELINE


def test_only_what_differs_is_switched(desk: Desk) -> None:
    desk.switch("a", "b")
    assert desk.switch("a", "b") == []
    assert desk.switch("a", "b", "c") == ["install c"]
    assert desk.switch("a", "c") == ["remove b"]


def test_other_settings_are_a_difference(desk: Desk) -> None:
    desk.switch("a", "b")
    desk.log.clear()
    desk.board.switch(Plan({"a": {"count": 2}, "b": {}}))
    assert desk.log == ["remove a", "install a {'count': 2}"]


def test_set_up_is_paid_where_it_is_asked_for(desk: Desk) -> None:
    assert desk.switch("a", prepare=True) == ["install a", "prepare a"]
    assert desk.switch("a", "b", prepare=True) == ["install b", "prepare b"]
    assert desk.switch("a", "b", "c") == ["install c"]


@pytest.mark.parametrize("when", ["install", "prepare"])
def test_a_technique_that_is_not_applicable_leaves_nothing_on(desk: Desk, when: str) -> None:
    desk.switch("a")
    desk.kinds["c"].refusing = when
    with pytest.raises(NotApplicable):
        desk.switch("a", "b", "c", prepare=True)
    assert {"remove a", "remove b"} <= set(desk.log)
    assert ("remove c" in desk.log) is (when == "prepare")
    assert desk.board.failed == "c"
    assert desk.board.plan == BASELINE
    assert desk.board.proofs() == []
    assert desk.switch("a") == ["install a"]


def test_what_cannot_be_switched_off_is_told_until_it_is_on_again_or_can_be(desk: Desk) -> None:
    desk.kinds["a"].staying = "views are held"
    desk.switch("a", "b")
    assert desk.board.left_on is None
    for names in ((), ("b",), ("c",)):
        desk.switch(*names)
        assert desk.board.left_on == ("a", "views are held")
    desk.switch("a")
    assert desk.board.left_on is None
    desk.kinds["a"].staying = ""
    desk.switch()
    assert desk.board.left_on is None


def test_set_up_in_steps_is_told_once(desk: Desk) -> None:
    """To the step that it fell into; what was set up under an earlier plan fell into none of this one's."""
    desk.switch("a")
    desk.kinds["a"].in_steps = 2.0
    assert [desk.board.latest_seconds_in_steps() for _ in range(2)] == [2.0, 0.0]
    desk.kinds["b"].in_steps = 5.0
    desk.switch("a", "b")
    assert desk.board.latest_seconds_in_steps() == 0.0
    desk.kinds["b"].in_steps = 6.0
    assert desk.board.latest_seconds_in_steps() == 1.0
    desk.switch("a")
    assert desk.board.latest_seconds_in_steps() == 0.0


def test_there_is_one_proof_for_each_technique_that_is_on(desk: Desk) -> None:
    desk.switch("a", "b")
    assert [proof.technique for proof in desk.board.proofs()] == ["a", "b"]
    desk.switch("b")
    assert [proof.technique for proof in desk.board.proofs()] == ["b"]


def test_a_refresh_without_news_does_nothing(desk: Desk) -> None:
    desk.switch("a")
    desk.log.clear()
    desk.board.refresh()
    assert desk.log == []


def test_a_refresh_takes_in_what_came(desk: Desk) -> None:
    desk.switch("a", "b")
    desk.log.clear()
    desk.training.changed = True
    desk.board.refresh()
    assert desk.log == ["remove b", "remove a", "install a", "install b"]
    assert not desk.training.changed
    assert list(desk.board.plan.techniques) == ["a", "b"]


def test_what_applies_no_longer_is_left_out_and_its_proof_fails(desk: Desk) -> None:
    desk.switch("a", "b")
    desk.kinds["a"].refusing = "install"
    desk.training.changed = True
    desk.board.refresh()
    proofs = {proof.technique: proof for proof in desk.board.proofs()}
    assert proofs["b"].effective
    assert not proofs["a"].effective
    assert proofs["a"].evidence == "not here"


def test_until_a_step_is_taken_after_a_refresh_earlier_proofs_count(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked = True
    monkeypatch.setattr(Noting, "proof", lambda self, training: Proof(self.name, worked, "counted"))
    desk.switch("a")
    desk.training.steps, desk.training.changed = 7, True
    desk.board.refresh()
    worked = False  # the new instance has counted nothing yet
    assert [proof.effective for proof in desk.board.proofs()] == [True]
    desk.training.steps = 8
    assert [proof.effective for proof in desk.board.proofs()] == [False]


def test_what_was_left_out_comes_back_when_it_applies_again(desk: Desk) -> None:
    desk.switch("a", "b")
    for desk.kinds["a"].refusing in ("install", ""):
        desk.training.changed = True
        desk.board.refresh()
    assert all(proof.effective for proof in desk.board.proofs())
    assert desk.switch("b") == ["remove a"]
    assert [proof.technique for proof in desk.board.proofs()] == ["b"]


# ---- a real training
class Session:
    """A script under the seams of a worker, with the given plan in force."""

    def __init__(self, seams: Seams, plan: Plan) -> None:
        self.training = Training(torch, seams, available_bytes=2**32)
        self.board = Switchboard(self.training)
        self.board.plan = plan
        self.hooks = Hooks(self.training, Observer(self._step_ended), self.board.refresh)
        self.hooks.install()

    def _step_ended(self, step: RawStep) -> None:
        self.board.refresh()


PLAN = Plan({"bf16": {}, "fused_optimizer": {}})


@pytest.fixture
def session() -> Iterator[Session]:
    seams = Seams()
    try:
        yield Session(seams, PLAN)
    finally:
        seams.undo_all()


class Model(torch.nn.Module):
    """Notes the type in which its layer computes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)
        self.computed_in: list[torch.dtype] = []

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.layer(inputs)
        self.computed_in.append(hidden.dtype)
        return hidden


def train(model: Model, optimizer: torch.optim.Optimizer, steps: int = 2) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        loss: Any = model(torch.ones(3, 4)).pow(2).mean()
        loss.backward()
        optimizer.step()


def fused(optimizer: torch.optim.Optimizer) -> bool:
    return bool(optimizer.param_groups[0]["fused"])


def test_a_second_model_trained_after_the_first_is_under_the_plan_too(session: Session) -> None:
    for _ in range(2):
        model = Model()
        optimizer = torch.optim.Adam(model.parameters())
        train(model, optimizer)
        assert model.computed_in == [torch.bfloat16, torch.bfloat16]
        assert fused(optimizer)
        assert [proof.effective for proof in session.board.proofs()] == [True, True]
        del model, optimizer
        gc.collect()


def test_an_optimizer_made_anew_for_the_same_model_is_under_the_plan(session: Session) -> None:
    model = Model()
    train(model, torch.optim.Adam(model.parameters()))
    second = torch.optim.AdamW(model.parameters())
    train(model, second)
    assert fused(second)


def test_two_models_side_by_side_are_both_under_the_plan(session: Session) -> None:
    models = [Model(), Model()]
    optimizers = [torch.optim.Adam(model.parameters()) for model in models]
    for _ in range(3):
        for model, optimizer in zip(models, optimizers, strict=True):
            train(model, optimizer, steps=1)
    assert [model.computed_in for model in models] == [[torch.bfloat16] * 3] * 2
    assert all(map(fused, optimizers))


def test_a_training_to_which_the_plan_applies_in_part_goes_on(session: Session) -> None:
    first = Model()
    train(first, torch.optim.Adam(first.parameters()))
    second = Model()
    optimizer = torch.optim.RMSprop(second.parameters())
    gc.collect()  # the first optimizer is gone
    train(second, optimizer, steps=3)
    assert second.computed_in[-1] is torch.bfloat16
    proofs = {proof.technique: proof.effective for proof in session.board.proofs()}
    assert proofs == {"bf16": True, "fused_optimizer": False}


def test_a_plan_that_fails_leaves_the_training_as_it_was() -> None:
    with workbench(make_optimizer=torch.optim.RMSprop) as bench:
        bench.train(2)
        before = bench.bits()
        with pytest.raises(NotApplicable, match="no optimizer"):
            bench.switchboard.switch(Plan({"bf16": {}, "channels_last": {}, "fused_optimizer": {}}))
        assert bench.switchboard.failed == "fused_optimizer"
        assert bench.bits() == before
        assert nothing_installed(bench)


def nothing_installed(bench: Workbench) -> bool:
    return not bench.training.forward_wrappers and not bench.training.fetch_providers


# ---- a technique that fails while its set-up is paid
class Raising(torch.utils.data.Dataset[Any]):
    """Its 18th sample cannot be made a second time, where proofs have not looked."""

    def __init__(self, error: BaseException) -> None:
        self.rows, self.error = torch.randn(1000, 4), error

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        if index == 17:
            raise self.error
        return self.rows[index]


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("names", "error"),
    in_turn(
        [("dataset_in_ram",), ("batched_fetch",), ("dataset_in_ram", "batched_fetch")],
        [ValueError("no such picture"), KeyError("label"), OSError(5, "Input/output error"), MemoryError(),
         StopIteration(), AssertionError("of the script's")],
    ),
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "-".join(value),
)  # fmt: skip
def test_a_sample_that_cannot_be_made_is_no_bug_of_ours(names: tuple[str, ...], error: Exception) -> None:
    """Its technique does not apply, and says which sample it was."""
    with workbench() as bench:
        dataset = Raising(error)
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = torch.utils.data.DataLoader(dataset, batch_size=4)
        loss: Any = model(next(iter(loader))).sum()
        loss.backward()
        optimizer.step()
        said = rf"sample 17 of Raising raised {type(error).__name__}: "
        with pytest.raises(NotApplicable, match=said):
            bench.switchboard.switch(Plan({name: {} for name in names}), prepare=True)
        assert bench.switchboard.proofs() == []


@pytest.mark.attack("truth")
@pytest.mark.parametrize("error", [ValueError("surprise"), KeyError("x"), RuntimeError("on the device")])
def test_a_set_up_that_fails_unforeseen_is_not_applicable(desk: Desk, error: Exception) -> None:
    def prepare(technique: Noting, training: Training) -> None:
        raise error

    setattr(desk.kinds["b"], "prepare", prepare)  # noqa: B010
    with pytest.raises(NotApplicable, match=f"it failed here with {type(error).__name__}: "):
        desk.switch("a", "b", prepare=True)
    assert desk.board.failed == "b"
    assert desk.board.plan == BASELINE
    assert desk.log[-2:] == ["remove b", "remove a"]
