"""All the random state that there is, also on devices that this machine has not."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset

from hasten.inside.distributed.rng_states import RngStates
from hasten.inside.guarding.perturber import Perturber
from hasten.inside.guarding.recorder import Recorder
from hasten.inside.guarding.training_state import take_up, taken_down
from hasten.inside.observing.hooks import Hooks
from hasten.inside.observing.observer import Observer
from hasten.inside.random_state import (
    fingerprint,
    restorer,
    rng_states,
    seed_generators,
    set_rng_states,
    state_of_generator,
)
from hasten.inside.samples import sampling_proof
from hasten.inside.seams import Seams
from hasten.inside.training import Training
from hasten.testing.workbench import workbench

from .fake_devices import KINDS, pretend

ON_CPU: dict[str, Callable[[], float]] = {
    "torch": lambda: float(torch.rand(1)),
    "numpy": lambda: float(np.random.rand()),
    "numpy's normal": lambda: float(np.random.randn()),
    "random": random.random,
    "random's normal": lambda: random.gauss(0.0, 1.0),
}
EVERYWHERE = (*ON_CPU, *KINDS)


@pytest.fixture
def draw(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[], float]:
    """What draws a number from the stream that the test is about."""
    if request.param in ON_CPU:
        return ON_CPU[request.param]
    drawing: Callable[[], float] = pretend(monkeypatch, request.param).draw
    return drawing


everywhere = pytest.mark.parametrize("draw", EVERYWHERE, indirect=True)


@pytest.mark.attack("truth")
@everywhere
def test_a_number_that_is_drawn_is_seen(draw: Callable[[], float]) -> None:
    before = fingerprint(torch)
    assert fingerprint(torch) == before
    draw()
    assert fingerprint(torch) != before


@pytest.mark.attack("truth")
@everywhere
def test_streams_are_put_back(draw: Callable[[], float]) -> None:
    state, before = rng_states(torch), fingerprint(torch)
    drawn = [draw() for _ in range(3)]
    set_rng_states(torch, state)
    assert fingerprint(torch) == before
    assert [draw() for _ in range(3)] == drawn


@pytest.mark.attack("truth")
@everywhere
@pytest.mark.parametrize("seed", [0, 2**63 - 1, 2**64 + 5])
def test_all_streams_begin_anew(draw: Callable[[], float], seed: int) -> None:
    seed_generators(torch, seed)
    first = draw()
    draw()
    seed_generators(torch, seed)
    assert draw() == first


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("state", ["unused", "forked"])
def test_devices_that_are_not_to_be_asked_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, kind: str, state: str
) -> None:
    """Asking would take some hundred MB of a GPU, or fail in a process that was forked."""
    fake = pretend(monkeypatch, kind)
    taken = rng_states(torch)
    assert kind in taken["devices"]
    fake.initialized, fake.forked = state != "unused", state == "forked"
    assert kind not in rng_states(torch)["devices"]
    set_rng_states(torch, taken)
    fingerprint(torch)


def test_a_device_whose_state_cannot_be_kept_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch 2.9's mtia has functions for it that do nothing but warn."""

    def warn(*_: object) -> torch.Tensor:
        raise UserWarning("not implemented in torch.mtia")

    asked = {"get_rng_state": warn, "set_rng_state": warn}
    monkeypatch.setattr(torch, "mtia", SimpleNamespace(is_initialized=lambda: True, **asked))
    assert "mtia" not in rng_states(torch)["devices"]


# ---- whoever goes by it
def one_step(loss_of: Callable[[Any], Any] = lambda out: out.sum()) -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_of(model(torch.ones(2, 4))).backward()
    optimizer.step()


@pytest.mark.attack("truth")
@everywhere
def test_the_recorder_tells_of_it(draw: Callable[[], float]) -> None:
    streams = []
    for extra in (False, False, True):
        seed_generators(torch, 3)
        seams = Seams()
        training = Training(torch, seams, available_bytes=2**32)
        recorder = Recorder(training)
        Hooks(training, Observer(recorder.step_ended), lambda: None).install()
        try:
            one_step()
            if extra:
                draw()
            one_step()
        finally:
            seams.undo_all()
        streams.append([step.streams for step in recorder.trace()])
    assert streams[0] == streams[1]
    assert streams[0][0] == streams[2][0]
    assert streams[0][1] != streams[2][1]


@pytest.mark.attack("truth")
@everywhere
def test_a_dataset_that_draws_is_not_proven_the_same(draw: Callable[[], float]) -> None:
    class Drawing(Dataset[Any]):
        def __getitem__(self, index: int) -> int:
            draw()
            return index

    reason, _ = sampling_proof.prove_deterministic(torch, Drawing(), 8)
    assert reason == "drawing a sample of Drawing draws random numbers"


@pytest.mark.attack("truth")
@everywhere
def test_a_training_is_taken_up_with_it(draw: Callable[[], float]) -> None:
    with workbench() as bench:
        bench.train(1)
        state = taken_down(bench.training)
        expected = draw()
        take_up(bench.training, state)
        assert draw() == expected


@pytest.mark.attack("truth")
@everywhere
@pytest.mark.parametrize("seed", [0, 2**32 - 1, 2**63 - 1])
def test_a_baseline_that_draws_anew_does_so_everywhere(draw: Callable[[], float], seed: int) -> None:
    """Seeds at whose end a sum would begin again where the baseline does."""
    drawn = []
    for redraw in (False, True):
        seed_generators(torch, 3)
        seams = Seams()
        training = Training(torch, seams, available_bytes=2**32)
        perturber = Perturber(training, 0.0, redraw, seed=seed)
        perturber.draw_anew()
        seams.undo_all()
        drawn.append(draw())
    assert drawn[0] != drawn[1]


@pytest.mark.attack("truth")
@everywhere
def test_a_rank_makes_samples_by_its_own_and_keeps_what_all_share(draw: Callable[[], float]) -> None:
    seed_generators(torch, 3)
    shared = [draw() for _ in range(3)]
    seed_generators(torch, 3)
    streams = RngStates(torch, rank=1)
    assert draw() == shared[0]
    with streams.own():
        assert draw() not in shared
    with streams.shared():
        assert draw() == shared[1]
    with streams.own():
        assert draw() not in shared
    with streams.shared():
        assert draw() == shared[2]


@pytest.mark.parametrize("kind", KINDS)
def test_a_script_that_seeds_every_epoch_seeds_its_devices(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """What all ranks share begins there, on devices as well; each rank's own apart from the others."""
    fake = pretend(monkeypatch, kind)
    torch.manual_seed(100)
    expected = fake.draw()
    streams, seams = RngStates(torch, rank=1), Seams()
    streams.watch_seeding(seams)
    try:
        streams.begin()
        torch.manual_seed(100)
        own = fake.draw()
        with streams.shared():
            assert fake.draw() == expected
        assert own != expected
    finally:
        seams.undo_all()


@pytest.mark.parametrize(
    ("generator", "draw_from"),
    [
        (random.Random(1), lambda own: own.random()),
        (np.random.default_rng(1), lambda own: own.normal()),
        (np.random.RandomState(1), lambda own: own.normal()),
        (torch.Generator(), lambda own: torch.rand(1, generator=own)),
    ],
    ids=["random", "numpy", "numpy's old", "torch"],
)
def test_a_generator_of_the_scripts_is_put_back(generator: Any, draw_from: Callable[[Any], object]) -> None:
    before, put_back = state_of_generator(generator), restorer(generator)
    draw_from(generator)
    assert state_of_generator(generator) != before
    put_back()
    assert state_of_generator(generator) == before
