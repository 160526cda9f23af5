"""An evaluation's batches from memory are those that the script would make, or they are not given."""

from __future__ import annotations

import gc
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from hasten.inside.observing.uses import MAKES_LOADERS, RECORDS_EVALUATIONS
from hasten.inside.samples import kept_batches
from hasten.inside.samples.columns import same_batch
from hasten.inside.techniques.evaluation_in_ram import EvaluationInRam
from hasten.records.plan import BASELINE, Plan
from hasten.records.whole_run import Part, WatchedRun
from hasten.testing.byte_pictures import BytePictures
from hasten.testing.technique_contract import trained_from_the_start
from hasten.testing.workbench import Pictures, Workbench, workbench

from ..bench.made_up import step
from ..thorough import cases
from .made_up import facts, loader, machine
from .reading import StartUnder

SIZE = 14
PASSES = 3
PLAN = Plan({"evaluation_in_ram": {}})
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="its proof forks")


class Squares(Dataset[Any]):
    """Notes in each sample which process made it."""

    def __init__(self) -> None:
        self.scale = 1.0

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"input": torch.full((3,), index**2 * self.scale), "name": f"picture {index}"}


class Random(Squares):
    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"input": torch.rand(3), "name": ""}


class OwnRandom(Squares):
    def __init__(self) -> None:
        super().__init__()
        self.own = random.Random(3)

    def __getitem__(self, index: int) -> dict[str, Any]:
        self.own.random()
        return super().__getitem__(index)


@pytest.fixture
def started(started_under: StartUnder) -> StartUnder:
    return partial(started_under, PLAN)


def passes(made: DataLoader[Any], change: Callable[[int, Any], None] = lambda number, dataset: None) -> Any:
    """Batches of several evaluations, into which the script writes, and the streams after each."""
    torch.manual_seed(8)
    told: list[Any] = []
    for number in range(PASSES):
        change(number, made.dataset)
        with torch.no_grad():
            for batch in made:
                parts = batch if isinstance(batch, dict) else {"input": batch[0]}
                told += [{key: part for key, part in parts.items() if key != "input"}, parts["input"].clone()]
                parts["input"].add_(1)
        told += [torch.get_rng_state()]
        told += [made.generator.get_state()] if made.generator is not None else []
    return told


class Files(Squares):
    """A sample for each file in a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        for index in range(SIZE):
            self.write(index, index)

    def write(self, index: int, number: int) -> None:
        (self.folder / str(index)).write_text(str(number))

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"input": torch.full((3,), float((self.folder / str(index)).read_text())), "name": str(index)}


@pytest.mark.parametrize("workers", [0, 1])
def test_files_that_the_script_writes_between_evaluations_are_read_again(
    started: StartUnder, tmp_path: Path, workers: int
) -> None:
    def change(number: int, dataset: Files) -> None:
        for index in range(SIZE):
            dataset.write(index, index + 100 * (number == 1))

    folders = [tmp_path / "theirs", tmp_path / "ours"]
    for folder in folders:
        folder.mkdir()
    theirs, ours = (DataLoader(Files(folder), batch_size=4, num_workers=workers) for folder in folders)
    expected = passes(theirs) + passes(theirs, change)
    now = started()
    assert same_batch(passes(ours) + passes(ours, change), expected)
    assert now.counted > 0


class Printing(Squares):
    def __getitem__(self, index: int) -> dict[str, Any]:
        print("drawing", index)
        return super().__getitem__(index)


def test_batches_are_not_kept_if_making_them_prints(
    started: StartUnder, capfd: pytest.CaptureFixture[str]
) -> None:
    now = started()
    passes(DataLoader(Printing(), batch_size=4))
    assert "making a batch of Printing prints something" in now.proof().evidence
    assert capfd.readouterr().out.count("drawing") == PASSES * SIZE


def with_labels(samples: list[dict[str, Any]]) -> dict[str, Any]:
    return {"input": torch.stack([sample["input"] for sample in samples]), "count": len(samples)}


LOADERS: dict[str, Callable[[], DataLoader[Any]]] = {
    "workers": lambda: DataLoader(Squares(), batch_size=4, num_workers=2),
    "workers that stay": lambda: DataLoader(
        Squares(), batch_size=4, num_workers=1, persistent_workers=True, timeout=60
    ),
    "no workers": lambda: DataLoader(Squares(), batch_size=4),
    "a generator": lambda: DataLoader(
        Squares(), batch_size=4, num_workers=1, generator=torch.Generator().manual_seed(2)
    ),
    "a function of its own": lambda: DataLoader(
        Squares(), batch_size=4, num_workers=1, collate_fn=with_labels, drop_last=True
    ),
    "a subset": lambda: DataLoader(Subset(Squares(), [5, 3, 8]), batch_size=2, num_workers=1),
}  # fmt: skip


@pytest.mark.parametrize("name", cases(LOADERS, ("workers", "workers that stay", "no workers")))
def test_evaluations_are_as_the_script_reads_them(started: StartUnder, name: str) -> None:
    theirs = passes(LOADERS[name]())
    now = started()
    made = LOADERS[name]()
    assert same_batch(passes(made), theirs)
    assert now.counted == (PASSES - 1) * len(made)


@pytest.mark.parametrize("workers", [0, 2])
def test_in_combination_with_batched_to_tensor_whole_batches_are_kept(
    started_under: StartUnder, workers: int
) -> None:
    dataset = BytePictures()
    del dataset.transform.transforms[0]  # which draws
    made = DataLoader(dataset, batch_size=8, num_workers=workers)
    theirs = passes(made)
    now = started_under(Plan({"batched_to_tensor": {}, **PLAN.techniques}))
    assert same_batch(passes(made), theirs)
    evidence = now.proof("evaluation_in_ram").evidence
    assert evidence.startswith(f"{(PASSES - 1) * len(made)} batches of evaluations came from memory")


@pytest.mark.parametrize("name", ["workers", "workers that stay", "a generator"])
def test_in_combination_with_workers_that_stay_rng_states_are_the_scripts(
    started_under: StartUnder, name: str
) -> None:
    theirs = passes(LOADERS[name]())
    now = started_under(Plan({**PLAN.techniques, "persistent_workers": {}}))
    assert same_batch(passes(LOADERS[name]()), theirs)
    assert now.proof("evaluation_in_ram").effective
    assert now.proof().effective


def evaluations(made: Callable[[], DataLoader[Any]]) -> list[Any]:
    """Batches of several, each of which reads a loader of its own."""
    with torch.no_grad():
        return [batch for _ in range(PASSES) for batch in made()]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_that_each_evaluation_makes_anew_is_served(started: StartUnder, workers: int) -> None:
    data = Squares()

    def make() -> DataLoader[Any]:
        def collate(samples: list[dict[str, Any]]) -> dict[str, Any]:
            return with_labels(samples)

        return DataLoader(data, batch_size=4, num_workers=workers, collate_fn=collate)

    theirs = evaluations(make)
    now = started()
    assert same_batch(evaluations(make), theirs)
    assert now.counted == (PASSES - 1) * len(make())


@pytest.mark.thorough
def test_loaders_that_divide_one_data_set_otherwise_have_batches_of_their_own(started: StartUnder) -> None:
    data, now = Squares(), started()
    several: list[dict[str, Any]] = [
        {"batch_size": 4},
        {"batch_size": 7},
        {"batch_size": 7, "collate_fn": list},
    ]
    for _ in range(PASSES):
        with torch.no_grad():
            sizes = [len(batch) for options in several for batch in DataLoader(data, **options)]
    assert sizes == [2] * 6 + [7] * 2  # of dicts with two entries, and of lists
    assert now.counted == (PASSES - 1) * len(sizes)


def test_a_new_loader_whose_workers_stay_is_none_of_an_earlier_ones(started: StartUnder) -> None:
    """They may have been started while nothing watched them."""
    data = Squares()
    now = started()
    evaluations(lambda: DataLoader(data, batch_size=4, num_workers=1, persistent_workers=True))
    assert now.counted == 0


class Large(Squares):
    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"input": torch.full((2**16,), float(index))}


@pytest.mark.parametrize("data", [Large, lambda: list(torch.ones(SIZE, 2**16))])
def test_data_that_each_evaluation_makes_anew_is_not_held(
    started: StartUnder, data: Callable[[], Any]
) -> None:
    now = started()
    evaluations(lambda: DataLoader(data(), batch_size=4))
    gc.collect()
    assert now.proof().evidence == (
        "0 batches of evaluations came from memory, where 0.0 MiB are kept; "
        "no evaluation read a data set that an earlier one had read to its end"
    )


def test_no_worker_is_started_for_batches_from_memory(started: StartUnder) -> None:
    started()
    made = DataLoader(Squares(), batch_size=4, num_workers=2)
    own = dict(vars(made))
    with torch.inference_mode():
        list(made)
        iterator: Any = iter(made)
    assert type(iterator).__name__ == "_SingleProcessDataLoaderIter"
    assert not next(iterator)["input"].is_inference()
    assert vars(made) == own


@pytest.mark.parametrize(
    ("other", "batches", "asked_for"),
    [
        ("dataset_in_ram", 8, 0),
        ("batched_fetch", 8, 0),
        ("sample_store", 8, 4),  # what is kept comes from there
        ("ranks", 0, 12),
    ],
)
def test_others_stand_back_from_what_is_kept(
    started: StartUnder, other: str, batches: int, asked_for: int
) -> None:
    now = started()
    asked: list[object] = []
    now.training.fetch_providers[other] = lambda dataset, indices, collate: asked.append(indices)
    passes(LOADERS["no workers"]())
    assert (now.counted, len(asked)) == (batches, asked_for)


# ---- what is not given from memory
def set_scale(number: int, dataset: Any) -> None:
    dataset.scale = float(number)


def test_data_that_the_script_changes_is_read_again(started: StartUnder) -> None:
    def make() -> DataLoader[Any]:
        return DataLoader(Squares(), batch_size=4, num_workers=1)

    theirs = passes(make(), set_scale)
    now = started()
    assert same_batch(passes(make(), set_scale), theirs)
    assert now.counted == 0


class Falling(Squares):
    """One sample cannot be read: another is drawn in its place."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        return super().__getitem__(random.randrange(4) if index == 6 else index)


class Failing(Squares):
    """One sample cannot be read: another is taken in its place."""

    def __getitem__(self, index: int) -> dict[str, Any]:
        try:
            if index == 6:
                raise OSError("a broken file")
        except OSError:
            return super().__getitem__(0)
        return super().__getitem__(index)


class Clocked(Squares):
    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"input": torch.full((3,), time.perf_counter_ns() % 2**20 / 1.0), "name": ""}


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Random, "draws random numbers"),
        (OwnRandom, "draws random numbers"),
        (Falling, "draws random numbers"),
        (Failing, "meets errors (OSError)"),
    ],
)
def test_data_that_is_not_the_same_each_time(
    started: StartUnder, kind: type[Squares], reason: str, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it is none of the batches that are made again to prove it."""
    monkeypatch.setattr(kept_batches, "_PROVEN_AT_ONCE", 2)

    def make() -> DataLoader[Any]:
        random.seed(3)
        return DataLoader(kind(), batch_size=4, num_workers=workers)

    theirs = passes(make())
    now = started()
    assert same_batch(passes(make()), theirs)
    assert now.counted == 0
    assert reason in now.proof().evidence
    assert not now.proof().effective


def test_what_differs_though_nothing_is_drawn(started: StartUnder) -> None:
    now = started()
    passes(DataLoader(Clocked(), batch_size=4, num_workers=1))
    assert now.counted == 0
    assert "batch 0 of Clocked differs when it is made again" in now.proof().evidence


def test_workers_that_were_not_watched_from_their_start_are_left_alone(started: StartUnder) -> None:
    now = started()
    made = DataLoader(Falling(), batch_size=4, num_workers=1, persistent_workers=True)
    next(iter(made))  # by a training, for all that is known
    passes(made)
    assert now.counted == 0
    assert "cannot be watched" in now.proof().evidence


@pytest.mark.thorough
def test_workers_that_are_started_anew_are_watched(started: StartUnder) -> None:
    def make(kind: type[Squares]) -> DataLoader[Any]:
        return DataLoader(kind(), batch_size=4, num_workers=1, multiprocessing_context="spawn")

    now = started()
    falling, squares = make(Falling), make(Squares)
    with torch.no_grad():
        list(falling)
        assert "draws random numbers" in now.proof().evidence
        assert same_batch(list(squares), list(squares))
    assert now.counted == 4


def test_a_view_of_something_large_is_kept_by_itself(started: StartUnder) -> None:
    now = started(available_bytes=400_000)
    whole = torch.arange(100_000.0).reshape(100, 1000)

    def cut(samples: list[dict[str, Any]]) -> dict[str, Any]:
        return {"input": whole[: len(samples)].t()[:10], "name": [sample["name"] for sample in samples]}

    theirs = [whole[:4].t()[:10], whole[:2].t()[:10]]
    made = DataLoader(Squares(), batch_size=4, collate_fn=cut)
    for _ in range(PASSES):
        with torch.no_grad():
            batches = [batch["input"] for batch in made]
        assert same_batch([batches[0], batches[-1]], theirs)
    assert batches[0].untyped_storage().nbytes() == 4 * (9 + 3 * 1000 + 1)
    assert now.counted == (PASSES - 1) * len(made)


def test_what_lies_elsewhere_than_in_main_memory_is_left_there(started: StartUnder) -> None:
    now = started()

    def moved(samples: list[dict[str, Any]]) -> dict[str, Any]:
        return {"input": torch.stack([sample["input"] for sample in samples]).to("meta")}

    passes(DataLoader(Squares(), batch_size=4, collate_fn=moved))
    assert now.counted == 0
    assert "are on meta already" in now.proof().evidence


@pytest.mark.parametrize("options", [{"shuffle": True}, {"sampler": list(range(SIZE))}])
def test_another_order_than_the_datas_own_is_left_alone(started: StartUnder, options: Any) -> None:
    now = started()
    passes(DataLoader(Squares(), batch_size=4, **options))
    assert now.counted == 0


def test_what_a_training_reads_is_left_alone(started: StartUnder) -> None:
    now = started()
    data = TensorDataset(torch.rand(SIZE, 3))
    made = DataLoader(data, batch_size=4)
    for _ in range(PASSES):
        for _ in made:
            now.hooks.loaders.batch_trained()
    assert now.counted == 0


def test_an_evaluation_that_is_never_read_to_its_end_is_not_kept(started: StartUnder) -> None:
    now = started()
    made = DataLoader(Squares(), batch_size=4)
    for _ in range(4):
        with torch.no_grad():
            next(iter(made))
    assert now.counted == 0
    assert "not read to its end" in now.proof().evidence


def test_without_room_nothing_is_kept(started: StartUnder) -> None:
    now = started(available_bytes=100)
    passes(LOADERS["no workers"]())
    assert now.counted == 0
    assert "no room" in now.proof().evidence


def test_when_the_seams_are_undone_the_script_reads_by_itself(started: StartUnder) -> None:
    now = started()
    made = LOADERS["no workers"]()
    with torch.no_grad():
        list(made)
    now.seams.undo_all()
    passes(made)
    assert now.counted == 0


# ---- in a training
def trained(bench: Workbench, plan: Plan) -> Any:
    """A training that is evaluated after each epoch: the evaluations, and what the training came to."""
    data = DataLoader(Pictures(), batch_size=16, num_workers=1)
    found: list[Any] = []
    own_train = bench.train

    def train(steps: int) -> list[float]:
        losses = []
        for _ in range(PASSES):
            losses += own_train(5)
            with torch.no_grad():
                found.extend(bench.model(inputs).sum().item() for inputs, _ in data)
        return losses

    bench.train = train  # type: ignore[method-assign]
    return found, trained_from_the_start(bench, plan)


def test_a_process_that_starts_under_it_trains_and_evaluates_the_same() -> None:
    told = []
    for plan in (BASELINE, PLAN):
        with workbench() as bench:
            told.append(trained(bench, plan))
    assert told[0] == told[1]
    assert len(told[0][0]) == 3 * PASSES


# ---- on paper
@pytest.mark.parametrize(
    ("loaders", "reason"),
    [
        pytest.param((loader(training=False, iterable=True, samples=None),), "as a stream", id="a stream"),
        pytest.param((loader(training=False, samples=10**7),), "more than 20% of the", id="too large"),
        pytest.param((loader(training=False, random="it draws"),), "it draws", id="random"),
    ],
)
def test_what_it_refuses(loaders: Any, reason: str) -> None:
    (found,) = EvaluationInRam.refuse(facts(machine(), loaders=loaders))
    assert reason in found


def test_it_applies_to_an_evaluation_with_indices() -> None:
    assert EvaluationInRam.refuse(facts(loaders=(loader(), loader(training=False, workers=2)))) == []


@pytest.mark.parametrize(("evaluations", "refused"), [(0, False), (2, True)])
def test_what_was_not_seen_yet_may_come(evaluations: int, refused: bool) -> None:
    run = WatchedRun(9.0, ended=False, parts=(Part("evaluation", 1.0 * evaluations, evaluations),))
    assert bool(EvaluationInRam.refuse(facts(run=run))) is refused


def test_an_evaluation_that_looks_like_a_training_is_told() -> None:
    run = WatchedRun(9.0, ended=True, parts=(Part("evaluation", 1.0, 2),))
    (reason,) = EvaluationInRam.refuse(facts(run=run, uses=(RECORDS_EVALUATIONS,)))
    assert "records gradients" in reason


def test_where_nothing_was_watched_nothing_is_known() -> None:
    assert EvaluationInRam.refuse(facts()) == ["it is not known how the script evaluates"]


@pytest.mark.parametrize("made", [True, False])
def test_a_script_without_any_loader_has_none_for_evaluation(made: bool) -> None:
    """Its evaluation need not have been seen to know that: 10 s of a tune went by looking for one."""
    run, uses = WatchedRun(9.0, ended=False, parts=()), (MAKES_LOADERS,) if made else ()
    watched = facts(steps=(step(),), run=run, loaders=(), uses=uses)
    assert EvaluationInRam.refuse(watched) == ([] if made else ["the script has made no DataLoader"])
