"""What the loops around a step say of a run's length, and when they say nothing."""

from __future__ import annotations

import argparse
import math
import sys
import textwrap
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from hasten.inside.observing.loops import CUT, LOADER, OTHER, Around, Limited, Loop
from hasten.inside.observing.planned_loops import (
    Reading,
    loops_around,
    planned_steps,
    steps_at_this_rate,
)

LOADER_OF_SIX = DataLoader(TensorDataset(torch.zeros(12, 1)), batch_size=2)
PAIRS = DataLoader(TensorDataset(torch.zeros(12, 1), torch.zeros(12)), batch_size=2)


def seen(tmp_path: Path, source: str, **names: Any) -> list[Around]:
    """The loops around each ``step()`` of a script."""
    path, found = tmp_path / f"train_{len(list(tmp_path.iterdir()))}.py", list[Around]()
    path.write_text(textwrap.dedent(source))

    def step() -> None:
        caller: FrameType | None = sys._getframe(1)
        found.append(loops_around(caller, lambda frame: frame.f_code.co_filename != str(path), DataLoader))

    space = {"__name__": "__main__", "step": step, "loader": LOADER_OF_SIX, "DataLoader": DataLoader, **names}
    exec(compile(path.read_text(), str(path), "exec"), space)
    return found


def test_epochs_around_a_loader_in_other_functions(tmp_path: Path) -> None:
    """As most tutorials have it."""
    found = seen(
        tmp_path,
        """
        def train(args, model, train_loader):
            for batch_idx, (data,) in enumerate(train_loader):
                step()

        def main():
            args = argparse.Namespace(epochs=3)
            for epoch in range(1, args.epochs + 1):
                train(args, None, loader)

        main()
        """,
        argparse=argparse,
    )
    assert len(found) == 18
    assert found[0] == [Loop(3, 0), LOADER]
    assert found[-1] == [Loop(3, 2), LOADER]
    assert [planned_steps(one, taken, 6, (taken - 1) // 6) for taken, one in enumerate(found, 1)] == [18] * 18


@pytest.mark.parametrize(
    ("body", "read"),
    [
        ("data, target = data.to(device), target.to(device)", LOADER),
        ("data = data.float()", LOADER),
        ("i = i + 1", LOADER),
        ("loader = None", OTHER),
    ],
)
def test_a_pass_whose_turns_rename_their_batch(tmp_path: Path, body: str, read: str) -> None:
    """As nearly all tutorials do, to move it to a device: a run's length was not known until an epoch had
    ended.
    """
    found = seen(
        tmp_path,
        f"""
        def train(epoch, loader):
            for i, (data, target) in enumerate(loader):
                {body}
                step()

        for epoch in range(1, 2 + 1):
            train(epoch, loader)
        """,
        loader=PAIRS,
        device="cpu",
    )
    assert found[1] == [Loop(2, 0), read]
    assert planned_steps(found[1], 2, 6, 0) == (12 if read == LOADER else None)


class Progress:
    """A progress bar, as tqdm's is."""

    __module__ = "tqdm.std"

    def __init__(self, iterable: Any, **_: Any) -> None:
        self.iterable = iterable

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __iter__(self) -> Any:
        return iter(self.iterable)


@dataclass
class Config:
    epochs: int = 4


class OfClass:
    epochs = 4


def tqdm(iterable: Any, **_: Any) -> Any:
    return Progress(iterable)


@pytest.mark.parametrize(
    "header",
    [
        "for epoch in range(4):",
        "for epoch in range(0, 8, 2):",
        "for epoch in tqdm(range(4), desc='epochs'):",
        "for epoch in progress:",
        "for epoch, _ in enumerate(range(4)):",
        "for epoch in range(config.epochs):",
        "for epoch in range(OfClass.epochs):",
        "for epoch in range(made.epochs):",
        "for epoch in range(space.train.epochs):",
        "for epoch in range(words['train']['epochs']):",
        "for epoch in range(start, start + epochs):",
        "for epoch in range(steps // 6):",
    ],
)
def test_the_commonest_ways_to_say_how_many_epochs(tmp_path: Path, header: str) -> None:
    found = seen(
        tmp_path,
        f"""
        {header}
            for batch in tqdm(loader):
                step()
        """,
        tqdm=tqdm,
        progress=Progress(range(4)),
        config=Config(),
        OfClass=OfClass,
        made=OfClass(),
        space=SimpleNamespace(train=SimpleNamespace(epochs=4)),
        words={"train": {"epochs": 4}},
        start=3,
        epochs=4,
        steps=24,
    )
    assert [planned_steps(one, taken, 6, (taken - 1) // 6) for taken, one in enumerate(found, 1)] == [24] * 24


def test_a_trainers_loops(tmp_path: Path) -> None:
    found = seen(
        tmp_path,
        """
        class Trainer:
            def __init__(self):
                self.epochs, self.loader = 5, loader

            def fit(self):
                for self.epoch in range(self.epochs):
                    self._epoch()

            def _epoch(self):
                for self.batch in self.loader:
                    step()

        Trainer().fit()
        """,
    )
    assert found[7] == [Loop(5, 1), LOADER]
    assert planned_steps(found[7], 8, 6, 1) == 30


def test_the_loops_of_reinforcement_learning_multiply(tmp_path: Path) -> None:
    """Iterations, epochs of each, and minibatches of these."""
    found = seen(
        tmp_path,
        """
        for iteration in range(1, 11):
            for epoch in range(4):
                for start in range(0, 128, 32):
                    step()
        """,
    )
    assert planned_steps(found[0], 1, None, 0) is None, "one turn says too little"
    assert planned_steps(found[20], 21, None, 0) == 160


COUNTED = {
    "a test": """
        at = 0
        while at < steps:
            step()
            at += 1
        """,
    "a test the other way round": """
        at = 0
        while steps > at:
            at = at + 1
            step()
        """,
    "up to the limit": """
        at = 1
        while at <= steps:
            step()
            at += 1
        """,
    "by two": """
        at = 0
        while at < 2 * steps:
            step()
            at += 2
        """,
    "a break after the count": """
        class Trainer:
            def __init__(self):
                self.at, self.config = 0, Config(epochs=steps)

            def run(self):
                config = self.config
                while True:
                    step()
                    self.at += 1
                    if config.epochs is not None and self.at >= config.epochs:
                        break

        Trainer().run()
        """,
    "a break after the count, beyond the limit": """
        at, trying = 0, False
        while True:
            if at == 0 and trying:
                break
            step()
            at += 1
            if at > steps - 1:
                break
        """,
    "a break before the step": """
        at = 0
        while True:
            if at >= steps:
                break
            step()
            at += 1
        """,
    "a break between step and count": """
        at = 0
        while True:
            step()
            if at >= steps - 1:
                break
            at += 1
        """,
    "count, break, step": """
        at = 0
        while True:
            at += 1
            if at > steps:
                break
            step()
        """,
    "a return out of passes over the data": """
        def train():
            at = 0
            while True:
                for batch in loader:
                    step()
                    at += 1
                    if at >= steps:
                        return
        train()
        """,
    "a limit for passes over the data": """
        at = 0
        while at < steps:
            for batch in loader:
                step()
                at += 1
                if at >= steps:
                    break
        """,
    "gradients that are added up before a step": """
        at, only_evaluates = 0, False
        while True:
            if at == 0 and only_evaluates:
                break
            for part in range(2):
                loss.backward()
            step()
            at += 1
            if at > steps - 1:
                break
        """,
    "the first of two limits": """
        at, trying = 0, False
        while True:
            step()
            at += 1
            if trying and at >= 3:
                break
            if at >= 2 * steps:
                break
            if at >= steps or trying:
                break
        """,
    "what may limit it does not": """
        at, stop, most, trying = 0, None, -1, False
        while True:
            step()
            at += 1
            if stop and at >= stop:
                break
            if most > 0 and at >= most:
                break
            if not trying and at >= steps:
                break
        """,
    "below a progress bar": """
        class Trainer:
            at = 0

            def train(self):
                with Progress(range(3)) as bar:
                    while self.at < steps:
                        step()
                        self.at += 1
        Trainer().train()
        """,
    "episodes": """
        at = 0
        while at < steps // 5:
            for turn in range(5):
                step()
            at += 1
        """,
}


@pytest.mark.parametrize(
    ("header", "turns"),
    [
        ("number, at in enumerate(range(0, text.size(0) - 1, 5))", 10),
        ("at in range(0, text.shape[0] - 1, 5)", 10),
        ("at in range(0, len(text) - 1, 5)", 10),
        ("at in range(text.size()[0] // 5)", 10),
        ("at in range(len(names))", 10),
        ("at in range(min(len(names), 50))", 10),
        ("at in range(math.ceil(len(text) / 6))", 9),
        ("at in range(int(len(array) / 4))", 10),
    ],
)
def test_lengths_of_plain_objects_are_known(tmp_path: Path, header: str, turns: int) -> None:
    """As of texts that are cut into batches by hand."""
    given = {"text": torch.zeros(51, 2), "array": np.zeros(40), "names": tuple("abcdefghij"), "math": math}
    found = seen(tmp_path, f"for epoch in range(2):\n    for {header}:\n        step()", **given)
    assert found[12] == [Loop(2, 1), Loop(turns, 12 - turns)]


@pytest.mark.parametrize("source", COUNTED.values(), ids=COUNTED)
def test_turns_that_the_script_counts(tmp_path: Path, source: str) -> None:
    loss = SimpleNamespace(backward=lambda: None)
    found = seen(tmp_path, source, steps=20, loss=loss, Config=Config, Progress=Progress)
    assert len(found) == 20, "so many steps it takes"
    said = [planned_steps(one, taken, 6, (taken - 1) // 6) for taken, one in enumerate(found, 1)]
    assert set(said[9:]) == {20}
    assert set(said[:9]) <= {20, None}


def test_epochs_that_the_script_counts(tmp_path: Path) -> None:
    found = seen(
        tmp_path,
        """
        epoch = 0
        while epoch < 3:
            for batch in loader:
                step()
            epoch += 1
        """,
    )
    assert found[7] == [Loop(3, 1), LOADER]
    assert [planned_steps(one, taken, 6, (taken - 1) // 6) for taken, one in enumerate(found, 1)] == [18] * 18


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    "source",
    [
        # a patience, which a good epoch sets back
        "while at < 50:\n    at += 1\n    step()\n    if n % 3: at = 0\n    n += 1\n    if n == 20: break",
        "while at < 50:\n    step()\n    at += 1\n    n += 1\n    if n == 15: at = 0\n    if n == 20: break",
        # counted now and then
        "while at < 50:\n    step()\n    n += 1\n    if n % 2: at += 1\n    if n == 20: break",
        # by what comes
        "while at < 50:\n    step()\n    n += 1\n    at += len(loader)\n    if n == 20: break",
        # the limit moves
        "at = 9\nwhile n < at:\n    step()\n    n += 1\n    if n < 20: at = n + 9",
        # it goes on from a checkpoint
        "n = 0\nn = 7\nwhile n < 27:\n    step()\n    n += 1",
        # a reward
        "while reward < 40:\n    step()\n    reward += 2.5",
        # each pass counts anew
        "while at < 4:\n    n = 0\n    for batch in loader:\n        step()\n        n += 1\n"
        "        if n >= 50: break\n    at += 0.5",
        # to the end of the pass that comes to the limit
        "while n < 20:\n    for batch in loader:\n        step()\n        n += 1",
        # epochs and steps limit it
        "while n < 1000 and at < 3:\n    for batch in loader:\n        step()\n        n += 1\n    at += 1",
        # a condition that cannot be read
        "while True:\n    step()\n    n += 1\n    if n >= 9 and zeros(1) is None: break\n"
        "    if n == 20: break",
        # it counts on
        "for epoch in range(5):\n    while n < 9:\n        step()\n        n += 1",
        "def train():\n    global n\n    while n < 9:\n        step()\n        n += 1\n"
        "for epoch in range(5):\n    train()",
        # it tries again where that failed
        "while at < 3:\n    at += 1\n    try:\n        for n in range(12):\n            step()\n"
        "        break\n    except ValueError:\n        pass",
        "for at in range(3):\n    for n in range(12):\n        step()\n    break",
        "for fold in range(3):\n    for n in range(12):\n        step()\n    else:\n        break",
        "for epoch in range(5):\n    while n < 9:\n        step()\n        n += 1\n    n += 1",
        "n = -1\nfor epoch in range(5):\n    n += 1\n    while n < 9:\n        step()\n        n += 1",
        # games that end when they are over
        "for game in range(9):\n    done, n = False, 0\n    while not done and n < 200:\n        step()\n"
        "        n += 1\n        done = n % 7 == 6",
        "for game in range(9):\n    for n in range(200):\n        step()\n        done = n % 7 == 6\n"
        "        if done: break",
        "while True:\n    step()\n    n += 1\n    done = n % 3 == 0\n    if n >= 20 and done: break",
        # each stage is longer
        "for at in range(3):\n    turns = 12 * (at + 1)\n    for n in range(turns):\n        step()",
        "def train(turns):\n    for n in range(turns):\n        step()\n"
        "for at in range(3):\n    train(12 * (at + 1))",
        "def train(turns):\n    n = 0\n    while n < turns:\n        step()\n        n += 1\n"
        "for at in range(3):\n    train(12 * (at + 1))",
        # another phase in each turn
        "for at in range(3):\n    for n in range(12):\n        step()\n"
        "    for n in range(12):\n        step()",
        # texts of any length
        "for text in (zeros(12), zeros(50)):\n    for n in range(text.size(0)):\n        step()",
        "def train(text):\n    for n in range(len(text)):\n        step()\n"
        "for epoch in range(2):\n    train(zeros(12 + epoch))",
    ],
)
def test_a_count_that_is_not_of_turns_alone_says_nothing(tmp_path: Path, source: str) -> None:
    found = seen(tmp_path, source, n=0, at=0, reward=0, zeros=torch.zeros)
    assert len(found) > 8
    said = [planned_steps(one, taken, 6, (taken - 1) // 6) for taken, one in enumerate(found, 1)]
    assert said == [None] * len(found)


def test_a_length_that_a_function_makes_of_what_stays(tmp_path: Path) -> None:
    """As where a language model's data are cut in a function: nothing in it depends on the epoch."""
    found = seen(
        tmp_path,
        """
        text = zeros(8, 60)

        def train(epoch):
            source = text
            length = source.size(1)
            for number, at in enumerate(range(0, length - 1, 5)):
                if at + 5 >= length:
                    continue
                step()

        for epoch in range(3):
            train(epoch)
        """,
        zeros=torch.zeros,
    )
    assert found[4] == [Loop(3, 0), Loop(12, 4)]
    assert planned_steps(found[4], 5, None, 0) == 36


@pytest.mark.parametrize(
    "lines",
    [
        "length = draw(text)",
        "length = len(text)\n    length = length + epoch",
        "length = 12 * epoch",
        "if epoch is None:\n        epoch = len(text)\n    if True:\n        length = 12 * epoch",
        "length = 2 * len(part)",
        "if epoch:\n        length = 12\n    else:\n        length = 8",
        "source = text[epoch:]\n    length = len(source)",
    ],
)
def test_a_length_that_a_function_makes_anew_says_nothing_yet(tmp_path: Path, lines: str) -> None:
    source = f"def train(epoch):\n    {lines}\n    for at in range(length):\n        step()\n"
    found = seen(
        tmp_path,
        source + "for epoch in range(1, 4):\n    part = text[: 4 * epoch]\n    train(epoch)",
        text=torch.zeros(12),
        draw=lambda text: len(text),
    )
    assert planned_steps(found[6], 7, None, 0) is None


@pytest.mark.parametrize(("each", "planned"), [(1, 40), (2, 80), (5, 200)])
def test_several_steps_in_each_turn(each: int, planned: int) -> None:
    """Of a critic, for example."""
    assert planned_steps([Loop(40, 9)], 10 * each, None, 0) == planned


@pytest.mark.parametrize(("taken", "planned"), [(41, 80), (42, 80), (40, None), (43, None), (62, 120)])
def test_several_steps_in_each_turn_of_which_the_latest_is_not_over(taken: int, planned: int | None) -> None:
    """An encoder's optimizer steps, and then a decoder's."""
    assert planned_steps([Loop(40, 20)], taken, None, 0) == planned
    assert planned_steps([Loop(40, 18)], 37, None, 0) is None, "too few to tell"


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("around", "taken", "epoch_steps", "epochs"),
    [
        ([], 10, 6, 0),  # no loop
        ([LOADER], 3, 6, 0),  # a function that may be called again
        ([OTHER, Loop(4, 0), LOADER], 3, 6, 0),  # folds
        ([Loop(4, 0), OTHER], 3, 6, 0),  # whatever that is
        ([Loop(4, 0), LOADER], 3, None, 0),
        ([Loop(4, 2), LOADER], 3, 6, 2),  # of another training, or of fewer steps
        ([Loop(4, 0), LOADER], 9, 6, 0),
        ([Loop(4, 0), LOADER], 5, 6, 1),  # what a finder of learning rates has trained came before
        ([Loop(1000, 499)], 300, None, 0),  # it began to train after a while
        ([Loop(1000, 2)], 3, None, 0),
        ([Loop(100_000, 1199)], 6, None, 0),  # it began to train late, and 1200 is a multiple by chance
        ([Loop(100, 0), LOADER, Loop(20, 3), LOADER], 60, 10, 0),  # which loader is it?
        ([Loop(10**9, 29)], 30, None, 0),  # until it is stopped
        ([Loop(10**6, 0), LOADER], 3, 60, 0),
    ],
)
def test_what_is_not_sure_is_not_said(
    around: Around, taken: int, epoch_steps: int | None, epochs: int
) -> None:
    assert planned_steps(around, taken, epoch_steps, epochs) is None


def readings(found: Sequence[Around], *taken: int) -> list[Reading]:
    return [Reading(steps, found[steps - 1]) for steps in taken]


@pytest.mark.parametrize(
    ("condition", "steps"),
    [
        ("turn >= 400 and turn % 10 == 0", 60),  # an agent that first collects
        ("(turn + 1) % 4 == 0", 250),  # gradients are accumulated
        ("turn % 50 != 7", 980),
    ],
)
def test_turns_of_which_only_some_are_steps(tmp_path: Path, condition: str, steps: int) -> None:
    found = seen(tmp_path, f"for turn in range(1000):\n    if {condition}:\n        step()")
    assert len(found) == steps
    assert steps_at_this_rate(*readings(found, 2, 40)) == pytest.approx(steps, rel=0.01, abs=3)
    assert planned_steps(found[39], 40, None, 0) is None, "turns and steps do not agree"


@pytest.mark.parametrize(("condition", "steps"), [("turn % 3 == 2", 150), ("turn % 50 != 7", 440)])
def test_two_loops_of_which_only_some_turns_are_steps(tmp_path: Path, condition: str, steps: int) -> None:
    found = seen(
        tmp_path, f"for epoch in range(5):\n    for turn in range(90):\n        if {condition}: step()"
    )
    assert len(found) == steps
    assert steps_at_this_rate(*readings(found, 2, 40)) == pytest.approx(steps, rel=0.01)


@pytest.mark.parametrize("source", ["", "for repeated in range(1):\n"])
def test_one_loop_may_begin_to_train_late(tmp_path: Path, source: str) -> None:
    """An outer one of a single turn is none."""
    loop = "for turn in range(1000):\n    if turn >= 400 and turn % 10 == 0:\n        step()"
    found = seen(tmp_path, source + textwrap.indent(loop, "    " if source else ""))
    assert steps_at_this_rate(*readings(found, 2, 40)) == pytest.approx(60, abs=1)


@pytest.mark.attack("truth")
def test_an_agent_that_trains_in_series_is_not_foreseen_by_a_part_of_them(tmp_path: Path) -> None:
    """As DDPG, TD3 and SAC do: 180 series of 50, of which a reading sees one or two."""
    source = """
    def update():
        step()

    for turn in range(10000):
        if turn >= 1000 and turn % 50 == 0:
            for _ in range(50):
                update()
    """
    found = seen(tmp_path, source)
    assert len(found) == 9000
    for later in (30, 45, 60, 110):
        assert steps_at_this_rate(*readings(found, 2, later)) is None, later


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (Reading(2, [Loop(1000, 11)]), Reading(9, [Loop(1000, 81)])),  # too few steps
        (Reading(2, [Loop(1000, 1)]), Reading(12, [Loop(1000, 20)])),  # too few turns
        (Reading(2, [Loop(900, 11)]), Reading(40, [Loop(1000, 391)])),  # another loop
        (Reading(2, [Loop(1000, 11), LOADER]), Reading(40, [Loop(1000, 391), LOADER])),
        (Reading(2, [OTHER, Loop(1000, 11)]), Reading(40, [OTHER, Loop(1000, 391)])),
        (
            Reading(2, [Loop(3, 0, elsewhere=True), Loop(1000, 11)]),
            Reading(40, [Loop(3, 0, elsewhere=True), Loop(1000, 391)]),
        ),
        (Reading(2, [Loop(10**9, 11)]), Reading(40, [Loop(10**9, 391)])),  # until it is stopped
        (Reading(2, [Loop(1000, 391)]), Reading(40, [Loop(1000, 11)])),  # another training
        (
            Reading(2, [Loop(3, 0), Loop(1000, 11, sure=False)]),
            Reading(40, [Loop(3, 0), Loop(1000, 391, sure=False)]),
        ),
        (Reading(0, ()), Reading(40, [Loop(1000, 391)])),
        (  # had it been so from the beginning, it would have taken 59
            Reading(2, [Loop(3, 0), Loop(1000, 211)]),
            Reading(40, [Loop(3, 0), Loop(1000, 591)]),
        ),
    ],
)
def test_two_readings_that_say_no_rate(earlier: Reading, later: Reading) -> None:
    assert steps_at_this_rate(earlier, later) is None


def test_a_pass_that_is_left_early_counts_once_some_were_seen_to_be() -> None:
    """``if batch == 6: break``: it takes as many steps in each turn, as far as one can see."""
    assert planned_steps([Loop(4, 2), CUT], 15, 6, 2, left_early=True) == 24
    assert planned_steps([Loop(4, 1), CUT], 9, 6, 1, left_early=True) is None, (
        "it may be a loss that ended it"
    )
    assert planned_steps([Loop(4, 2), CUT], 15, 6, 2) is None
    assert planned_steps([Loop(4, 2), CUT], 26, 6, 2, left_early=True) is None
    assert planned_steps([Loop(4, 2), CUT, CUT], 15, 6, 2, left_early=True) is None, "epochs end early, too"


LIMITED = """
    def main(epochs, most):
        steps = 0
        for epoch in range(epochs):
            losses = []
            for number, batch in enumerate(loader):
                step()
                if number % 2 == 1:
                    steps += 1
                if {test}:
                    break
            if {test}:
                break

    main(4, {most})
"""


@pytest.mark.parametrize("test", ["steps >= most", "most > 0 and steps >= most", "most <= steps"])
def test_a_limit_of_all_steps_in_a_pass(tmp_path: Path, test: str) -> None:
    """As where gradients are accumulated: the script counts its updates itself."""
    around = seen(tmp_path, LIMITED.format(test=test, most=10))
    assert around[18] == [Loop(4, 3, early=True), Limited(10, 9, 1)]
    assert planned_steps(around[18], 9, 3, 3) == 10
    assert planned_steps(around[18], 9, 4, 2) is None, "it is not in its third pass"
    assert planned_steps([Loop(4, 3), Limited(100, 9, 1)], 9, 3, 3) == 12, "the epochs end before"


def test_a_limit_that_may_be_reached(tmp_path: Path) -> None:
    assert seen(tmp_path, LIMITED.format(test="steps > most", most=10))[18][-1] == Limited(11, 9, 1)


@pytest.mark.parametrize(
    "source",
    [
        "while at < 3:\n    for batch in loader:\n        step()\n        n += 1\n"
        "        if n >= 1000: break\n    at += 1",
        "while True:\n    for batch in loader:\n        step()\n        n += 1\n        if n >= 1000: break\n"
        "    at += 1\n    if at >= 3: break",
    ],
)
def test_epochs_that_end_before_the_limit_of_steps(tmp_path: Path, source: str) -> None:
    found = seen(tmp_path, source, n=0, at=0)
    said = [planned_steps(one, taken, 6, (taken - 1) // 6) for taken, one in enumerate(found, 1)]
    assert len(found) == 18
    assert set(said[8:]) == {18}


@pytest.mark.parametrize(("most", "cut"), [(None, False), (0.02, True)])
def test_an_early_stop_that_was_not_asked_for(tmp_path: Path, most: float | None, cut: bool) -> None:
    """As in proximal policy optimization: ``if args.target_kl is not None and kl > args.target_kl``."""
    source = """
        for iteration in range(3):
            for epoch in range(4):
                for start in range(0, 6, 2):
                    step()
                if args.most is not None and float(epoch) > args.most:
                    break
    """
    found = seen(tmp_path, source, args=SimpleNamespace(most=most))
    assert found[0] == [Loop(3, 0), CUT if cut else Loop(4, 0), Loop(3, 0)]


OPTIONS = argparse.Namespace(dry_run=False, most=-1, limit=None)
LEFT_WHERE_IT_LOGS = """
    for epoch in range(3):
        for number, batch in enumerate(loader):
            step()
            if number % 5 == 4:
                if {test}:
                    break
                found = bool(number)
"""


@pytest.mark.parametrize(
    "test",
    [
        "args.dry_run",
        "args.most > 0 and number >= args.most",
        "args.limit is not None",
        "not not args.limit",
        "trying",
        "trying and number > 3",
        "0 < most and number > most",
    ],
)
def test_an_option_that_was_not_given_ends_no_pass(tmp_path: Path, test: str) -> None:
    """As in many examples, where the log is written: ``if args.dry_run: break``."""
    found = seen(tmp_path, LEFT_WHERE_IT_LOGS.format(test=test), args=OPTIONS, trying=False, most=-1)
    assert found[0] == [Loop(3, 0), LOADER]
    assert planned_steps(found[3], 4, 6, 0) == 18


@pytest.mark.parametrize(
    "test",
    [
        "args.dry_run",
        "args.most > 0 and number >= args.most",
        "args.most is not None",
        "stopper.found",  # of what another function finds
        "stopper.waited > 2",
        "stopper.found is not None",
        "found",  # the loop sets it
        "found and number > 3",
        "number > 3 or args.never",
        "unknown",
    ],
)
def test_what_may_end_a_pass(tmp_path: Path, test: str) -> None:
    source = LEFT_WHERE_IT_LOGS.format(test=test)
    options = argparse.Namespace(dry_run=True, most=4, never=False)
    stopper = SimpleNamespace(found=None, waited=0)
    found = seen(tmp_path, source, args=options, stopper=stopper, found=False, unknown=[])
    assert found[0][-1] == CUT


@pytest.mark.attack("truth")
@pytest.mark.parametrize("test", ["epoch > 2 and number > 3", "not epoch < 2"])
def test_an_epochs_number_is_no_option(tmp_path: Path, test: str) -> None:
    """What does not hold in the first epoch may in a later one."""
    source = f"""
        def train(epoch):
            for number, batch in enumerate(loader):
                step()
                if {test}:
                    break

        for epoch in range(4):
            train(epoch)
    """
    found = seen(tmp_path, source)
    assert len(found) < 24
    assert found[0][-1] == CUT


@pytest.mark.parametrize("around", ["while steps < 10", "for epoch in range(4)"])
def test_an_option_that_was_not_given_ends_no_count(tmp_path: Path, around: str) -> None:
    """The turns that a script counts are read the same way."""
    source = f"""
        steps = 0
        {around}:
            for number, batch in enumerate(loader):
                step()
                steps += 1
                if steps >= 10:
                    break
                if number == 2 and args.dry_run:
                    break
    """
    found = seen(tmp_path, source, args=OPTIONS)
    assert planned_steps(found[8], 9, 6, 1) == 10


def test_a_flag_that_a_function_gets_ends_no_pass(tmp_path: Path) -> None:
    source = """
        def train(trying):
            for number, batch in enumerate(loader):
                step()
                if number % 2 == 0:
                    if trying:
                        break

        for epoch in range(3):
            train(False)
    """
    assert seen(tmp_path, source)[0] == [Loop(3, 0), LOADER]


def test_an_option_ends_no_count_within_others(tmp_path: Path) -> None:
    within = """
        for fold in range(3):
            steps = 0
            while steps < 10:
                step()
                steps += 1
                if args.dry_run and steps > 3:
                    break
    """
    assert seen(tmp_path, within, args=OPTIONS)[0][-1] == Loop(10, 0)
    around = """
        steps = 0
        while steps < 10:
            for batch in loader:
                step()
                steps += 1
                if steps >= 10:
                    break
            if args.dry_run and steps > 3:
                break
    """
    assert planned_steps(seen(tmp_path, around, args=OPTIONS)[8], 9, 6, 1) == 10


@pytest.mark.attack("truth")
def test_an_early_stop_that_waits(tmp_path: Path) -> None:
    """What another function counts, or finds, does not hold yet."""
    source = """
        for fold in range(3):
            for epoch in range(4):
                step()
                if {test}:
                    break
    """
    tests = "stopper.waited > 2 and epoch > 1", "stopper.found is not None", "again is not None and epoch > 1"
    source += "                again = epoch\n"
    for test in tests:
        found = seen(
            tmp_path, source.format(test=test), stopper=SimpleNamespace(waited=0, found=None), again=None
        )
        assert found[0] == [Loop(3, 0), CUT]


@pytest.mark.parametrize(
    ("module", "name"),
    [("accelerate.data_loader", "base_dataloader"), ("lightning.fabric.wrappers", "_dataloader")],
)
def test_a_loader_that_a_library_wraps(tmp_path: Path, module: str, name: str) -> None:
    wrapper = type("Wrapper", (), {"__module__": module, "__iter__": lambda self: iter(LOADER_OF_SIX)})()
    setattr(wrapper, name, LOADER_OF_SIX)
    source = "for epoch in range(3):\n    for batch in wrapper:\n        step()"
    assert seen(tmp_path, source, wrapper=wrapper)[0] == [Loop(3, 0), LOADER]


def test_a_limit_that_is_none_in_this_run(tmp_path: Path) -> None:
    around = seen(tmp_path, LIMITED.format(test="most > 0 and steps >= most", most=-1))
    assert around[-1] == [Loop(4, 3, early=True), LOADER]


@pytest.mark.attack("truth")
@pytest.mark.parametrize(("counted", "taken"), [(18, 9), (9, 40), (9, 11), (3, 3)])
def test_a_limit_of_what_is_not_known_to_be_steps(counted: int, taken: int) -> None:
    """Batches, samples, what another training counted; or so few that they are as many by chance."""
    assert planned_steps([Loop(4, 3), Limited(100, counted, 1)], taken, 3, 3) is None
    assert planned_steps([Loop(4, 0), Limited(100, 3, 1)], 3, 6, 0) is None
    assert planned_steps([Loop(4, 0), Limited(100, 9, 1)], 9, 20, 0) == 80


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    "source",
    [
        """
        for epoch in range(4):
            steps = 0
            for batch in loader:
                step()
                steps += 1
                if steps >= 5:
                    break
        """,
        """
        for epoch in range(4):
            for number, batch in enumerate(loader):
                step()
                if number >= 5:
                    break
        """,
        """
        steps, best = 0, 9
        for epoch in range(4):
            for batch in loader:
                step()
                steps += 1
                if steps >= 100:
                    break
                if steps > best:
                    break
        """,
        """
        steps = 0
        for epoch in range(4):
            for batch in loader:
                step()
                steps += 1
                if steps >= 100 or limit() > 9:
                    break
        """,
        """
        steps, most = 0, 10
        for epoch in range(4):
            for batch in loader:
                step()
                steps += 1
                if steps >= most:
                    break
            most += 10
        """,
        """
        steps = 0
        for epoch in range(4):
            for batch in loader:
                step()
                steps += 1
                if steps >= limit():
                    break
        """,
        """
        def train():
            steps = 0
            for epoch in range(4):
                for batch in loader:
                    step()
                    steps += 1
                    if steps >= 20:
                        break

        for fold in range(3):
            train()
        """,
    ],
)
def test_a_pass_that_something_else_may_end_is_cut(tmp_path: Path, source: str) -> None:
    """By the steps of this pass, two counts, a limit that grows, or has to be called; and in folds, each of
    which counts anew.
    """
    assert seen(tmp_path, source, limit=lambda: 7)[3][-1] == CUT


def test_a_pass_that_cannot_be_read_counts_once_it_agrees() -> None:
    assert planned_steps([Loop(4, 1), OTHER], 9, 6, 1) == 24
    assert planned_steps([Loop(4, 1), OTHER], 3, 6, 1) is None


@pytest.mark.parametrize(
    "source",
    [
        "while True:\n    step()\n    break",
        "for epoch in epochs():\n    step()\n    break",
        "for epoch in range(count()):\n    step()\n    break",
        "for epoch in [1, 2, 3]:\n    step()\n    break",
        "for epoch in range(properties.epochs):\n    step()\n    break",
        "for epoch in range(len(properties)):\n    step()\n    break",
        "len = count\nfor epoch in range(len((1,))):\n    step()\n    break",
        "for epoch in range(properties.size(0)):\n    step()\n    break",
        "for epoch in range(4):\n    epoch = 'first'\n    step()\n    break",
        "[step() for epoch in range(4)]",
    ],
)
def test_what_would_have_to_be_called_is_not_read(tmp_path: Path, source: str) -> None:
    class Properties:
        calls = 0

        @property
        def epochs(self) -> int:
            self.calls += 1
            return 4

        def size(self, dimension: int) -> int:
            return self.epochs

        def __len__(self) -> int:
            return self.epochs

    properties, called = Properties(), list[int]()

    def count(*_: object) -> int:
        called.append(1)
        return 4

    epochs: Callable[[], Any] = lambda: iter(range(4))  # noqa: E731
    found = seen(tmp_path, source, properties=properties, count=count, epochs=epochs)
    assert set(found[0]) == {OTHER}
    assert properties.calls <= 1
    assert len(called) <= 1


def test_a_source_that_is_not_there_says_nothing() -> None:
    found: list[Around] = []

    def step() -> None:
        found.append(
            loops_around(sys._getframe(1), lambda frame: frame.f_code.co_filename != "<gone>", DataLoader)
        )

    exec(compile("for epoch in range(2):\n    step()", "<gone>", "exec"), {"step": step})
    assert found[0] == [OTHER]


def test_a_turn_for_each_step_whatever_it_does_inside() -> None:
    """It goes over the batches of a step, in epochs of 50 steps."""
    assert planned_steps([Loop(3, 0), Loop(50, 9), OTHER], 10, None, 0) == 150
    assert planned_steps([Loop(3, 1), Loop(50, 9), OTHER], 60, 50, 1) == 150
    assert planned_steps([Loop(3, 0), Loop(50, 9), OTHER], 20, None, 0) is None
    assert planned_steps([Loop(3, 0), Loop(50, 2), OTHER], 3, None, 0) is None, "too few turns to tell"


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    "source",
    [
        # the same name counts batches, too
        "for i in range(100):\n    for i, batch in enumerate(loader):\n        step()",
        "for _ in range(100):\n    for _ in loader:\n        step()",
        # what the loop goes over has changed since
        "n = 10\nfor epoch in range(n):\n    for batch in loader:\n        n = len(batch)\n        step()",
        # a patience, not a number of epochs
        "bad = 0\nwhile bad < 10:\n    for batch in loader:\n        step()\n    break",
        # a pass that is cut short
        "for epoch in range(9):\n    for i, b in enumerate(loader):\n        step()\n        if i > 1: break",
        # episodes that end when the game is over
        "for epoch in range(9):\n    for n, b in enumerate(loader):\n        step()\n        if n > 4: break",
        # as many steps as there may be
        "def train():\n    for epoch in range(9):\n        for n, b in enumerate(loader):\n"
        "            step()\n            if n > 8: return\ntrain()",
        # two networks, or two data sets, in each epoch
        "def train(name):\n    for batch in loader:\n        step()\n"
        "for epoch in range(4):\n    train('one')\n    train('other')",
        "for epoch in range(4):\n    for batch in loader:\n        step()\n    for batch in loader:\n"
        "        backward()",
        # it goes on where it was
        "epoch = 2\nfor epoch in range(epoch, 10):\n    for batch in loader:\n        step()",
        "for game in range(500):\n    for turn in range(1000):\n        step()\n        if turn > 5: break",
        # a training for each seed
        "def train(seed):\n    for epoch in range(4):\n        for batch in loader:\n            step()\n"
        "[train(seed) for seed in (1, 2, 3)]",
    ],
)
def test_a_count_that_means_something_else_is_not_taken_for_epochs(tmp_path: Path, source: str) -> None:
    found = seen(tmp_path, source, backward=lambda: None)
    assert planned_steps(found[3], 4, 6, 0) is None


def test_an_evaluation_by_another_name_and_a_flag_are_no_reason_to_doubt(tmp_path: Path) -> None:
    found = seen(
        tmp_path,
        """
        def train(dry_run):
            for batch in loader:
                step()
                if dry_run:
                    break

        def test():
            for batch in loader:
                pass

        schedulers = []
        for epoch in range(1, 4):
            train(False)
            test()
            for scheduler in schedulers:
                scheduler.step()
        """,
    )
    assert planned_steps(found[3], 4, 6, 0) == 18


def test_one_function_for_training_and_evaluation_is_believed_once_an_epoch_is_over(tmp_path: Path) -> None:
    found = seen(
        tmp_path,
        """
        def run(trains):
            for batch in loader:
                if trains:
                    step()

        for epoch in range(4):
            run(True)
            run(False)
        """,
    )
    assert planned_steps(found[3], 4, 6, 0) is None
    assert planned_steps(found[7], 8, 6, 1) == 24


@pytest.mark.parametrize(
    "source",
    [
        # for trying the script out, out of two loops
        """
        debug = False
        for epoch in range(3):
            for batch in loader:
                step()
                if debug:
                    break
            else:
                continue
            break
        """,
        # when somebody stops it
        """
        for epoch in range(3):
            try:
                for batch in loader:
                    step()
            except KeyboardInterrupt:
                break
        """,
    ],
)
def test_ways_out_that_are_seldom_taken_are_no_reason_to_doubt(tmp_path: Path, source: str) -> None:
    found = seen(tmp_path, source)
    assert planned_steps(found[8], 9, 6, 1) == 18


def test_turns_of_a_functions_own_number_are_believed_once_they_came_again(tmp_path: Path) -> None:
    found = seen(
        tmp_path,
        """
        def train(turns):
            for n in range(turns):
                step()

        for epoch in range(3):
            train(12)
        """,
    )
    said = [planned_steps(one, taken, None, 0) for taken, one in enumerate(found, 1)]
    assert said == [None] * 12 + [36] * 24


def test_an_early_stop_of_the_outermost_loop_is_assumed_not_to_come(tmp_path: Path) -> None:
    found = seen(
        tmp_path,
        """
        for epoch in range(10):
            for batch in loader:
                step()
            if epoch == 1:
                break
        """,
    )
    assert planned_steps(found[7], 8, 6, 1) == 60
    for turn in found:
        assert turn[1] == LOADER


@pytest.mark.parametrize(("repetitions", "planned"), [(1, 60), (2, None)])
def test_repetitions_around_an_early_stop_must_be_one(
    repetitions: int, planned: int | None, tmp_path: Path
) -> None:
    """Experiments are often run once, in a loop that could run them several times."""
    found = seen(
        tmp_path,
        """
        def train():
            for epoch in range(10):
                for batch in loader:
                    step()
                if epoch == 1:
                    break

        for repetition in range(repetitions):
            train()
        """,
        repetitions=repetitions,
    )
    assert planned_steps(found[7], 8, 6, 1) == planned


class TrainerState:
    def __init__(self) -> None:
        self.max_steps, self.global_step = 100, 0


def test_a_trainer_of_transformers_counts_by_itself(tmp_path: Path) -> None:
    """Its loops go on to the end of an epoch, but for a flag that ends them after so many steps."""
    found = seen(
        tmp_path,
        """
        class Trainer:
            def __init__(self):
                self.state = TrainerState()

            def train(self):
                for epoch in range(3):
                    self.epoch()

            def epoch(self):
                for update in range(1000):
                    step()
                    self.state.global_step += 1
                    if self.state.global_step == 9:
                        break

        Trainer().train()
        """,
        TrainerState=TrainerState,
    )
    assert found[7] == [Loop(100, 7)]
    assert planned_steps(found[7], 8, None, 0) == 100


# As lightning 2.6 and ignite 0.5 are written, with what is read of them.
LIGHTNING = """
    class _FitLoop:
        __module__ = "lightning.pytorch.loops.fit_loop"

        def __init__(self, max_epochs, max_steps=-1, limit=6, accumulate=1, steps=1):
            self.max_epochs, self.max_batches = max_epochs, limit
            self.trainer = SimpleNamespace(accumulate_grad_batches=accumulate)
            self.epoch_loop = _TrainingEpochLoop(max_steps, limit, accumulate, steps)
            self.epoch_progress = SimpleNamespace(current=SimpleNamespace(processed=0))

        @property
        def done(self):
            epochs, steps = self.max_epochs, self.epoch_loop.max_steps
            return self.epoch_progress.current.processed == epochs or self.epoch_loop.count.completed == steps

        def run(self):
            while not self.done:
                self.advance()
                self.epoch_progress.current.processed += 1

        def advance(self):
            self.epoch_loop.run(iter(loader))

    class _TrainingEpochLoop:
        def __init__(self, max_steps, limit, accumulate, steps):
            self.max_steps, self.limit, self.accumulate, self.each = max_steps, limit, accumulate, steps
            self.batch_progress = SimpleNamespace(current=SimpleNamespace(ready=0))
            self.count = SimpleNamespace(completed=0)
            optimizer = SimpleNamespace(step=SimpleNamespace(total=self.count))
            self.automatic_optimization = SimpleNamespace(optim_progress=SimpleNamespace(optimizer=optimizer))

        def run(self, batches):
            self.batch_progress.current.ready = 0
            while self.count.completed != self.max_steps and self.batch_progress.current.ready < self.limit:
                next(batches)
                self.batch_progress.current.ready += 1
                ready = self.batch_progress.current.ready
                if ready % self.accumulate == 0 or ready == self.limit:
                    for number in range(self.each):
                        step()
                    self.count.completed += 1

    """
IGNITE = """
    class Engine:
        __module__ = "ignite.engine.engine"

        def __init__(self):
            self.state = State()

        def run(self, max_epochs, epoch_length=6):
            self.state.max_epochs, self.state.epoch_length = max_epochs, epoch_length
            while self.state.epoch < max_epochs:
                self.state.epoch += 1
                self.once(iter(loader))

        def once(self, batches):
            while self.state.iteration < self.state.epoch * self.state.epoch_length:
                next(batches)
                self.state.iteration += 1
                step()

    class State:
        def __init__(self):
            self.epoch, self.iteration, self.max_epochs, self.epoch_length = 0, 0, None, None

    """


@pytest.mark.parametrize(
    ("library", "run", "planned"),
    [
        pytest.param(LIGHTNING, "_FitLoop(4).run()", 24, id="lightning's epochs"),
        pytest.param(LIGHTNING, "_FitLoop(4, limit=5).run()", 20, id="lightning's epochs of some batches"),
        pytest.param(LIGHTNING, "_FitLoop(8, accumulate=4).run()", 16, id="lightning accumulates"),
        pytest.param(LIGHTNING, "_FitLoop(4, steps=2).run()", None, id="lightning, two steps a batch"),
        pytest.param(LIGHTNING, "_FitLoop(-1, 20).run()", 20, id="lightning's steps"),
        pytest.param(LIGHTNING, "_FitLoop(4, 20).run()", None, id="lightning's epochs or steps"),
        pytest.param(LIGHTNING, "_FitLoop(None, 20).run()", None, id="not set yet"),
        pytest.param(
            LIGHTNING,
            "class GradientAccumulationScheduler: pass\n"
            "    fits = _FitLoop(4); fits.trainer.callbacks = [GradientAccumulationScheduler()]; fits.run()",
            None,
            id="lightning accumulates more in some epochs",
        ),
        pytest.param(
            LIGHTNING, "for fold in range(3):\n        _FitLoop(4).run()", 72, id="lightning, three folds"
        ),
        pytest.param(IGNITE, "Engine().run(5)", 30, id="ignite's epochs"),
        pytest.param(IGNITE, "Engine().run(5, epoch_length=4)", 20, id="ignite's epochs of some batches"),
        pytest.param(
            IGNITE, "engine = Engine(); engine.state.max_iters = 27; engine.run(5)", None, id="ignite's steps"
        ),
    ],
)
def test_libraries_whose_loops_go_on_until_they_are_done(
    tmp_path: Path, library: str, run: str, planned: int | None
) -> None:
    found = seen(tmp_path, f"{library}{run}\n", SimpleNamespace=SimpleNamespace)
    answers = {planned_steps(one, taken, 6, 0) for taken, one in enumerate(found, 1) if taken % 16 == 0}
    assert answers == {planned}
    assert {planned_steps(one, taken, 6, 0) for taken, one in enumerate(found, 1)} <= {planned, None}


def test_a_run_that_a_library_resumed_says_nothing(tmp_path: Path) -> None:
    """It counts epochs that were not seen."""
    run = "fits = _FitLoop(4); fits.epoch_progress.current.processed = 2; fits.run()\n"
    found = seen(tmp_path, LIGHTNING + run, SimpleNamespace=SimpleNamespace)
    assert len(found) == 12
    assert [planned_steps(one, taken, 6, 0) for taken, one in enumerate(found, 1)] == [None] * 12


def test_nothing_of_the_scripts_is_kept_in_memory(tmp_path: Path) -> None:
    """Before Python 3.13 a frame keeps a copy of its variables once somebody has looked at them."""
    found: list[bool] = []

    class Batch:
        pass

    seen(
        tmp_path,
        """
        def train():
            for epoch in range(2):
                batch = Batch()
                watched = ref(batch)
                step()
                del batch
                alive(watched() is not None)

        def keeps(rate=0.1):
            config = locals()
            for epoch in range(2):
                step()
            alive(list(config) == ["rate"])

        train()
        keeps()
        """,
        Batch=Batch,
        ref=weakref.ref,
        alive=found.append,
    )
    assert found == [False, False, True]


def test_what_asks_for_the_variables_of_something_else_is_read(tmp_path: Path) -> None:
    """``config = vars(args)`` is in many a training function, and hands out none of its own."""
    source = """
        def train(args):
            config = dict(vars(args))
            for epoch in range(args.epochs):
                for batch in loader:
                    step()

        train(args)
    """
    assert seen(tmp_path, source, args=SimpleNamespace(epochs=3))[0] == [Loop(3, 0), LOADER]


def test_warnings_of_sources_are_not_repeated(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = tmp_path / "odd.py"
        path.write_text("pattern = '\\d'\nfor epoch in range(2):\n    step()\n")
        code = compile(path.read_text(), str(path), "exec")
    found: list[Around] = []

    def step() -> None:
        found.append(loops_around(sys._getframe(1), lambda frame: frame.f_code is not code, DataLoader))

    exec(code, {"step": step})
    assert found == [[Loop(2, 0)], [Loop(2, 1)]]
    assert not recwarn.list
