"""What the seams in torch see of a training, and that they leave no trace in it."""

from __future__ import annotations

import copy
import gc
import importlib
import pickle
import time
import weakref
from collections import UserDict
from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest
import torch
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, Dataset, TensorDataset, dataloader

from hasten.inside.guarding.perturber import Perturber
from hasten.inside.guarding.recorder import Recorder
from hasten.inside.observing.cycles import cycle_length
from hasten.inside.observing.identify import describe_root
from hasten.inside.observing.slot import ForwardSlot
from hasten.inside.observing.uses import Uses
from hasten.inside.seams import Seams
from hasten.records.plan import Plan
from hasten.testing.technique_contract import LIVE, plan_of
from hasten.testing.workbench import adam_by_parameter, workbench

from ..watching import Watch


class Net(torch.nn.Module):
    """A module that can be pickled, with a submodule."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.inner(inputs))


def sgd(*modules: torch.nn.Module) -> torch.optim.SGD:
    return torch.optim.SGD([p for module in modules for p in module.parameters()], lr=0.1)


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: int = 1) -> list[float]:
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.ones(8, 4)).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# ---- roots
def test_the_outermost_module_that_is_called_is_the_root(watch: Watch) -> None:
    model = Net()
    train(model, sgd(model))
    assert watch.training.roots == [model]
    assert watch.found == 1


def test_a_module_without_optimized_parameters_is_no_root(watch: Watch) -> None:
    features, model, criterion = torch.nn.Linear(4, 4), Net(), torch.nn.MSELoss()
    optimizer = sgd(model)
    criterion(model(features(torch.ones(8, 4))), torch.ones(8, 2)).backward()
    optimizer.step()
    assert watch.training.roots == [model]


def test_what_a_picture_is_trained_through_is_the_root(watch: Watch) -> None:
    """As in style transfer, where all of the network is frozen."""
    network = Net().requires_grad_(False).eval()
    target = network(torch.zeros(8, 4))
    picture = torch.zeros(8, 4, requires_grad=True)
    optimizer = torch.optim.SGD([picture], lr=0.1)
    for _ in range(2):
        loss: Any = mse_loss(network(picture.clamp(-1, 1)), target + 1)
        loss.backward()
        optimizer.step()
    assert watch.training.roots == [network]
    assert not watch.training.is_trained(network)
    assert not watch.training.records_evaluations
    assert [(step.forwards, step.evaluations) for step in watch.steps] == [(1, 0), (1, 0)]


@pytest.mark.parametrize("frozen", [True, False])
def test_a_network_that_judges_what_another_makes_is_a_root(watch: Watch, frozen: bool) -> None:
    """As in training by a perceptual loss: it may compute more than the model does."""
    judge, model = Net().requires_grad_(not frozen).eval(), torch.nn.Linear(4, 4)
    optimizer, training = sgd(model), watch.training
    judge(torch.ones(8, 4))  # what is to be made
    for _ in range(2):
        judge(model(torch.ones(8, 4))).sum().backward()
        optimizer.step()
    assert training.roots == ([judge, model] if frozen else [model, judge])
    assert [training.is_helper(root) for root in (model, judge)] == [False, True]
    assert not training.records_evaluations
    assert [(step.forwards, step.evaluations) for step in watch.steps] == [(2 + frozen, 0), (2, 0)]
    assert describe_root(torch, judge, training.owned()).trained == 0


@pytest.mark.parametrize("mode", [False, True])
def test_a_teacher_is_a_root(watch: Watch, mode: bool) -> None:
    """Its passes record no gradients, and are neither a student's nor an evaluation. A script may leave it in
    training mode.
    """
    teacher, student = Net().train(mode), Net()
    optimizer, training = sgd(student), watch.training
    for _ in range(3):
        with torch.no_grad():
            aim = teacher(torch.ones(8, 4))
        loss: Any = mse_loss(student(torch.ones(8, 4)), aim)
        loss.backward()
        optimizer.step()
    assert training.roots == [teacher, student]
    assert [training.is_helper(root) for root in training.roots] == [True, False]
    assert [training.teaches(root) for root in training.roots] == [True, False]
    assert [(step.forwards, step.evaluations) for step in watch.steps] == 3 * [(1, 0)]
    assert not training.modes_without_gradients
    student.eval()
    assert not training.teaches(teacher), "it is evaluated, too"


def test_the_parts_of_an_encoder_that_is_never_called_itself_are_roots(watch: Watch) -> None:
    """``vae.encode(images)`` calls its layers one by one, before the model that is trained is called."""
    layers, model = [torch.nn.Linear(4, 4).eval() for _ in range(3)], Net()
    optimizer, code = sgd(model), torch.ones(8, 4)
    with torch.no_grad():
        for layer in layers:
            code = layer(code)
    model(code).sum().backward()
    optimizer.step()
    assert watch.training.roots == [*layers, model]
    assert [watch.training.is_helper(root) for root in watch.training.roots] == [True, True, True, False]


def test_what_only_evaluations_call_is_no_root(watch: Watch) -> None:
    model, judge = Net(), Net().eval()
    optimizer = sgd(model)
    model(torch.ones(8, 4)).sum().backward()
    model.eval()
    with torch.no_grad():
        model(torch.ones(8, 4))
        judge(torch.ones(8, 4))
    model.train()
    optimizer.step()
    assert watch.training.roots == [model]


@pytest.mark.parametrize("first", [True, False])
def test_a_frozen_teacher_is_a_root_where_gradients_are_on(watch: Watch, first: bool) -> None:
    """Most scripts freeze it and leave it at that. It may be called before the student, or after."""
    teacher, student = Net().requires_grad_(False).eval(), Net()
    optimizer, training = sgd(student), watch.training
    inputs = torch.ones(8, 4)
    for _ in range(3):
        aim = teacher(inputs) if first else None
        output = student(inputs)
        loss: Any = mse_loss(output, teacher(inputs) if aim is None else aim)
        loss.backward()
        optimizer.step()
    assert set(training.roots) == {teacher, student}
    assert training.is_helper(teacher)
    assert not training.is_helper(student)
    assert not training.records_evaluations
    assert [step.evaluations for step in watch.steps] == [0, 0, 0]


def test_a_teacher_that_was_trained_before_still_teaches(watch: Watch) -> None:
    teacher, student = Net(), Net()
    train(teacher, sgd(teacher))
    gc.collect()
    train(student, (optimizer := sgd(student)))
    training = watch.training
    assert (training.teaches(teacher), training.teaches(student)) == (True, False)
    assert not training.is_helper(teacher)
    del optimizer
    gc.collect()
    assert not training.teaches(teacher), "none is trained any more, or both are"


@pytest.mark.attack("truth")
def test_what_is_called_without_gradients_and_does_not_teach(watch: Watch) -> None:
    model, average, other = Net(), Net(), Net().requires_grad_(False)
    training = watch.training
    with torch.no_grad():
        other(torch.ones(8, 4))  # there is nothing to train yet
        assert training.roots == []
        optimizer = sgd(model)
        model(torch.ones(8, 4))  # before it is trained
        (layer := torch.nn.ReLU())(torch.ones(8, 4))  # has nothing of its own
    assert training.roots == []
    train(model, optimizer)
    with torch.no_grad():
        average(torch.ones(8, 4))  # once a step has been made, it would have been seen
    assert training.roots == [model]
    another = torch.optim.SGD(model.parameters(), lr=0.1)  # the next look
    model.eval()
    with torch.no_grad():
        average(torch.ones(8, 4))  # an evaluation
    assert training.roots == [model]
    del another, layer


@pytest.mark.attack("truth")
def test_an_average_that_is_called_late_does_not_teach(watch: Watch) -> None:
    """Modules are still watched, as one that an optimizer has was not called."""
    model, average, uncalled = Net(), Net(), Net()
    train(model, optimizer := sgd(model, uncalled))
    assert watch.looking
    with torch.no_grad():
        average(torch.ones(8, 4))
    assert watch.training.roots == [model]
    del optimizer


def test_the_teacher_of_a_later_training_is_found(watch: Watch) -> None:
    first, teacher, student = Net(), Net(), Net()
    train(first, sgd(first))
    optimizer = sgd(student)
    with torch.no_grad():
        teacher(torch.ones(8, 4))
    train(student, optimizer)
    assert watch.training.roots == [first, teacher, student]
    judge, model = Net().requires_grad_(False), torch.nn.Linear(4, 4)
    optimizer = sgd(model)
    judge(model(torch.ones(8, 4))).sum().backward()
    assert watch.training.roots[3:] == [model, judge]


@pytest.mark.parametrize("kind", ["half", "script", "compile"])
@pytest.mark.filterwarnings("ignore")  # of torch's, about what the script does here
def test_a_helper_that_cannot_be_followed_is_left_as_it_is(watch: Watch, kind: str) -> None:
    """It is no reason to refuse the training of others."""
    helper: Any = torch.nn.Sequential(torch.nn.Linear(4, 4), Net()).requires_grad_(False)
    if kind == "half":
        helper.bfloat16()
    elif kind == "script":
        helper = torch.jit.script(helper)
    else:
        helper.compile(backend="eager")
    model = torch.nn.Linear(4, 4)
    optimizer = sgd(model)
    for _ in range(2):
        made: Any = model(torch.ones(8, 4))
        given = made.bfloat16() if kind == "half" else made
        with torch.no_grad():
            helper(given)
        helper(given).sum().backward()
        optimizer.step()
    assert watch.training.roots == [model]
    assert not watch.training.obstacles
    assert len(watch.steps) == 2


def test_a_helper_that_is_called_by_its_forward_is_followed(watch: Watch) -> None:
    helper: Any = torch.nn.Sequential(torch.nn.Linear(4, 4), Net())
    model = torch.nn.Linear(4, 4)
    optimizer = sgd(model)
    for _ in range(2):
        helper.forward(model(torch.ones(8, 4))).sum().backward()
        optimizer.step()
    assert watch.training.roots == [model, helper]
    assert [step.forwards for step in watch.steps] == [2, 2]


@pytest.mark.parametrize("how", ["in place", "anew", "a part"])
def test_what_the_script_compiles_is_compiled_once(watch: Watch, how: str) -> None:
    """And not once more when modules are watched no longer."""
    graphs = []

    def backend(graph: Any, inputs: object) -> Any:
        graphs.append(graph)
        return graph.forward

    model: Any = torch.nn.Sequential(Net(), torch.nn.ReLU(), torch.nn.Linear(2, 1))
    optimizer = sgd(model)
    if how == "anew":
        model = torch.compile(model, backend=backend)
    else:
        (model if how == "in place" else model[0]).compile(backend=backend)
    for _ in range(3):
        model(torch.ones(8, 4)).sum().backward()
        optimizer.step()
    assert len(graphs) == 1
    assert len(watch.steps) == 3


def test_an_opponent_that_is_frozen_for_now_is_trained(watch: Watch) -> None:
    """As in adversarial training, where the generator's step comes first."""
    generator, opponent = torch.nn.Linear(4, 4), Net()
    optimizers = sgd(generator), sgd(opponent)
    opponent.requires_grad_(False)
    opponent(generator(torch.ones(8, 4))).sum().backward()
    optimizers[0].step()
    assert watch.training.roots == [generator, opponent]
    assert not watch.training.is_helper(opponent)


def test_a_judge_may_be_trained_later(watch: Watch) -> None:
    judge, model = Net(), torch.nn.Linear(4, 4)
    optimizer = sgd(model)
    judge(model(torch.ones(8, 4))).sum().backward()
    optimizer.step()
    assert watch.training.is_helper(judge)
    later = sgd(judge)
    assert not watch.training.is_helper(judge)
    assert describe_root(torch, judge, watch.training.owned()).trained
    del later


def test_a_judge_whose_mode_never_changes_does_not_hide_an_evaluation(watch: Watch) -> None:
    judge, model = Net().requires_grad_(False), torch.nn.Linear(4, 4)
    optimizer, training = sgd(model), watch.training
    judge(model(torch.ones(8, 4))).sum().backward()
    optimizer.step()
    assert not training.in_eval()
    model.eval()
    assert training.in_eval()
    del model, optimizer
    gc.collect()
    assert training.roots == [judge]
    assert not training.in_eval()
    judge.eval()
    assert training.in_eval(), "there is no other"


def test_a_backbone_that_trains_in_evaluation_mode_is_not_evaluated(watch: Watch) -> None:
    """Its statistics stay as they are; the head is in training mode."""
    backbone, head = torch.nn.Linear(4, 4).eval(), Net()
    optimizer = sgd(backbone, head)
    for _ in range(2):
        head(backbone(torch.ones(8, 4))).sum().backward()
        optimizer.step()
    assert watch.training.roots == [backbone, head]
    assert [(step.forwards, step.evaluations) for step in watch.steps] == [(2, 0), (2, 0)]


def test_an_evaluation_with_gradients_is_of_the_network_that_trains_next(watch: Watch) -> None:
    model = Net()
    optimizer = sgd(model)
    train(model, optimizer)
    model.eval()(torch.ones(8, 4))
    model.train()
    train(model, optimizer)
    assert [(step.forwards, step.evaluations) for step in watch.steps] == [(1, 0), (1, 1)]


def test_nothing_is_kept_for_each_model_that_comes_and_goes(watch: Watch) -> None:
    def of_many(count: int) -> int:
        for _ in range(count):
            model = Net()
            train(model, sgd(model))
        del model
        watch.steps.clear()
        gc.collect()
        return len(gc.get_objects()) + len(watch.hooks._uncalled)

    before = of_many(3)
    assert of_many(100) - before < 60


def test_each_of_several_models_is_a_root(watch: Watch) -> None:
    encoder, decoder = torch.nn.Linear(4, 3), torch.nn.Linear(3, 4)
    optimizer = sgd(encoder, decoder)
    decoder(encoder(torch.ones(8, 4))).sum().backward()
    optimizer.step()
    assert watch.training.roots == [encoder, decoder]
    assert watch.steps[0].forwards == 2


def test_a_part_that_is_trained_later_by_itself_is_a_root_then(watch: Watch) -> None:
    """As where an encoder is trained within an autoencoder, and then tuned."""
    whole = torch.nn.Sequential(Net(), torch.nn.Linear(2, 4))
    train(whole, first := sgd(whole), 2)
    assert not watch.looking
    train(whole[0], second := sgd(whole[0]), 2)
    assert watch.training.roots == [whole, whole[0]]
    assert [step.forwards for step in watch.steps] == [1, 1, 1, 1]
    assert not watch.looking
    assert len({id(first), id(second)}) == 2


def test_nothing_is_looked_for_where_the_optimizer_of_a_training_outlives_its_model(watch: Watch) -> None:
    model = Net()
    first = sgd(model)
    train(model, first)
    del model
    later = Net()
    train(later, sgd(later))
    assert not watch.looking
    assert first in watch.training.optimizers


class Solver(torch.nn.Module):
    """What torchdiffeq and others put around a model for each pass."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.model(inputs)
        return result


def test_the_model_within_a_module_made_anew_for_each_pass_is_the_root(watch: Watch) -> None:
    model = Net()
    optimizer = sgd(model)
    for _ in range(4):
        Solver(model)(torch.ones(8, 4)).sum().backward()
        optimizer.step()
    assert watch.training.roots == [model]
    assert [step.forwards for step in watch.steps] == [1] * 4
    assert not watch.looking


def test_models_trained_one_after_another_are_not_taken_for_modules_made_for_a_pass(watch: Watch) -> None:
    for _ in range(3):
        model = Net()
        optimizer = sgd(model)
        train(model, optimizer, 2)
        assert watch.training.roots == [model]
    assert [step.forwards for step in watch.steps] == [1] * 6


def test_a_model_that_goes_before_its_optimizer_is_not_taken_for_one(watch: Watch) -> None:
    optimizers = []
    for _ in range(3):
        model = Net()
        optimizers.append(sgd(model))
        train(model, optimizers[-1], 2)
        assert watch.training.roots == [model]
    assert [step.forwards for step in watch.steps] == [1] * 6


def test_another_optimizer_for_the_same_model_finds_it_again(watch: Watch) -> None:
    model = Net()
    kept = [sgd(model), sgd(model)]
    for optimizer in kept:
        train(model, optimizer)
    assert watch.training.roots == [model]
    assert not watch.looking


def test_without_an_optimizer_what_can_be_trained_is_the_root(watch: Watch) -> None:
    frozen, model = torch.nn.Linear(4, 4).requires_grad_(False), Net()
    model(frozen(torch.ones(8, 4))).sum().backward()
    assert watch.training.roots == [model]


def test_a_forward_pass_without_gradients_finds_no_root(watch: Watch) -> None:
    model = Net()
    optimizer = sgd(model)
    with torch.no_grad():
        model(torch.ones(8, 4))
    assert watch.training.roots == []
    train(model, optimizer)
    assert watch.training.roots == [model]


def test_what_is_called_before_there_is_an_optimizer_is_only_tried_out(watch: Watch) -> None:
    """To print its layers' shapes, say; a model that is called as a whole may be trained in parts, too."""
    model = Net()
    model.inner(torch.ones(8, 4))
    model(torch.ones(8, 4))
    optimizer = sgd(model)
    assert watch.training.roots == []
    train(model, optimizer)
    train(model, optimizer)
    assert watch.training.roots == [model]
    assert watch.steps[-1].forwards == 1


def test_parts_that_are_tried_out_where_there_is_no_optimizer_are_no_roots(watch: Watch) -> None:
    """Keras calls layer by layer to find out shapes; its optimizers are none of torch's."""
    model = Net()
    model.inner(torch.ones(8, 4))
    for _ in range(3):
        model(torch.ones(8, 4)).sum().backward()
    assert watch.training.roots == [model]
    assert [step.forwards for step in watch.steps] == [2, 1, 1]


def test_a_part_that_is_trained_by_itself_where_there_is_no_optimizer_is_found_again(watch: Watch) -> None:
    model = Net()
    for _ in range(3):
        hidden = model.inner(torch.ones(8, 4))
        (model(torch.ones(8, 4)).sum() + hidden.sum()).backward()
    assert watch.training.roots == [model, model.inner]
    assert [step.forwards for step in watch.steps] == [2, 2, 2]


def test_what_was_trained_without_an_optimizer_stays_known(watch: Watch) -> None:
    first, second = Net(), Net()
    first(torch.ones(8, 4)).sum().backward()
    optimizer = sgd(second)
    train(second, optimizer)
    assert watch.training.roots == [first, second]


def test_the_root_is_told_before_its_first_forward_pass_runs(watch: Watch) -> None:
    model, order = Net(), []
    watch.hooks._on_root = lambda: order.append("root")
    model.inner.register_forward_hook(lambda *_: order.append("forward"))
    model(torch.ones(8, 4))
    assert order == ["root", "forward"]


def test_a_profiler_that_records_stacks_survives_the_look(watch: Watch) -> None:
    """torch's profiler reads the module out of each frame of ``nn.Module.__call__``, by the name that torch
    gives it, and crashes the process if there is none.
    """
    assert torch.nn.Module.__call__.__code__.co_varnames[0] == "self"
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters())
    with torch.profiler.profile(with_stack=True) as profiler:
        model(torch.randn(8, 4)).sum().backward()
        optimizer.step()
    names = {event.name for event in profiler.events()}
    assert "aten::addmm" in names
    assert "nn.Module: Linear_0" in names or torch.__version__.startswith("2.9.")  # which names no modules


def test_modules_are_looked_at_only_until_all_is_found(watch: Watch) -> None:
    assert watch.looking
    first, second = Net(), torch.nn.Linear(2, 2)
    optimizer = sgd(first, second)
    hidden = first(torch.ones(8, 4))
    assert watch.looking
    second(hidden).sum().backward()
    assert watch.looking, "a loss may call others"
    optimizer.step()
    assert not watch.looking
    assert watch.training.optimizers == [optimizer]


def test_a_model_trained_later_is_found_too(watch: Watch) -> None:
    first, second = Net(), Net()
    train(first, sgd(first))
    optimizer = sgd(second)
    assert watch.looking
    train(second, optimizer)
    assert watch.training.roots == [first, second]
    assert not watch.looking


def test_another_optimizer_for_a_known_model_starts_no_new_look(watch: Watch) -> None:
    model = Net()
    train(model, sgd(model))
    train(model, sgd(model))
    assert not watch.looking
    assert len(watch.steps) == 2


def test_a_finished_model_and_its_optimizer_are_freed(watch: Watch) -> None:
    model = Net()
    optimizer = sgd(model)
    train(model, optimizer)
    refs = weakref.ref(model), weakref.ref(optimizer)
    gc.collect()
    gc.disable()  # at once, not only when Python looks for cycles
    try:
        del model, optimizer
        assert [ref() for ref in refs] == [None, None]
    finally:
        gc.enable()
    assert watch.training.roots == []
    assert watch.training.optimizers == []


def test_a_model_compiled_by_the_script_stays_compiled(watch: Watch) -> None:
    model, calls = Net(), []

    def compiled(inputs: torch.Tensor) -> torch.Tensor:
        calls.append(len(inputs))
        return model.forward(inputs)

    model._compiled_call_impl = compiled
    train(model, sgd(model), steps=2)
    assert calls == [8, 8]
    assert watch.steps[1].forwards == 1
    watch.training.seams.undo_all()
    assert model._compiled_call_impl is compiled


def test_wrappers_stand_around_the_roots_forward_pass_alone(watch: Watch) -> None:
    model, seen = Net(), []

    def wrapper(root: Any, call: Any, args: Any, kwargs: Any) -> Any:
        seen.append((root, call(*args, **kwargs).shape))
        return torch.zeros(8, 2, requires_grad=True)

    watch.training.forward_wrappers["test"] = wrapper
    assert not model(torch.ones(8, 4)).any()
    assert seen == [(model, (8, 2))]


def test_a_forward_pass_that_raises_is_over(watch: Watch) -> None:
    model = Net()
    optimizer = sgd(model)
    with pytest.raises(RuntimeError):
        model(torch.ones(8, 5))
    train(model, optimizer)
    assert watch.steps[0].forwards == 2


# ---- what the script keeps
def test_copies_and_checkpoints_of_a_root_carry_no_slot(watch: Watch) -> None:
    plain_keys = list(Net().state_dict())
    model = Net()
    train(model, sgd(model))
    assert isinstance(model._compiled_call_impl, ForwardSlot)
    assert list(model.state_dict()) == plain_keys
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert copied._compiled_call_impl is None
        assert torch.equal(copied(torch.ones(1, 4)), model(torch.ones(1, 4)))


def test_training_is_the_same_bit_for_bit(watch: Watch) -> None:
    torch.manual_seed(0)
    model = Net()
    seen = train(model, sgd(model), steps=5)
    watch.training.seams.undo_all()
    torch.manual_seed(0)
    model = Net()
    assert train(model, sgd(model), steps=5) == seen


def owners() -> list[Any]:
    """Everything that our seams replace something in."""
    return [
        torch, torch.nn.Module, torch.Tensor, torch.autograd, torch.optim.Optimizer, torch.optim.Adam,
        importlib.import_module("torch.optim.adam"), torch.amp.GradScaler, torch.amp.autocast_mode.autocast,
        DataLoader, dataloader._BaseDataLoaderIter, dataloader._DatasetKind,
    ]  # fmt: skip


def attributes() -> dict[tuple[str, str], Any]:
    held = {(str(owner), name): value for owner in owners() for name, value in vars(owner).items()}
    optimizers = importlib.import_module("torch.optim.optimizer")
    for name in ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks"):
        held |= {(name, str(key)): hook for key, hook in getattr(optimizers, name).items()}
    return held


def differing(before: dict[tuple[str, str], Any], after: dict[tuple[str, str], Any]) -> set[str]:
    return {name for owner, name in before if after.get((owner, name)) is not before[owner, name]}


REPLACED = {
    "__call__", "__init__", "__iter__", "__next__", "__enter__", "backward", "compile", "create_fetcher",
    "_fused_adam",
}  # fmt: skip


def test_undoing_all_seams_restores_every_attribute() -> None:
    torch.optim.Adam(Net().parameters())  # the first of its kind wraps the step of its class
    torch.compile(lambda: 0, backend="eager")()  # torch itself takes optimizers out of compiling
    before = attributes()
    with workbench(make_optimizer=adam_by_parameter) as bench:
        Uses().watch(bench.training)
        Recorder(bench.training)
        Perturber(bench.training, 1e-7, redraw=False, seed=0)
        bench.switchboard.switch(Plan({"fused_optimizer": {}}))
        assert differing(before, attributes()) >= REPLACED
        bench.train(2)
        for name in LIVE:
            bench.switchboard.switch(plan_of(name))
            bench.train(1)
        bench.switchboard.switch(Plan())
    after = attributes()
    assert differing(before, after) == set()
    new = [after[key] for key in after.keys() - before.keys()]
    assert [value for value in new if str(getattr(value, "__module__", "")).startswith("hasten")] == []


# ---- steps
def test_evaluation_is_told_from_training(watch: Watch) -> None:
    model = Net()
    optimizer = sgd(model)
    train(model, optimizer)
    with torch.no_grad():
        model(torch.ones(64, 4))
    train(model, optimizer)
    assert [(step.forwards, step.evaluations) for step in watch.steps] == [(1, 0), (1, 1)]
    assert [step.inputs for step in watch.steps] == [8, 8]


def test_accumulated_gradients_make_one_step(watch: Watch) -> None:
    model = Net()
    optimizer = sgd(model)
    for number, (inputs,) in enumerate(DataLoader(TensorDataset(torch.ones(40, 4)), batch_size=8), 1):
        (model(inputs).mean() / 4).backward()
        if number % 4 == 0:
            optimizer.step()
    (step,) = watch.steps
    assert (step.forwards, step.backwards, step.samples) == (4, 4, 32)
    assert len(step.losses) == 4


def test_a_gan_has_a_cycle_of_its_inner_steps(watch: Watch) -> None:
    generator, discriminator = torch.nn.Linear(2, 4), torch.nn.Linear(4, 1)
    of_generator, of_discriminator = sgd(generator), sgd(discriminator)
    for number in range(30):
        fake = generator(torch.randn(8, 2))
        if number % 3 < 2:
            (discriminator(fake.detach()) - discriminator(torch.randn(8, 4))).mean().backward()
            of_discriminator.step()
        else:
            (-discriminator(fake)).mean().backward()
            of_generator.step()
        of_discriminator.zero_grad()
        of_generator.zero_grad()
    signatures = [(step.optimizer, step.forwards, step.backwards) for step in watch.steps]
    assert signatures[:3] == [(1, 3, 1), (1, 3, 1), (0, 2, 1)]
    assert cycle_length(signatures) == 3


@pytest.mark.parametrize("by", ["loss.backward()", "autograd.backward(loss)", "autograd.backward([loss])"])
def test_losses_are_recorded_as_they_were(watch: Watch, by: str) -> None:
    model = Net()
    optimizer = sgd(model)
    loss = model(torch.ones(8, 4)).mean()
    if by == "loss.backward()":
        loss.backward()
    else:
        torch.autograd.backward(loss if by == "autograd.backward(loss)" else [loss])
    before = loss.item()
    loss.detach().zero_()  # libraries overwrite losses for their logs
    optimizer.step()
    (step,) = watch.steps
    assert step.losses == [before]
    assert step.backwards == 1


def test_two_losses_of_one_backward_pass_are_both_recorded(watch: Watch) -> None:
    model = Net()
    optimizer = sgd(model)
    output = model(torch.ones(8, 4))
    torch.autograd.backward([output.mean(), output.sum()])
    optimizer.step()
    assert len(watch.steps[0].losses) == 2


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    "backward",
    [
        lambda loss, model: loss.backward(None, False),
        lambda loss, model: loss.backward(None, True),
        lambda loss, model: loss.backward(None, True, False, list(model.parameters())),
        lambda loss, model: cast(Any, torch.Tensor.backward)(loss, None, True),
        lambda loss, model: cast(Any, torch.Tensor.backward)(self=loss),
        lambda loss, model: torch.autograd.backward(loss, None, True),
        lambda loss, model: torch.autograd.backward(tensors=loss),
        lambda loss, model: torch.autograd.backward(grad_tensors=None, tensors=[loss]),
        lambda loss, model: gradients_taken(loss, model, False),
        lambda loss, model: gradients_taken(loss, model, None),
    ],
)
def test_a_pass_is_seen_however_its_arguments_are_given(watch: Watch, backward: Any) -> None:
    model = Net()
    optimizer = sgd(model)
    loss = model(torch.ones(8, 4)).square().mean()
    backward(loss, model)
    optimizer.step()
    (step,) = watch.steps
    assert (step.backwards, step.losses) == (1, [loss.item()])


def gradients_taken(loss: Any, model: Net, retain: bool | None) -> None:
    parameters = list(model.parameters())
    for parameter, gradient in zip(
        parameters, torch.autograd.grad(loss, parameters, None, retain, False), strict=True
    ):
        parameter.grad = gradient


@pytest.mark.attack("truth")
def test_the_time_of_a_gradient_within_the_loss_is_the_backward_passes(watch: Watch) -> None:
    """Also where a forward pass follows it, as in a step within the step."""
    model, seconds = Net(), 0.02
    optimizer = sgd(model)
    out = model(torch.ones(8, 4))
    out.register_hook(lambda _: time.sleep(seconds))
    torch.autograd.grad(out.sum(), list(model.parameters()), create_graph=True)
    model(torch.ones(8, 4)).sum().backward()
    optimizer.step()
    (step,) = watch.steps
    assert step.backward >= seconds
    assert step.backwards == 1


@pytest.mark.parametrize(
    "slope_of",
    [
        lambda out, x: torch.autograd.grad(out, x, create_graph=True),
        lambda out, x: torch.autograd.grad(out, x, None, True, True),
        lambda out, x: torch.autograd.grad(out, x, None, None, True),
        lambda out, x: torch.autograd.grad(outputs=out, inputs=x, create_graph=True),
    ],
)
def test_a_gradient_within_the_loss_is_no_pass(watch: Watch, slope_of: Any) -> None:
    model = Net()
    optimizer = sgd(model)
    x = torch.ones(8, 4, requires_grad=True)
    out = model(x)
    (slope,) = slope_of(out.square().sum(), x)
    loss = out.mean() + slope.square().mean()
    loss.backward()
    optimizer.step()
    (step,) = watch.steps
    assert (step.backwards, step.losses) == (1, [loss.item()])


def test_without_an_optimizer_a_backward_pass_is_a_step(watch: Watch) -> None:
    model = Net()
    for _ in range(3):
        model(torch.ones(8, 4)).mean().backward()
    assert [step.optimizer for step in watch.steps] == [-1, -1, -1]
    assert [(step.forwards, step.backwards, step.inputs) for step in watch.steps] == [(1, 1, 8)] * 3


def test_a_closure_inside_the_optimizers_step_is_no_step_of_its_own(watch: Watch) -> None:
    model = Net()
    optimizer: Any = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def closure() -> Any:
        optimizer.zero_grad()
        loss: Any = mse_loss(model(torch.ones(8, 4)), torch.ones(8, 2))
        loss.backward()
        return loss.item()

    for _ in range(2):
        optimizer.step(closure)
    assert len(watch.steps) == 2
    for step in watch.steps:
        assert step.forwards == step.backwards >= 1
        assert step.update > 0
        assert sum(step.phases().values()) == pytest.approx(step.seconds)


class Around(torch.optim.Optimizer):
    """An optimizer whose step calls another's, as Lookahead and sharpness-aware minimization do."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        super().__init__([p for group in inner.param_groups for p in group["params"]], {})
        self.inner = inner
        self.fails = False

    def step(self, closure: Any = None) -> Any:
        if self.fails:
            raise RuntimeError("no luck")
        self.inner.step()


def test_an_optimizer_within_an_optimizer_makes_one_step(watch: Watch) -> None:
    model = Net()
    outer = Around(sgd(model))
    train(model, outer, steps=3)
    assert [(step.optimizer, step.forwards) for step in watch.steps] == [(1, 1)] * 3
    for step in watch.steps:
        assert sum(step.phases().values()) == pytest.approx(step.seconds)


def test_an_update_that_raises_is_no_step_and_spoils_none(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = [0.0]
    monkeypatch.setattr("hasten.inside.observing.observer.clock", lambda: seconds[0])
    model = Net()
    outer = Around(sgd(model))
    outer.fails = True
    with pytest.raises(RuntimeError):
        train(model, outer)
    outer.fails = False
    seconds[0] += 100
    train(model, outer, steps=2)
    assert [step.forwards for step in watch.steps] == [2, 1]
    assert [step.update for step in watch.steps] == [0, 0]


# ---- data
class Records(Dataset[Any]):
    """Samples of the kind it is made for."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> Any:
        inputs, label = torch.full((4,), float(index)), index % 2
        return {
            "pair": (inputs, label),
            "dict": {"inputs": inputs, "labels": label},
            "nested": [{"id": str(index), "x": (inputs, {"label": label})}],
        }[self.kind]


def tensor_of(batch: Any) -> torch.Tensor:
    while not torch.is_tensor(batch):
        batch = (batch.get("inputs", batch.get("x"))) if isinstance(batch, dict) else batch[0]
    return batch


@pytest.mark.parametrize("kind", ["pair", "dict", "nested"])
def test_samples_are_counted_in_batches_of_any_kind(watch: Watch, kind: str) -> None:
    model = Net()
    optimizer = sgd(model)
    for batch in DataLoader(Records(kind), batch_size=5):
        model(tensor_of(batch)).mean().backward()
        optimizer.step()
    assert [step.samples for step in watch.steps] == [5, 5, 5, 1]


def test_samples_are_counted_in_a_mapping_that_is_no_dict(watch: Watch) -> None:
    """Tokenizers and their collators give such batches."""

    def collate(samples: list[Any]) -> UserDict[str, torch.Tensor]:
        return UserDict(inputs=torch.stack([sample["inputs"] for sample in samples]))

    model = Net()
    optimizer = sgd(model)
    for batch in DataLoader(Records("dict"), batch_size=5, collate_fn=collate):
        model(batch["inputs"]).mean().backward()
        optimizer.step()
    assert [step.samples for step in watch.steps] == [5, 5, 5, 1]


def test_each_batch_is_told_as_it_leaves_the_loader(watch: Watch) -> None:
    batches: list[Any] = []
    watch.hooks.on_batch.append(lambda batch, _: batches.append(batch))
    given = list(DataLoader(Records("pair"), batch_size=8))
    assert len(batches) == len(given) == 2
    assert all(ours is theirs for ours, theirs in zip(batches, given, strict=True))


def test_a_loader_begun_anew_is_a_restart(watch: Watch) -> None:
    model = Net()
    optimizer = sgd(model)
    for _ in range(2):
        for inputs, _labels in DataLoader(Records("pair"), batch_size=8):
            model(inputs).mean().backward()
            optimizer.step()
    assert [step.restarts for step in watch.steps] == [1, 0, 1, 0]


def test_a_provider_answers_instead_of_the_dataset(watch: Watch) -> None:
    dataset = Records("pair")

    def provide(asked: Any, indices: Sequence[Any], collate: Any) -> list[Any] | None:
        assert asked is dataset
        return [(torch.zeros(4), 7)] * len(indices) if 0 in indices else None

    watch.training.fetch_providers["test"] = provide
    first, second = DataLoader(dataset, batch_size=8)
    assert first[1].tolist() == [7] * 8
    assert not first[0].any()
    assert second[0][:, 0].tolist() == list(range(8, 16))


def test_a_provider_is_not_asked_in_the_loaders_own_processes(watch: Watch) -> None:
    watch.training.fetch_providers["test"] = lambda *_: pytest.fail("asked in a worker process")
    (inputs, _), _ = DataLoader(Records("pair"), batch_size=8, num_workers=1)
    assert inputs[:, 0].tolist() == list(range(8))


def test_a_stream_is_never_provided(watch: Watch) -> None:
    class Stream(torch.utils.data.IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            return iter(range(4))

    watch.training.fetch_providers["test"] = lambda *_: pytest.fail("a stream has no indices")
    assert [batch.tolist() for batch in DataLoader(Stream(), batch_size=2)] == [[0, 1], [2, 3]]


# ---- notices that fail
@pytest.mark.attack("truth")
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("notices", ["before_samples", "on_batch"])
def test_a_notice_that_fails_gives_up_watching_and_not_the_script(workers: int, notices: str) -> None:
    told: list[BaseException] = []
    seams = Seams(told.append)
    watch = Watch(seams)

    def fail(*_: object) -> None:
        raise RuntimeError("a notice failed")

    getattr(watch.hooks, notices).append(fail)
    rows = TensorDataset(torch.arange(8.0))
    try:
        batches = [batch.tolist() for (batch,) in DataLoader(rows, batch_size=4, num_workers=workers)]
    finally:
        seams.undo_all()
    assert batches == [[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]]
    assert [str(error) for error in told] == ["a notice failed"]
    assert seams.given_up
