"""Batches on their way to a GPU, with stand-ins for what only CUDA can do: what is asked of torch, when."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from hasten.inside.techniques.device_prefetch import DevicePrefetch
from hasten.inside.techniques.loader_workers import LoaderWorkers
from hasten.inside.techniques.pin_memory import PinMemory
from hasten.records.plan import Plan

from .made_up import facts, loader, machine, root
from .reading import Reading

GPU = machine(accelerators=("made up",))
ON_GPU = (root(devices=("cuda:0",)),)
PIN, AHEAD = Plan({"pin_memory": {}}), Plan({"device_prefetch": {}})
pytestmark = pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true:UserWarning")


class Cuda:
    """Takes the place of torch's CUDA; ``log`` tells what was asked of it, in order."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.log: list[str] = []
        self.pinned: set[int] = set()
        self._stream = "script"
        cuda = {
            "is_available": lambda: True,
            "current_device": lambda: 0,
            "Stream": lambda: "side",
            "stream": self._within,
            "Event": lambda: SimpleNamespace(record=lambda stream: self.log.append(f"event on {stream}")),
            "current_stream": lambda: SimpleNamespace(
                wait_event=lambda event: self.log.append(f"{self._stream} waits"), name=self._stream
            ),
        }
        for name, stand_in in cuda.items():
            patch.setattr(torch.cuda, name, stand_in)
        patch.setattr(torch.Tensor, "to", lambda *args, **kwargs: self._to(*args, **kwargs))
        patch.setattr(torch.Tensor, "cuda", lambda *args, **kwargs: self._to(args[0], "cuda", **kwargs))
        patch.setattr(torch.Tensor, "is_pinned", lambda tensor: id(tensor) in self.pinned)
        patch.setattr(torch.Tensor, "pin_memory", lambda tensor: self._pin(tensor))
        patch.setattr(torch.accelerator, "is_available", lambda: False)  # else loaders pin by the driver

    @contextmanager
    def _within(self, stream: str) -> Iterator[None]:
        before, self._stream = self._stream, stream
        yield
        self._stream = before

    def _pin(self, tensor: torch.Tensor) -> torch.Tensor:
        self.pinned.add(id(tensor))
        self.log.append("pin")
        return tensor

    def _to(self, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        waiting = "without waiting" if kwargs.get("non_blocking") else "waiting"
        self.log.append(f"copy on {self._stream} {waiting}")
        index = getattr(args[0] if args else kwargs.get("device"), "index", None) or 0
        return SimpleNamespace(
            of=tensor,
            device=SimpleNamespace(index=index),
            record_stream=lambda stream: self.log.append(f"recorded for {stream.name}"),
        )


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    return Cuda(monkeypatch)


@pytest.fixture
def begun(cuda: Cuda, reading: Reading) -> Reading:
    """A reading that stands on the stand-ins."""
    return reading


def start(reading: Reading, plan: Plan) -> None:
    reading.board.start(plan)
    reading.board.switch(plan)


def data() -> TensorDataset:
    return TensorDataset(torch.arange(12.0).view(6, 2))


# ---- pin_memory
def test_a_training_loader_pins_and_an_evaluations_does_not(begun: Reading) -> None:
    asked: list[bool] = []
    original = torch.utils.data.dataloader._BaseDataLoaderIter.__init__

    def noting(iterator: Any, made: Any) -> None:
        asked.append(made.pin_memory)
        original(iterator, made)

    begun.training.seams.replace(
        torch.utils.data.dataloader._BaseDataLoaderIter, "__init__", lambda _: noting
    )
    start(begun, PIN)
    made = DataLoader(data(), batch_size=2)
    list(made)
    with torch.no_grad():
        list(made)
    assert asked == [True, False]
    assert made.pin_memory is False


def test_copies_of_pinned_tensors_are_not_waited_for(begun: Reading, cuda: Cuda) -> None:
    start(begun, PIN)
    for (inputs,) in DataLoader(data(), batch_size=3):
        inputs.to("cuda")
        inputs.pin_memory()
        inputs.to("cuda"), inputs.to(torch.device("cuda", 0)), inputs.to(device="cuda"), inputs.cuda()
        inputs.to("cuda", torch.float64)
        inputs.to("cpu")
    each = [
        "copy on script waiting",
        "pin",
        *4 * ["copy on script without waiting"],
        *2 * ["copy on script waiting"],
    ]
    assert cuda.log == 2 * each
    assert begun.proof().evidence == "2 batches were pinned; 8 copies to the GPU were not waited for"
    assert begun.proof().effective


def test_pinned_batches_that_are_never_sent_are_no_effect(begun: Reading) -> None:
    start(begun, PIN)
    list(DataLoader(data()))
    assert not begun.proof().effective


def test_methods_are_torchs_own_again(begun: Reading) -> None:
    before = torch.Tensor.to, torch.Tensor.cuda
    start(begun, Plan({"pin_memory": {}, "device_prefetch": {}}))
    assert (torch.Tensor.to, torch.Tensor.cuda) != before
    begun.training.seams.undo_all()
    assert (torch.Tensor.to, torch.Tensor.cuda) == before


def test_pinning_goes_with_other_workers(begun: Reading) -> None:
    def drawn() -> list[Any]:
        torch.manual_seed(2)
        made = DataLoader(data(), batch_size=2, shuffle=True)
        return [[batch[0].tolist() for _ in range(3) for batch in made], torch.get_rng_state().tolist()]

    plain = drawn()
    start(begun, Plan({"loader_workers": {"count": 1}, "pin_memory": {}}))
    assert drawn() == plain
    assert begun.proof("loader_workers").evidence.startswith("9 batches")
    assert begun.proof("pin_memory").evidence.startswith("9 batches were pinned")


# ---- device_prefetch
def test_the_next_batch_is_copied_while_this_one_is_trained_on(begun: Reading, cuda: Cuda) -> None:
    start(begun, AHEAD)
    used = []
    for (inputs,) in DataLoader(data(), batch_size=2):
        cuda.log.append("step")
        used.append(inputs.to("cuda"))
        assert getattr(used[-1], "of", None) is inputs
    making = ["pin", "copy on side without waiting", "event on side"]
    taking = ["step", "script waits", "recorded for script"]
    first = ["step", "copy on script waiting"]  # no step ran during which it could be copied
    assert cuda.log == [*making, *first, *making, *taking, *taking]
    assert begun.proof().evidence == "2 tensors were copied ahead, 2 of them were used"


@pytest.mark.parametrize("workers", [0, 1])
def test_batches_and_draws_are_as_without_it(begun: Reading, workers: int) -> None:
    def drawn() -> list[Any]:
        torch.manual_seed(2)
        made = DataLoader(data(), batch_size=2, shuffle=True, num_workers=workers)
        found: list[Any] = []
        for leave_after in (3, 1, 3):
            for number, (inputs,) in enumerate(made, 1):
                found += [inputs.tolist(), torch.rand(1).item()]
                if number == leave_after:
                    break
        return [*found, torch.get_rng_state().tolist()]

    plain = drawn()
    start(begun, AHEAD)
    assert drawn() == plain


def test_kept_workers_begin_a_new_pass(begun: Reading) -> None:
    start(begun, AHEAD)
    made = DataLoader(data(), batch_size=2, num_workers=1, persistent_workers=True)
    for _ in range(2):
        assert torch.equal(next(iter(made))[0], torch.arange(4.0).view(2, 2))
    assert torch.equal(torch.cat([batch for (batch,) in made]), data().tensors[0])


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda inputs: inputs.add_(1), id="written into"),
        pytest.param(lambda inputs: inputs.requires_grad_(), id="with a gradient"),
        pytest.param(lambda inputs: inputs.to("cuda"), id="sent already"),
    ],
)
def test_a_copy_that_is_no_longer_right_is_not_used(begun: Reading, cuda: Cuda, change: Any) -> None:
    start(begun, AHEAD)
    for number, (inputs,) in enumerate(DataLoader(data(), batch_size=2)):
        change(inputs)
        cuda.log.clear()
        inputs.to("cuda")
        assert cuda.log == ["copy on script waiting"], number


@pytest.mark.parametrize("how", [("cuda", torch.float64), ("cuda:1",), ("cpu",), (torch.float64,)])
def test_what_is_asked_for_otherwise_is_torchs_business(begun: Reading, cuda: Cuda, how: Any) -> None:
    start(begun, AHEAD)
    for (inputs,) in DataLoader(data(), batch_size=2):
        cuda.log.clear()
        inputs.to(*how)
        assert cuda.log == ["copy on script waiting"]
    assert not begun.proof().effective


def test_an_error_comes_with_the_batch_that_it_belongs_to(begun: Reading) -> None:
    class Broken(TensorDataset):
        def __getitem__(self, index: int) -> Any:
            return {0: 1.0, 1: 2.0}[index]

    start(begun, AHEAD)
    batches = iter(DataLoader(Broken(torch.zeros(4))))
    assert [next(batches).item(), next(batches).item()] == [1.0, 2.0]
    with pytest.raises(KeyError):
        next(batches)


def test_an_evaluation_is_read_as_usual(begun: Reading, cuda: Cuda) -> None:
    start(begun, AHEAD)
    with torch.no_grad():
        assert len(list(DataLoader(data(), batch_size=2))) == 3
    assert cuda.log == []


# ---- refusals
@pytest.mark.parametrize("technique", [PinMemory, DevicePrefetch])
def test_a_training_on_the_cpu_is_no_case_for_it(technique: Any) -> None:
    assert technique.refuse(facts()) == ["the training is on cpu: batches are copied to no CUDA device"]
    assert technique.refuse_machine(machine()) == ["there is no GPU to copy batches to"]
    assert technique.refuse(facts(GPU, roots=ON_GPU)) == []
    assert technique.refuse(facts(GPU, roots=ON_GPU, loaders=())) == ["the training reads from no DataLoader"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
@pytest.mark.parametrize("plan", [PIN, AHEAD])
def test_without_a_device_it_is_not_started(reading: Reading, plan: Plan) -> None:
    from hasten.inside.training import NotApplicable

    reading.board.start(plan)
    with pytest.raises(NotApplicable, match="no CUDA device"):
        reading.board.switch(plan)


def test_a_script_that_pins_already_needs_no_pinning() -> None:
    found = PinMemory.refuse(facts(GPU, roots=ON_GPU, loaders=(loader(pin_memory=True),)))
    assert found == ["the script pins its batches already"]


@pytest.mark.parametrize(
    ("random", "workers", "risk"), [("", 0, "exact"), ("differs", 0, "draws"), ("differs", 2, "exact")]
)
def test_samples_drawn_ahead_in_the_training_process_are_other_draws(
    random: str, workers: int, risk: str
) -> None:
    there = facts(GPU, roots=ON_GPU, loaders=(loader(random=random, workers=workers),))
    assert DevicePrefetch.risk_for(there) == risk
    assert LoaderWorkers.refuse(there) == []
