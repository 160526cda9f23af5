"""Groups of equal hyperparameters updated as one: the same bits, and the script's groups as it made them."""

from __future__ import annotations

import copy
import gc
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from hasten.inside.observing.identify import describe_optimizer
from hasten.inside.observing.parameter_groups import PER_PARAMETER, Merging
from hasten.inside.techniques.merge_groups import MergeGroups
from hasten.inside.training import NotApplicable
from hasten.records.plan import BASELINE, Plan
from hasten.testing.workbench import workbench

from .made_up import facts, optimizer

PLAN = Plan({"merge_groups": {}})
GROUPS = 12
FORMS = {
    "default": {},
    "for-loop": {"foreach": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
}
WITHOUT_FORMS = {"SparseAdam", "Muon"}
FUSED = {"Adam", "AdamW", "SGD", "Adagrad"}
MORE = {"SGD": {"momentum": 0.9, "nesterov": True}, "Rprop": {"lr": 1e-2}}
Change = Callable[[torch.optim.Optimizer, int], object]


def kinds() -> list[Any]:
    """Each optimizer of torch's in each form that it has; rare ones in their usual form, unless thorough."""
    here = sorted(name for name in PER_PARAMETER if hasattr(torch.optim, name))
    seldom = pytest.mark.thorough
    return [
        pytest.param(
            name,
            form,
            id=f"{name} {form}",
            marks=[] if form == "default" or name in FUSED else [seldom],
        )
        for name in here
        for form in (("default",) if name in WITHOUT_FORMS else FORMS)
        if form != "fused" or name in FUSED
    ]


def make(name: str = "AdamW", form: str = "fused") -> torch.optim.Optimizer:
    """Matrices and, where the optimizer takes them, vectors: a group for each."""
    torch.manual_seed(0)
    shapes = [(3, 4) if name == "Muon" or number % 2 else (5,) for number in range(GROUPS)]
    groups = [
        {"params": [nn.Parameter(torch.randn(shape))], "name": number} for number, shape in enumerate(shapes)
    ]
    kind = getattr(torch.optim, name)
    return kind(groups, **{"lr": 1e-3, **MORE.get(name, {}), **FORMS[form]})  # type: ignore[no-any-return]


def parameters_of(one: torch.optim.Optimizer) -> list[nn.Parameter]:
    return [p for group in one.param_groups for p in group["params"]]


def give_gradients(one: torch.optim.Optimizer, step: int) -> None:
    """Other ones in each step; one parameter has none in each fourth step, another begins late."""
    for number, p in enumerate(parameters_of(one)):
        gradient = torch.randn(p.shape, generator=torch.Generator().manual_seed(100 * step + number))
        without = (number == 3 and step % 4 == 1) or (number == 5 and step < 3)
        sparse = type(one).__name__ == "SparseAdam"
        p.grad = None if without else gradient.to_sparse() if sparse else gradient


def split_and_join(one: torch.optim.Optimizer, step: int) -> None:
    """As schedules do: from step 2 on a few groups are slower, in step 4 all are the same again."""
    for number, group in enumerate(one.param_groups):
        group["lr"] = 1e-3 * (0.5 if 2 <= step < 4 and number < 4 else 1.0) * 0.9**step
        if "weight_decay" in group:
            group["weight_decay"] = 0.01 if step == 5 and number % 3 else 0.0


def trained(
    on: Plan, make_it: Callable[[], torch.optim.Optimizer], change: Change = split_and_join, steps: int = 7
) -> tuple[list[torch.Tensor], Any, str]:
    """Parameters and the optimizer's checkpoint after some steps, and what the proof says."""
    with workbench() as bench:
        one = make_it()
        bench.switchboard.switch(on)
        for step in range(steps):
            change(one, step)
            give_gradients(one, step)
            one.step()
        evidence = "; ".join(proof.evidence for proof in bench.switchboard.proofs())
        bench.switchboard.switch(BASELINE)
        return [p.detach() for p in parameters_of(one)], copy.deepcopy(one.state_dict()), evidence


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def check_the_same_bits(make_it: Callable[[], torch.optim.Optimizer], change: Change = split_and_join) -> str:
    plain, saved, _ = trained(BASELINE, make_it, change)
    merged, saved_merged, evidence = trained(PLAN, make_it, change)
    assert same(plain, merged)
    assert same(saved, saved_merged)
    return evidence


# ---- the same bits
@pytest.mark.parametrize(("name", "form"), kinds())
def test_updates_and_checkpoints_are_the_same_to_the_bit(name: str, form: str) -> None:
    evidence = check_the_same_bits(lambda: make(name, form))
    assert evidence in {f"12 parameter groups updated as {few} a step" for few in (1, 2)}


def slower_in(power: int) -> Callable[[int], float]:
    return lambda step: float(0.9 ** (step * power))


@pytest.mark.parametrize("kind", ["LambdaLR", "OneCycleLR"])
def test_schedules_go_on(kind: str) -> None:
    """They wrap the step, and set the rate and (by OneCycleLR) the momentum of each group."""
    schedules: dict[int, Any] = {}

    def change(one: torch.optim.Optimizer, step: int) -> None:
        if step == 0:
            scheduler = torch.optim.lr_scheduler
            rates: list[Callable[[int], float]] = [slower_in(number % 2) for number in range(GROUPS)]
            schedules[id(one)] = (
                scheduler.LambdaLR(one, rates)
                if kind == "LambdaLR"
                else scheduler.OneCycleLR(
                    one, max_lr=[0.01 * (1 + n % 2) for n in range(GROUPS)], total_steps=9
                )
            )
        else:
            schedules[id(one)].step()

    evidence = check_the_same_bits(lambda: make("SGD", "foreach"), change)
    assert evidence == "12 parameter groups updated as 2 a step"


@pytest.mark.parametrize("form", ["fused", "foreach", "for-loop"])
def test_groups_whose_momentum_begins_later(form: str) -> None:
    """The fused kernel takes all of a group for one that has momentum, or none."""

    def change(one: torch.optim.Optimizer, step: int) -> None:
        if step == 3:
            torch.manual_seed(1)
            one.add_param_group({"params": [nn.Parameter(torch.randn(4))], "name": "new"})

    check_the_same_bits(lambda: make("SGD", form), change)


@pytest.mark.parametrize("form", ["fused", "foreach"])
def test_under_a_grad_scaler(form: str) -> None:
    """The fused form is given the scale, the others find gradients unscaled; one step overflows."""

    def run(on: Plan) -> list[torch.Tensor]:
        with workbench() as bench:
            one, scaler = make("Adam", form), torch.amp.GradScaler("cpu", init_scale=64.0)
            bench.switchboard.switch(on)
            for step in range(4):
                one.zero_grad()
                loss: Any = sum(
                    (p * p).sum() * (float("inf") if step == 2 else 1.0) for p in parameters_of(one)
                )
                torch.autograd.backward(scaler.scale(loss))
                scaler.step(one)
                scaler.update()
            bench.switchboard.switch(BASELINE)
            return [p.detach() for p in parameters_of(one)]

    assert same(run(BASELINE), run(PLAN))


def test_a_closure_sees_its_own_groups_and_may_change_them() -> None:
    def run(on: Plan) -> tuple[list[torch.Tensor], list[int], Any]:
        with workbench() as bench:
            one, seen = make("Adam"), []
            bench.switchboard.switch(on)

            def closure() -> float:
                seen.append(len(one.param_groups))
                one.param_groups[0]["lr"] *= 0.5
                one.zero_grad()
                loss: Any = sum((p * p).sum() for p in parameters_of(one))
                loss.backward()
                return float(loss.detach())  # torch 2.9 warns of what has a gradient

            losses = [one.step(closure), one.step(closure=closure)]
            bench.switchboard.switch(BASELINE)
            return [p.detach() for p in parameters_of(one)], seen, losses

    plain, merged = run(BASELINE), run(PLAN)
    assert same(plain, merged)
    assert merged[1] == [GROUPS, GROUPS]


@pytest.mark.thorough
def test_a_compiled_step() -> None:
    def change(one: torch.optim.Optimizer, step: int) -> None:
        if step == 0:
            vars(one)["step"] = torch.compile(one.step, backend="eager")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_the_same_bits(lambda: make("Adam", "foreach"), change)


# ---- the script's own view
def test_the_scripts_groups_are_its_own_at_all_times() -> None:
    seen: list[Any] = []
    with workbench() as bench:
        one = make()
        before, dicts, lists = (
            one.param_groups,
            list(one.param_groups),
            [g["params"] for g in one.param_groups],
        )
        one.register_step_pre_hook(lambda o, *_: seen.append((o is one, len(o.param_groups))))
        bench.switchboard.switch(PLAN)
        one.register_step_pre_hook(lambda o, *_: seen.append((o is one, len(o.param_groups))))
        one.register_step_post_hook(lambda o, *_: seen.append((o is one, len(o.param_groups))))
        give_gradients(one, 0)
        one.step()
        assert seen == [(True, GROUPS)] * 3
        assert one.param_groups is before
        assert all(a is b for a, b in zip(before, dicts, strict=True))
        assert all(group["params"] is own for group, own in zip(before, lists, strict=True))
        assert [len(group["params"]) for group in one.state_dict()["param_groups"]] == [1] * GROUPS


def test_a_hook_that_sets_rates_after_ours_is_obeyed() -> None:
    """As techniques do that are put in later."""

    def run(on: Plan) -> list[torch.Tensor]:
        with workbench() as bench:
            one = make()
            bench.switchboard.switch(on)

            def slower(o: torch.optim.Optimizer, *_: object) -> None:
                for number, group in enumerate(o.param_groups):
                    group["lr"] = 1e-3 * (1 + number % 2)

            one.register_step_pre_hook(slower)
            give_gradients(one, 0)
            one.step()
            bench.switchboard.switch(BASELINE)
            return [p.detach() for p in parameters_of(one)]

    assert same(run(BASELINE), run(PLAN))


def test_a_step_that_fails_leaves_everything_in_place() -> None:
    with workbench() as bench:
        one = make()
        bench.switchboard.switch(PLAN)
        parameters_of(one)[7].grad = torch.zeros(3, 4).to_sparse()
        with pytest.raises(RuntimeError):
            one.step()
        assert len(one.param_groups) == GROUPS
        give_gradients(one, 0)
        one.step()
        (proof,) = bench.switchboard.proofs()
        assert proof.effective


def test_a_checkpoint_loaded_under_it() -> None:
    def change(one: torch.optim.Optimizer, step: int) -> None:
        if step == 3:
            one.load_state_dict(copy.deepcopy(one.state_dict()))

    check_the_same_bits(lambda: make("Adam"), change)


def test_it_keeps_no_model_alive() -> None:
    with workbench() as bench:
        one = make()
        bench.switchboard.switch(PLAN)
        give_gradients(one, 0)
        gc.disable()
        try:
            one.step()
            held = [weakref.ref(p) for p in parameters_of(one)]
            del one
            assert not any(ref() is not None for ref in held)
        finally:
            gc.enable()


def test_removal_takes_its_hooks_back() -> None:
    with workbench() as bench:
        one = make()
        bench.switchboard.switch(PLAN)
        assert one._optimizer_step_pre_hooks
        bench.switchboard.switch(BASELINE)
        assert not one._optimizer_step_pre_hooks


def test_together_with_the_fused_form() -> None:
    def run(on: Plan) -> tuple[list[torch.Tensor], list[str]]:
        with workbench() as bench:
            one = make("Adam", "default")
            bench.switchboard.switch(on)
            for step in range(4):
                split_and_join(one, step)
                give_gradients(one, step)
                one.step()
            evidence = [proof.evidence for proof in bench.switchboard.proofs()]
            bench.switchboard.switch(BASELINE)
            return [p.detach() for p in parameters_of(one)], evidence

    fused, _ = run(Plan({"fused_optimizer": {}}))
    both, evidence = run(Plan({"fused_optimizer": {}, "merge_groups": {}}))
    assert same(fused, both)
    assert evidence == ["6 fused updates", "12 parameter groups updated as 2 a step"]


# ---- what may be one
def counted(groups: list[dict[str, Any]], **more: Any) -> int:
    one = torch.optim.Adam(groups, **more)
    return len(Merging(torch, one).merged(one))


def parameter(**more: Any) -> nn.Parameter:
    return nn.Parameter(torch.zeros(2, **more))


def test_what_the_update_does_not_read_keeps_no_groups_apart() -> None:
    assert counted([{"params": [parameter()], "name": name, "lr_scale": 0.1} for name in "abc"]) == 1


def test_rates_that_are_tensors_are_one_where_they_are_the_same_tensor() -> None:
    rate, equal = torch.tensor(0.1), torch.tensor(0.1)
    assert counted([{"params": [parameter()], "lr": lr} for lr in (rate, rate, equal)], capturable=False) == 2


def test_kernels_are_chosen_by_what_a_group_was() -> None:
    assert counted([{"params": [parameter(dtype=kind)]} for kind in (torch.float32, torch.float64)]) == 2
    mixed = [parameter(), parameter(dtype=torch.float64)]
    assert (
        counted([{"params": [p, q]} for p, q in (mixed, [parameter(), parameter(dtype=torch.float64)])]) == 2
    )


def test_parameters_that_share_memory_are_updated_in_their_order() -> None:
    memory = torch.zeros(6)
    apart = [{"params": [nn.Parameter(part)]} for part in (memory[:3], memory[3:])]
    assert counted(apart) == 1
    over = [{"params": [nn.Parameter(part)]} for part in (memory[:4], memory[3:])]
    assert counted(over) == 2


def test_lists_among_the_hyperparameters_keep_a_group_alone() -> None:
    assert counted([{"params": [parameter()], "betas": [0.9, 0.99]} for _ in range(3)]) == 3


def test_a_parameter_put_in_anothers_place_is_seen() -> None:
    """As scripts do that add points to a scene."""
    one = make()
    merging = Merging(torch, one)
    assert len(merging.merged(one)) == 1
    one.param_groups[0]["params"][0] = parameter(dtype=torch.float64)
    assert len(merging.merged(one)) == 2


class Recording(dict[str, Any]):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.asked: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)


@pytest.mark.parametrize(("name", "form"), kinds())
def test_an_update_reads_nothing_of_a_group_but_its_defaults(name: str, form: str) -> None:
    """On this what may be one is decided, with whatever torch is installed."""
    one = make(name, form)
    one.param_groups = [Recording(group) for group in one.param_groups]
    give_gradients(one, 5)
    one.step()
    for group in one.param_groups:
        assert isinstance(group, Recording)
        assert group.asked
        assert group.asked <= {"params", *one.defaults}


# ---- refused
class Own(torch.optim.Adam):
    """An optimizer of a script's, which may do anything with a group."""


@pytest.mark.parametrize(
    ("make_it", "reason"),
    [
        (lambda groups: Own(groups), "Own may look at a parameter group as a whole"),
        (lambda groups: torch.optim.Adam(groups, differentiable=True), "differentiable=True"),
        (lambda groups: torch.optim.Adam(groups[0]["params"]), "has several parameter groups"),
    ],
)
def test_optimizers_that_are_left_alone(make_it: Callable[[Any], Any], reason: str) -> None:
    with workbench() as bench:
        one = make_it([{"params": [parameter()]} for _ in range(3)])
        with pytest.raises(NotApplicable, match=reason):
            bench.switchboard.switch(PLAN)
        del one


def test_the_proof_fails_where_every_group_differs() -> None:
    def change(one: torch.optim.Optimizer, step: int) -> None:
        for number, group in enumerate(one.param_groups):
            group["lr"] = 1e-3 * (1 + number)

    _, _, evidence = trained(PLAN, make, change)
    assert evidence == "12 parameter groups updated as 12 a step"
    with workbench() as bench:
        one = make()
        change(one, 0)
        bench.switchboard.switch(PLAN)
        give_gradients(one, 0)
        one.step()
        (proof,) = bench.switchboard.proofs()
        assert not proof.effective


def test_what_is_seen_of_groups() -> None:
    one = make()
    one.param_groups[0]["lr"] = 0.5
    seen = describe_optimizer(torch, one)
    assert (seen.groups, seen.distinct_groups, seen.why_not_merged) == (GROUPS, 2, "")
    lbfgs = describe_optimizer(torch, torch.optim.LBFGS([parameter()]))
    assert (lbfgs.groups, lbfgs.distinct_groups) == (1, 1)
    assert lbfgs.why_not_merged == "LBFGS may look at a parameter group as a whole"


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        ((), "no torch optimizer"),
        ((optimizer(),), "no optimizer has 8 parameter groups or more: one has 1"),
        (
            (optimizer(groups=9, distinct_groups=9),),
            "each of 9 parameter groups has hyperparameters of its own",
        ),
        ((optimizer(groups=9, distinct_groups=9, why_not_merged="made by hand"),), "made by hand"),
    ],
)
def test_what_it_refuses(seen: Any, reason: str) -> None:
    (said,) = MergeGroups.refuse(facts(optimizers=seen))
    assert reason in said


@pytest.mark.parametrize(("share", "refused"), [(0.012, True), (0.5, False)])
def test_it_is_refused_where_it_could_not_save_a_hundredth(share: float, refused: bool) -> None:
    from tests.bench.made_up import step

    steps = tuple(step(shares={"optimizer": share}) for _ in range(4))
    reasons = MergeGroups.refuse(facts(optimizers=(optimizer(groups=20, distinct_groups=10),), steps=steps))
    assert bool(reasons) is refused
    assert not refused or reasons == ["it could save 0.6% of a step at most: the update takes no more"]
