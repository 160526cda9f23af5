"""The compiled call: the same training, counted work, and a model that knows nothing of it."""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from hasten.inside.techniques.compile import Compile
from hasten.inside.training import NotApplicable
from hasten.machine.facts import cxx
from hasten.records.plan import BASELINE, Plan, Value
from hasten.records.trial import Proof
from hasten.testing.workbench import Workbench, workbench

from ..bench.made_up import step as observed_step
from .made_up import facts, machine, root

of_torch_itself = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
needs_compiler = pytest.mark.skipif(not cxx(os.environ), reason="there is no C++ compiler here")


@pytest.fixture
def bench() -> Iterator[Workbench]:
    with workbench() as made:
        yield made


def plan(**settings: Value) -> Plan:
    """Without kernels of its own: those take a C++ compiler half a minute."""
    return Plan({"compile": {"backend": "aot_eager", **settings}})


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = inputs + self.inner(inputs)
        return output


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.ModuleList([Block() for _ in range(3)])

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for row in self.rows:
            inputs = row(inputs)
        return inputs


class Broken(nn.Module):
    """Torch cannot compile it in one piece."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = self.layer(inputs)
        torch._dynamo.graph_break()
        return torch.relu(hidden)


def step(model: nn.Module, rows: int = 2) -> torch.Tensor:
    output: torch.Tensor = model(torch.ones(rows, 4))
    torch.autograd.backward(output.sum())
    return output.detach()


def under(bench: Workbench, model: nn.Module, on: Plan) -> torch.optim.Optimizer:
    """Let the model be found as a root, then switch on."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step(model)
    bench.switchboard.switch(on)
    return optimizer


def proof_of(bench: Workbench) -> Proof:
    (proof,) = bench.switchboard.proofs()
    return proof


# ---- the real compiler
@needs_compiler
def test_losses_stay_under_the_real_compiler() -> None:
    with workbench() as bench:
        bench.train(2)
        start = bench.snapshot()
        plain = bench.train(6)
        bench.restore(start)
        bench.switchboard.switch(Plan({"compile": {"mode": "default"}}))
        assert bench.train(6) == pytest.approx(plain, rel=1e-5)
        proof = proof_of(bench)
        assert proof.effective
        assert proof.evidence == "6 compiled calls of 1 graphs with 0 graph breaks"
        assert bench.switchboard.seconds_in_steps() > 0


@needs_compiler
def test_dropout_draws_what_it_draws_without(bench: Workbench) -> None:
    model = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5), nn.Linear(64, 4))
    under(bench, model, BASELINE)
    outputs, streams = [], []
    for on in (BASELINE, Plan({"compile": {}})):
        bench.switchboard.switch(on)
        torch.manual_seed(5)
        outputs.append([step(model) for _ in range(3)])
        streams.append(torch.get_rng_state())
    assert proof_of(bench).effective
    assert torch.equal(*streams)
    for plain, compiled in zip(*outputs, strict=True):
        assert torch.allclose(plain, compiled, atol=1e-6)


class Pictures(nn.Module):
    """With what a layout of its maps could change: dropout on them, and a view."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.dropout = nn.Conv2d(3, 8, 3, padding=1), nn.Dropout(0.3)
        self.linear = nn.Linear(8 * 4 * 4, 4)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        maps = self.dropout(torch.relu(self.convolution(inputs)))
        output: torch.Tensor = self.linear(maps.view(maps.size(0), -1))
        return output


@pytest.mark.parametrize(
    "how", [{"backend": "aot_eager"}, pytest.param({"mode": "default"}, marks=needs_compiler)]
)
def test_a_network_that_lies_channels_last_is_compiled_and_draws_the_same(
    bench: Workbench, how: dict[str, Value]
) -> None:
    model, pictures = Pictures(), torch.randn(2, 3, 4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.autograd.backward(model(pictures).sum())
    optimizer.step()
    outputs, streams = [], []
    for on in (BASELINE, Plan({"channels_last": {}, "compile": how})):
        bench.switchboard.switch(on)
        torch.manual_seed(5)
        for _ in range(3):
            torch.autograd.backward(model(pictures).sum())
        outputs.append(model(pictures).detach())
        streams.append(torch.get_rng_state())
    assert all(proof.effective for proof in bench.switchboard.proofs()), bench.switchboard.proofs()
    assert torch.equal(*streams)
    plain, compiled = outputs
    assert torch.allclose(plain, compiled, atol=1e-6)


# ---- what is compiled, and what is not
def test_evaluation_is_not_compiled(bench: Workbench) -> None:
    model = Stack()
    under(bench, model, plan())
    with torch.no_grad():
        model(torch.ones(2, 4))
    assert proof_of(bench).evidence.startswith("0 compiled calls of 0 graphs")
    assert not proof_of(bench).effective


def test_a_rare_shape_is_left_to_the_model(bench: Workbench) -> None:
    model = Stack()
    under(bench, model, plan())
    for rows in (2, 2, 2, 2, 1, 2, 2, 2, 2, 1):
        step(model, rows)
    evidence = proof_of(bench).evidence
    assert evidence.startswith("8 compiled calls of 1 graphs")
    assert "2 calls with rare shapes or hooks not compiled" in evidence


def test_a_second_shape_that_comes_often_is_compiled(bench: Workbench) -> None:
    model = Stack()
    under(bench, model, plan())
    for rows in (2, 3) * 6:
        step(model, rows)
    proof = proof_of(bench)
    assert proof.evidence.startswith("10 compiled calls of 2 graphs")
    assert proof.remark == ""


def test_dynamic_shapes_are_served_by_one_graph(bench: Workbench) -> None:
    model = Stack()
    under(bench, model, plan(shapes="dynamic"))
    for rows in (2, 3, 4, 5):
        step(model, rows)
    assert proof_of(bench).evidence.startswith("4 compiled calls of 1 graphs")


@pytest.mark.parametrize(
    "settings",
    [{}, {"shapes": "dynamic"}, pytest.param({"regions": "blocks"}, marks=of_torch_itself)],
    ids=["static", "dynamic", "blocks"],
)
def test_hooks_that_come_and_go_are_called(bench: Workbench, settings: dict[str, Value]) -> None:
    """As those of scripts that look at a layer now and then. Torch does not look at hooks again."""
    model, seen = Stack(), 0
    under(bench, model, plan(**settings))

    def note(*_: object) -> None:
        nonlocal seen
        seen += 1

    for turn in range(1, 4):
        for _ in range(4):
            step(model)
        handle = model.get_submodule("rows.1.inner").register_forward_hook(note)
        step(model)
        handle.remove()
        step(model)
        assert seen == turn
    assert proof_of(bench).effective


def test_hooks_that_stay_are_compiled(bench: Workbench) -> None:
    model, seen = Stack(), []
    under(bench, model, plan())
    first = model.get_submodule("rows.0").register_forward_hook(lambda *_: seen.append("first"))
    step(model)
    first.remove()
    for _ in range(6):
        step(model)
    assert seen == ["first"]
    assert proof_of(bench).evidence.startswith("5 compiled calls of 2 graphs")
    model.get_submodule("rows.0").register_forward_pre_hook(lambda *_: seen.append("second"))
    for _ in range(6):
        step(model)
    assert seen == ["first"] + ["second"] * 6


def test_what_is_compiled_anew_is_told(bench: Workbench) -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.factor = 1.0

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            output: torch.Tensor = self.layer(inputs) * self.factor
            return output

    model = Counting()
    under(bench, model, plan())
    step(model)
    model.factor = 2.0
    step(model)
    assert proof_of(bench).remark == "1 graph compiled anew while it trained"


@of_torch_itself
def test_graph_breaks_are_counted(bench: Workbench) -> None:
    model = Broken()
    under(bench, model, plan())
    step(model)
    proof = proof_of(bench)
    assert proof.effective
    assert proof.evidence.startswith("1 compiled calls of 2 graphs with ")
    assert re.fullmatch(r"\d graph breaks?", proof.remark)  # some torch count it once for each caller


def test_what_torch_passes_over_in_silence_has_no_effect(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Stack()
    disable: Any = torch._dynamo.disable
    monkeypatch.setattr(Stack, "forward", disable(Stack.forward))
    under(bench, model, plan())
    step(model)
    assert not proof_of(bench).effective


def test_a_model_that_cannot_be_compiled_trains_on_as_it_was(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any, **__: Any) -> Any:
        def call(*_: Any) -> Any:
            raise torch._dynamo.exc.InternalTorchDynamoError("this cannot be")

        return call

    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    monkeypatch.setattr(torch, "compile", failing)
    under(bench, model, plan())
    before = model(torch.ones(2, 4))
    assert torch.equal(step(model), before)
    proof = proof_of(bench)
    assert not proof.effective
    assert proof.evidence.endswith("torch cannot compile it: InternalTorchDynamoError: this cannot be")


def test_a_penalty_on_gradients_may_begin_later(bench: Workbench) -> None:
    """No compiled code can be differentiated twice."""
    model = Stack()
    under(bench, model, plan())
    for turn in range(12):
        loss = model(torch.ones(2, 4)).sum()
        if turn >= 4:
            inputs = torch.ones(2, 4, requires_grad=True)
            (slope,) = torch.autograd.grad(model(inputs).sum(), inputs, create_graph=True)
            loss = loss + slope.square().sum()
        loss.backward()
    proof = proof_of(bench)
    assert proof.evidence.startswith("5 compiled calls")
    assert not proof.effective
    assert "differentiates gradients" in proof.evidence


# ---- in combination with others
def test_it_stands_beneath_what_was_switched_on_before(bench: Workbench) -> None:
    model = Stack()
    under(bench, model, Plan({"bf16": {}, **plan().techniques}))
    step(model)
    assert list(bench.training.forward_wrappers) == ["compile", "bf16"]
    assert [proof.effective for proof in bench.switchboard.proofs()] == [True, True]


def test_what_was_compiled_is_there_the_next_time(bench: Workbench) -> None:
    model = Stack()
    under(bench, model, plan())
    step(model)
    paid = bench.switchboard.seconds_in_steps()
    bench.switchboard.switch(BASELINE)
    bench.switchboard.switch(plan())
    step(model)
    assert proof_of(bench).evidence.startswith("1 compiled calls of 1 graphs")
    assert bench.switchboard.seconds_in_steps() == paid > 0


def test_a_finished_model_is_not_kept_alive() -> None:
    import gc
    import weakref

    with workbench() as bench:
        model = Stack()
        optimizer = under(bench, model, plan())
        step(model)
        bench.switchboard.switch(BASELINE)
        ref = weakref.ref(model)
        del model, optimizer
        gc.collect()
        assert ref() is None


# ---- block by block
@of_torch_itself
def test_blocks_share_what_is_compiled(bench: Workbench) -> None:
    model = Stack()
    keys = list(model.state_dict())
    under(bench, model, plan(regions="blocks"))
    for _ in range(3):
        step(model)
    proof = proof_of(bench)
    assert proof.effective
    # the first block's input needs no gradient, that of all others does
    assert proof.evidence.startswith("7 compiled calls of 2 graphs with 0 graph breaks; 2 calls")
    assert proof.remark == ""
    assert list(model.state_dict()) == keys
    twin = copy.deepcopy(model)
    assert all(row._compiled_call_impl is None for row in twin.rows)
    bench.switchboard.switch(BASELINE)
    assert all(row._compiled_call_impl is None for row in model.rows)


def test_a_model_without_blocks_has_none_to_compile(bench: Workbench) -> None:
    environment = dict(os.environ)
    model = nn.Linear(4, 4)
    with pytest.raises(NotApplicable, match="children of one class"):
        under(bench, model, plan(regions="blocks"))
    assert dict(os.environ) == environment


@of_torch_itself
def test_a_model_that_its_script_compiles_is_left_alone(bench: Workbench) -> None:
    model = Stack()
    model.compile(backend="eager")
    with pytest.raises(NotApplicable, match="already compiles"):
        under(bench, model, plan())


# ---- where compiled code is kept
@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    return tmp_path


def test_compiled_code_is_kept_for_later_processes(bench: Workbench, home: Path) -> None:
    bench.train(1)
    bench.switchboard.switch(plan())
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(home / "hasten" / "inductor")
    assert (home / "hasten" / "inductor").stat().st_mode & 0o777 == 0o700
    bench.switchboard.switch(BASELINE)
    assert "TORCHINDUCTOR_CACHE_DIR" not in os.environ


def test_the_folder_that_torch_names_itself_is_no_wish_of_the_users(
    bench: Workbench, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It puts its default into the environment as soon as it is asked, which any optimizer makes it be."""
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", default_cache_dir())
    bench.train(1)
    bench.switchboard.switch(plan())
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(home / "hasten" / "inductor")
    bench.switchboard.switch(BASELINE)
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == default_cache_dir()


def test_the_users_own_folder_stands(bench: Workbench, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/elsewhere")
    bench.train(1)
    bench.switchboard.switch(plan())
    bench.switchboard.switch(BASELINE)
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == "/elsewhere"
    assert not list(home.iterdir())


# ---- on paper
def test_it_applies_where_there_is_a_compiler() -> None:
    assert Compile.refuse(facts()) == []


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        pytest.param(facts(machine(cxx="")), "no C++ compiler", id="no compiler"),
        pytest.param(facts(uses=("compile",)), "already compiles", id="the script's own"),
        pytest.param(facts(uses=("create_graph=True",)), "differentiates gradients", id="double backward"),
        pytest.param(facts(roots=(root(compiled=True),)), "already compiles", id="compiled root"),
        pytest.param(facts(roots=(root(scripted=True),)), "TorchScript", id="scripted"),
    ],
)
def test_what_it_refuses(found: Any, reason: str) -> None:
    (said,) = Compile.refuse(found)
    assert reason in said


def test_a_gpu_needs_no_cpp_compiler_of_ours() -> None:
    assert Compile.refuse(facts(machine(cxx=""), roots=(root(devices=("cuda:0",)),))) == []


def test_options_follow_the_device_the_model_and_what_is_installed() -> None:
    assert Compile.options(facts()) == [{"mode": "default"}]
    on_gpu = Compile.options(facts(roots=(root(devices=("cuda:0",), blocks=12),)))
    assert [option.get("mode") for option in on_gpu[:2]] == ["default", "reduce-overhead"]
    assert {"mode": "default", "regions": "blocks"} in on_gpu
    small = facts(
        roots=(root(devices=("cuda:0",)),),
        operators=400,
        steps=(observed_step(shares={"forward": 1.0}),) * 30,
    )
    assert Compile.options(small)[0] == {"mode": "reduce-overhead"}
    assert len(Compile.options(small)) == 3
    assert Compile.options(facts(backends=("made_up", "tvm")))[1:] == [{"backend": "made_up"}]


def test_every_option_passes_its_own_check() -> None:
    for found in (facts(), facts(backends=("made_up",), roots=(root(devices=("cuda:0",), blocks=4),))):
        for option in Compile.options(found):
            Compile.check(option)


@pytest.mark.parametrize(
    "settings",
    [
        {"mode": "fastest"},
        {"speed": 2},
        {"shapes": "any"},
        {"backend": "os.system('true')"},
        {"backend": 1},
        {"backend": "aot_eager", "mode": "default"},
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Value]) -> None:
    with pytest.raises(ValueError, match="compile"):
        Compile.check(settings)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"mode": "default"}, "model.compile(mode='default', dynamic=False)"),
        ({"regions": "blocks", "shapes": "dynamic"}, "block.compile(dynamic=True)"),
    ],
)
def test_the_same_change_by_hand(settings: dict[str, Value], line: str) -> None:
    assert line in Compile.by_hand(settings)
