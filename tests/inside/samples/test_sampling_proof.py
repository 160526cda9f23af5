"""Only a dataset whose samples are the same whenever they are drawn passes; asking moves nothing here."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset

from hasten.inside.random_state import fingerprint
from hasten.inside.samples import sampling_proof
from hasten.inside.samples.sampling_proof import (
    chain,
    prove_deterministic,
    same_sample,
    sample_nbytes,
    state_of,
    states_of,
)

ONES = torch.ones(3)
with torch.inference_mode():
    FEATURES = torch.ones(20, 3)


class Made(Dataset[Any]):
    """Samples by a function of the dataset and the index."""

    def __init__(self, sample: Callable[[Any, int], Any], **attributes: Any) -> None:
        self.sample = sample
        vars(self).update(attributes)

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> Any:
        return self.sample(self, index)


def reason_for(dataset: Any) -> str:
    reason, size = prove_deterministic(torch, dataset, len(dataset))
    assert (size == 0) is (reason != "")
    return reason


# ---- what passes
def test_the_size_of_the_largest_sample_is_told() -> None:
    dataset = Made(lambda _, i: (torch.zeros(i + 1), np.zeros(2, np.uint8)))
    assert prove_deterministic(torch, dataset, len(dataset)) == ("", 20 * 4 + 2)


DETERMINISTIC: dict[str, Dataset[Any]] = {
    "tensors": TensorDataset(torch.randn(20, 3)),
    "a subset": Subset(TensorDataset(torch.randn(20, 3)), [3, 5, 7]),
    "a chain": ConcatDataset([TensorDataset(torch.randn(4, 3)), TensorDataset(torch.randn(4, 3))]),
    "numpy": Made(lambda _, i: np.full((2, 2), i)),
    "a dict": Made(lambda _, i: {"x": ONES * i, "name": str(i), "none": None}),
    "draws from a new generator": Made(lambda _, i: np.random.default_rng(i).random(3)),
    "seeded anew each time": Made(lambda _, i: torch.rand(2, generator=torch.Generator().manual_seed(i))),
    "not a number": Made(lambda _, i: float("nan")),
    "a seeded generator of each kind": Made(
        lambda _, i: (np.random.RandomState(i).rand(), random.Random(i).random())
    ),
    "an own generator that rests": Made(lambda _, i: i, generator=np.random.default_rng(0)),
}


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_deterministic_sampling_passes(name: str) -> None:
    assert reason_for(DETERMINISTIC[name]) == ""


# ---- what is refused
AUGMENTED: dict[str, Callable[[Any, int], Any]] = {
    "torch": lambda _, i: ONES + torch.rand(3),
    "numpy": lambda _, i: np.random.rand(3),
    "random": lambda _, i: random.random(),
}
DRAWING: dict[str, Callable[[Any, int], Any]] = {  # without an effect on the sample
    "torch": lambda _, i: (torch.rand(1), i)[1],
    "numpy": lambda _, i: (np.random.rand(), i)[1],
    "random": lambda _, i: (random.random(), i)[1],
}


@pytest.mark.parametrize("by", AUGMENTED)
def test_random_augmentation_is_refused(by: str) -> None:
    assert "differs when it is drawn twice" in reason_for(Made(AUGMENTED[by]))


@pytest.mark.parametrize("by", DRAWING)
def test_drawing_random_numbers_is_refused(by: str) -> None:
    """Without the draws, the training's later random numbers would be others."""
    assert "draws random numbers" in reason_for(Made(DRAWING[by]))


def test_features_that_were_made_in_inference_mode_pass() -> None:
    assert prove_deterministic(torch, TensorDataset(FEATURES), 20)[0] == ""


def test_one_random_sample_among_many_is_found() -> None:
    dataset = Made(lambda _, i: ONES + torch.rand(1) if i == 19 else ONES)
    assert "sample 19 of Made differs" in reason_for(dataset)


GENERATORS: dict[str, Callable[[], Any]] = {
    "numpy's Generator": lambda: np.random.default_rng(0),
    "numpy's RandomState": lambda: np.random.RandomState(0),
    "Python's": lambda: random.Random(0),
    "torch's": lambda: torch.Generator().manual_seed(0),
}


def draw_from(generator: Any) -> float:
    if isinstance(generator, torch.Generator):
        return torch.rand(1, generator=generator).item()
    return float(generator.random())


@pytest.mark.parametrize("whose", GENERATORS)
def test_augmentation_by_an_own_generator_is_refused(whose: str) -> None:
    dataset = Made(lambda self, i: draw_from(self.generator), generator=GENERATORS[whose]())
    assert "differs when it is drawn twice" in reason_for(dataset)


@pytest.mark.parametrize("whose", GENERATORS)
def test_augmentation_that_hardly_ever_happens_is_refused(whose: str) -> None:
    """No sample differs in the proof, but the generator moved."""
    dataset = Made(
        lambda self, i: -ONES if draw_from(self.generator) < 1e-12 else ONES, generator=GENERATORS[whose]()
    )
    assert "changes the dataset's own state" in reason_for(dataset)


global_generator: Any = None


def draw_from_the_global() -> float:
    return draw_from(global_generator)


@pytest.mark.parametrize("whose", GENERATORS)
def test_rare_augmentation_by_a_global_generator_is_refused(
    whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "global_generator", GENERATORS[whose]())
    dataset = Made(lambda self, i: -ONES if draw_from_the_global() < 1e-12 else ONES)
    assert "draws random numbers" in reason_for(dataset)


SEEDED_BY_THE_SYSTEM: dict[str, Callable[[], float]] = {
    "numpy": lambda: float(np.random.default_rng().random()),
    "random": lambda: random.Random().random(),
    "os": lambda: float(os.urandom(1)[0] + 1),
}


@pytest.mark.parametrize("by", SEEDED_BY_THE_SYSTEM)
def test_rare_augmentation_that_the_system_seeds_is_refused(by: str) -> None:
    draw = SEEDED_BY_THE_SYSTEM[by]
    assert "draws random numbers" in reason_for(Made(lambda _, i: -ONES if draw() < 1e-12 else ONES))


def named_by_another_thread(_: Any, index: int) -> int:
    """As where a loader's worker hands on its batches."""
    thread = threading.Thread(target=random.Random)
    thread.start()
    thread.join()
    return index


def test_names_that_another_thread_draws_are_no_draws_of_samples() -> None:
    assert reason_for(Made(named_by_another_thread)) == ""


def counting(self: Any, index: int) -> int:
    self.calls += 1
    return index


def caching(self: Any, index: int) -> Any:
    return self.cache.setdefault(index, ONES * index)


def reusing(self: Any, index: int) -> Any:
    self.buffer[:] = index
    return self.buffer


STATEFUL: dict[str, Callable[[], Dataset[Any]]] = {
    "a counter": lambda: Made(counting, calls=0),
    "a cache": lambda: Made(caching, cache={}),
    "one array for all samples": lambda: Made(reusing, buffer=np.zeros(4)),
    "one tensor for all samples": lambda: Made(reusing, buffer=torch.zeros(4)),
}


@pytest.mark.parametrize("wrapped", [0, 1, 2])
@pytest.mark.parametrize("kind", STATEFUL)
def test_a_dataset_that_changes_when_it_is_asked_is_refused(kind: str, wrapped: int) -> None:
    dataset = STATEFUL[kind]()
    for _ in range(wrapped):
        dataset = Subset(dataset, range(10))
    assert "changes the dataset's own state" in reason_for(dataset)


def test_a_dataset_that_raises_is_refused_with_its_error() -> None:
    def broken(_: Any, index: int) -> Any:
        raise FileNotFoundError(f"no file {index}.png")

    assert reason_for(Made(broken)).endswith("FileNotFoundError: no file 0.png")


def test_an_error_may_be_as_long_as_it_likes() -> None:
    def broken(_: Any, index: int) -> Any:
        raise KeyError("x" * 100_000)

    assert "failed: KeyError" in reason_for(Made(broken))


def test_an_error_that_has_no_text_is_refused_too() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def broken(_: Any, index: int) -> Any:
        raise Mute

    assert "did not end" in reason_for(Made(broken))


def test_a_dataset_that_ends_the_process_is_refused() -> None:
    def deadly(_: Any, index: int) -> Any:
        os._exit(3)

    assert "did not end" in reason_for(Made(deadly))


def test_samples_that_cannot_be_compared_are_refused() -> None:
    assert reason_for(Made(lambda _, i: threading.Event())) != ""


def test_a_dataset_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling_proof, "_PATIENCE_SECONDS", 0.2)
    assert "did not end" in reason_for(Made(lambda _, i: threading.Event().wait()))


def test_a_slow_dataset_is_judged_by_what_was_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling_proof, "_CHILD_SECONDS", -1.0)
    dataset = Made(lambda _, i: ONES if i == 0 else pytest.fail("drawn after the time was up"))
    assert reason_for(dataset) == ""


PRINTING: dict[str, Callable[[], object]] = {
    "print": lambda: print("drawing"),
    "print to stderr": lambda: print("drawing", file=sys.stderr),
    "print to the first output": lambda: print("drawing", file=sys.__stdout__),
    "a library": lambda: os.write(2, b"drawing"),
}


@pytest.mark.parametrize("by", PRINTING)
def test_a_dataset_that_prints_is_refused(by: str) -> None:
    printing = PRINTING[by]
    assert "prints something" in reason_for(Made(lambda _, i: (printing(), i)[1]))


@pytest.mark.parametrize("buffered", [1, -1])
def test_a_dataset_that_writes_to_a_log_is_refused_and_the_log_stays(tmp_path: Path, buffered: int) -> None:
    with open(tmp_path / "log", "w", buffered) as log:
        print("begun", file=log)
        reason = reason_for(Made(lambda _, i: (print("drawing", file=log), i)[1]))
    assert "writes to a file that is open" in reason
    assert (tmp_path / "log").read_text() == "begun\n"


def with_a_warning(_: Any, index: int) -> int:
    warnings.warn("not as it should be", stacklevel=1)
    return index


def test_output_once_and_warnings_are_no_reason() -> None:
    said: list[int] = []

    def once(_: Any, index: int) -> int:
        if not said:
            said.append(1)
            print("the first time")
        return index

    assert reason_for(Made(once)) == ""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert reason_for(Made(with_a_warning)) == ""


def shared_zeros() -> Any:
    zeros: Any = torch.zeros(1)
    return zeros.share_memory_()


def count_in(shared: Any) -> Callable[[Any, int], int]:
    def sample(_: Any, index: int) -> int:
        shared[0] += 1
        return index

    return sample


@pytest.mark.parametrize(
    "shared",
    [multiprocessing.Array("i", 1), multiprocessing.RawArray("i", 1), shared_zeros()],
    ids=["an array", "an array without a lock", "a tensor"],
)
def test_memory_that_processes_share_is_not_written_to(shared: Any) -> None:
    own = Made(lambda self, i: count_in(self.shared)(self, i), shared=shared)
    assert "Made.shared is memory that processes share" in reason_for(own)
    assert "memory that processes share" in reason_for(Subset(own, range(3)))
    assert "memory that processes share" in reason_for(Made(count_in(shared)))
    assert list(shared) == [0]


@pytest.mark.parametrize("lock", [multiprocessing.Lock(), torch.zeros(1).clone(), np.zeros(1)])
def test_a_lock_is_no_shared_memory(lock: Any) -> None:
    assert reason_for(Made(lambda _, i: i, lock=lock)) == ""


# ---- nothing moves here
def test_the_random_streams_stay_where_they_were() -> None:
    before = fingerprint(torch)
    for sample in (*AUGMENTED.values(), *DRAWING.values()):
        reason_for(Made(sample))
    assert fingerprint(torch) == before


def test_the_dataset_stays_as_it_was() -> None:
    dataset = Made(counting, calls=0)
    reason_for(dataset)
    assert dataset.calls == 0  # type: ignore[attr-defined]


def test_the_number_of_threads_stays_as_it_was() -> None:
    before = torch.get_num_threads()
    reason_for(Made(lambda _, i: i))
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("hangs", [False, True])
def test_no_process_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hangs: bool) -> None:
    if hangs:
        monkeypatch.setattr(sampling_proof, "_PATIENCE_SECONDS", 5.0)  # by then it has told its number

    def telling(_: Any, index: int) -> int:
        (tmp_path / "pid").write_text(str(os.getpid()))
        if hangs:
            threading.Event().wait()
        return index

    reason_for(Made(telling))
    child = int((tmp_path / "pid").read_text())
    assert child != os.getpid()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    def talking(_: Any, index: int) -> int:
        print("drawing", index, flush=True)
        os.write(2, b"drawing\n")
        return index

    reason_for(Made(talking))
    assert capfd.readouterr() == ("", "")


def test_nothing_goes_into_a_log_that_the_script_made_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open(tmp_path / "log", "w") as log:
        monkeypatch.setattr(sys, "stdout", log)
        reason_for(Made(lambda _, i: print("drawing", flush=True)))
    assert (tmp_path / "log").read_text() == ""


def test_a_script_that_ignores_its_children_is_served_too() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert reason_for(Made(lambda _, i: i)) == ""
    finally:
        signal.signal(signal.SIGCHLD, before)


# ---- comparing
class Pair(NamedTuple):
    a: Any
    b: Any


EQUAL: list[tuple[Any, Any]] = [
    (torch.ones(2), torch.ones(2)),
    (torch.zeros(0), torch.zeros(0)),
    (torch.ones(2, 3).t(), torch.ones(3, 2)),
    (np.ones(2), np.ones(2)),
    (np.float32(1), np.float32(1)),
    ({"a": [1, (2.0, "x", b"y", None, True)]}, {"a": [1, (2.0, "x", b"y", None, True)]}),
    (float("nan"), float("nan")),
    (torch.tensor(float("nan")), torch.tensor(float("nan"))),
    (Pair(1, ONES), Pair(1, ONES.clone())),
]
DIFFERENT: list[tuple[Any, Any]] = [
    (torch.ones(2), torch.ones(3)),
    (torch.ones(2), torch.ones(2, dtype=torch.float64)),
    (torch.ones(2), torch.tensor([1.0, 1.0 + 2**-20])),
    (torch.tensor(0.0), torch.tensor(-0.0)),
    (torch.ones(1), np.ones(1)),
    (np.ones(2), np.ones(2, np.float32)),
    (np.zeros(1), -np.zeros(1)),
    (0.0, -0.0),
    (1, True),
    (1, 1.0),
    ("a", b"a"),
    ((1, 2), [1, 2]),
    ((1, 2), (1, 2, 3)),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({"a": 1}, {"a": 2}),
    (object, object),
]


@pytest.mark.parametrize(("a", "b"), EQUAL)
def test_equal_samples(a: Any, b: Any) -> None:
    assert same_sample(a, b)


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_different_samples(a: Any, b: Any) -> None:
    assert not same_sample(a, b)


def test_the_bytes_of_a_sample_are_those_of_its_data() -> None:
    sample = {"x": torch.zeros(3), "y": [np.zeros(2), torch.zeros(2, dtype=torch.int8)]}
    assert sample_nbytes(sample) == 12 + 16 + 2
    assert sample_nbytes("text") > 4


# ---- state
def test_all_wrapped_datasets_are_in_the_chain() -> None:
    inner = [TensorDataset(torch.zeros(2, 1)), TensorDataset(torch.zeros(2, 1))]
    both: Dataset[Any] = ConcatDataset(inner)
    subset = Subset(both, [0])
    assert set(map(id, chain(subset))) == set(map(id, [subset, both, *inner]))


def test_a_dataset_that_wraps_itself_has_an_end() -> None:
    dataset = Made(lambda _, i: i)
    vars(dataset)["dataset"] = dataset
    assert list(chain(dataset)) == [dataset]


def change(value: Any) -> None:
    if isinstance(value, list):
        value.append(1)
    elif isinstance(value, dict):
        value["new"] = 1
    elif isinstance(value, set):
        value.add(1)
    elif hasattr(value, "amount"):
        value.amount += 1
    else:
        value[0] = 1


class Inner:
    amount = 0


@pytest.mark.parametrize(
    "value",
    [[], {}, set(), np.zeros(3), torch.zeros(3), Inner()],
    ids=lambda value: type(value).__name__,
)
def test_a_change_is_seen_in_the_state(value: Any) -> None:
    dataset = Subset(Made(lambda _, i: i, value=value), range(3))
    before = states_of(dataset)
    assert states_of(dataset) == before
    change(value)
    assert states_of(dataset) != before


def test_another_array_of_equal_content_is_another_state() -> None:
    assert state_of(ONES) != state_of(ONES.clone())


def test_state_that_refers_to_itself_has_an_end() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert state_of(loop) == state_of(loop)
