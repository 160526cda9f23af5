"""Causes from made-up facts: what is found, how much it costs, and what it suggests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hasten.causes import (
    compute,
    copies,
    debugging,
    double_precision,
    find_causes,
    input,
    loop,
    loss,
    optimizer,
    overhead,
    padding,
    rollouts,
    threads,
    waiting,
    workers,
)
from hasten.records.facts import Facts
from hasten.records.observation import Leftover, Processors, Wait
from hasten.records.whole_run import Part, WatchedRun
from hasten.tuning.candidates import choose
from tests.bench.made_up import facts, loader, root, step, watched_run
from tests.bench.made_up import optimizer as an_optimizer


def facts_with(shares: dict[str, float], **more: Any) -> Facts:
    """Thirty steps whose time goes where ``shares`` say."""
    return facts(steps=tuple(step(shares=shares) for _ in range(30)), **more)


def updating(**more: Any) -> Facts:
    """Steps of which nothing is lost: all of their time is a fused update's."""
    return facts_with({"optimizer": 1.0}, optimizers=(an_optimizer(fused=True),), **more)


def test_a_step_that_waits_for_data() -> None:
    cause = input.look(facts_with({"data": 0.6}))
    assert cause is not None
    assert cause.share == pytest.approx(0.6)
    assert cause.techniques[:3] == ("dataset_in_ram", "batched_fetch", "sample_store")
    assert cause.techniques[3:6] == ("batched_to_tensor", "native_resize", "loader_workers")
    assert set(cause.techniques[6:]) == {"pin_memory", "device_prefetch", "uint8_transfer"}
    assert "60% of a step is waiting for data" in cause.evidence
    assert "Pictures sample by sample in the training process" in cause.evidence


def test_the_evidence_names_the_training_loaders_and_their_workers() -> None:
    loaders = (loader(dataset="Images", workers=3), loader(dataset="Held out", training=False))
    cause = input.look(facts_with({"data": 0.6}, loaders=loaders))
    assert cause is not None
    assert "Images by 3 worker processes" in cause.evidence
    assert "Held out" not in cause.evidence


def test_a_data_set_that_gives_whole_batches_is_told_as_it_is() -> None:
    cause = input.look(facts_with({"data": 0.6}, loaders=(loader(default_fetch=False),)))
    assert cause is not None
    assert cause.evidence.endswith("waiting for data: Pictures in the training process")


def test_data_without_a_known_loader_is_a_cause_all_the_same() -> None:
    cause = input.look(facts_with({"data": 0.6}, loaders=()))
    assert cause is not None
    assert cause.evidence.endswith("waiting for data: a loader")


def test_loaders_that_are_alike_are_named_once() -> None:
    loaders = (loader(dataset="Images", samples=100), loader(dataset="Images", samples=90))
    cause = input.look(facts_with({"data": 0.6}, loaders=loaders))
    assert cause is not None
    assert cause.evidence.count("Images") == 1


def test_steps_that_collect_what_is_trained_on_are_told_of() -> None:
    """Of 32 steps of 10 ms, two take 0.5 s: usual ones are a quarter of the time."""
    steps = (step(0.5, evaluations=128), *[step(0.01)] * 15) * 2
    cause = rollouts.look(facts(steps=steps))
    assert cause is not None
    assert cause.share == pytest.approx(0.98 / 1.3)
    assert "75% of the time is beyond that of usual steps, in 2 of 32" in cause.evidence
    assert "(128 in one)" in cause.evidence


def test_evaluations_are_told_of_by_themselves() -> None:
    steps = (step(0.5, evaluations=128), *[step(0.01)] * 15)
    assert rollouts.look(facts(steps=steps, run=watched_run(evaluation=0.5))) is None


def test_passes_without_gradients_in_every_step_are_usual() -> None:
    assert rollouts.look(facts(steps=(step(evaluations=1), step(0.5, evaluations=1)) * 15)) is None


@pytest.mark.parametrize("share", [0.0, 0.049])
def test_data_that_is_soon_there_is_no_cause(share: float) -> None:
    assert input.look(facts_with({"data": share})) is None


def test_a_step_that_computes() -> None:
    roots = (root(dtypes=("float32",)), root(dtypes=("float32", "bfloat16")))
    cause = compute.look(facts_with({"forward": 0.3, "loss": 0.1, "backward": 0.4, "data": 0.2}, roots=roots))
    assert cause is not None
    assert cause.share == pytest.approx(0.8)
    assert cause.techniques == (
        "matmul_convolutions",
        "bf16",
        "channels_last",
        "fast_pooling",
        "compile",
        "malloc",
    )
    assert cause.evidence == "80% of a step is forward, loss and backward, in bfloat16, float32"


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("autocast", "said"),
    [
        ((), "in float32"),
        (("bfloat16",), "in bfloat16 (autocast by the script)"),
        (("float16", "bfloat16"), "in bfloat16, float16 (autocast by the script)"),
    ],
)
def test_the_precision_is_that_of_what_runs(autocast: tuple[str, ...], said: str) -> None:
    cause = compute.look(facts_with({"forward": 0.3, "backward": 0.4}, autocast=autocast))
    assert cause is not None
    assert cause.evidence.endswith(said)


def test_hardly_any_computing_is_no_cause() -> None:
    assert compute.look(facts_with({"forward": 0.05, "backward": 0.04})) is None


def test_a_model_that_computes_padding() -> None:
    cause = padding.look(facts_with({"forward": 0.3, "backward": 0.5, "data": 0.2}, padding=0.625))
    assert cause is not None
    assert cause.share == pytest.approx(0.625 * 0.8)
    assert cause.techniques == ("pad_trim",)
    assert cause.evidence.startswith("62% of the model's computation is padding: ")


@pytest.mark.parametrize("share", [None, 0.0, 0.049])
def test_hardly_any_padding_is_no_cause(share: float | None) -> None:
    assert padding.look(facts_with({"forward": 0.9}, padding=share)) is None


@pytest.mark.parametrize(
    ("share", "order"),
    [(0.3, ["compute", "padding"]), (0.5, ["padding", "compute"]), (0.7, ["padding", "compute"])],
)
def test_what_is_padding_is_not_told_as_compute_too(share: float, order: list[str]) -> None:
    """The larger of the two comes first: a model that computes padding for half of its time loses that."""
    found = find_causes(
        facts_with({"forward": 0.3, "backward": 0.6, "data": 0.04, "optimizer": 0.02}, padding=share)
    )
    assert [cause.name for cause in found] == order
    shares = {cause.name: cause.share for cause in found}
    assert shares == pytest.approx({"padding": 0.9 * share, "compute": 0.9 * (1 - share)})


def test_an_update_that_is_not_fused() -> None:
    optimizers = (an_optimizer(name="SGD"), an_optimizer(name="Adam"), an_optimizer(name="Adam"))
    cause = optimizer.look(facts_with({"optimizer": 0.2}, optimizers=optimizers, step_said=True))
    assert cause is not None
    assert cause.share == pytest.approx(0.2)
    assert cause.techniques == ("fused_optimizer",)
    assert cause.evidence == "20% of a step is the update by Adam, SGD, not fused"


def test_an_optimizer_that_makes_no_step_is_not_named() -> None:
    """As of a script that creates one of each kind, and trains with the one that was asked for."""
    facts = facts_with({"optimizer": 0.2}, optimizers=(an_optimizer(name="Adagrad"), an_optimizer()))
    stepping = tuple(replace(step, signature=(1, 1, 1)) for step in facts.observation.steps)
    cause = optimizer.look(replace(facts, observation=replace(facts.observation, steps=stepping)))
    assert cause is not None
    assert cause.evidence == "20% of a step is the update by Adam, not fused"


def test_an_update_that_has_no_other_form_is_told_as_it_is() -> None:
    cause = optimizer.look(
        facts_with({"optimizer": 0.2}, optimizers=(an_optimizer(name="LBFGS", can_fuse=False),))
    )
    assert cause is not None
    assert cause.evidence == "20% of a step is the update by LBFGS"


def test_an_update_that_is_fused_or_quick_is_no_cause() -> None:
    fused = (an_optimizer(fused=True),)
    assert optimizer.look(facts_with({"optimizer": 0.2}, optimizers=fused)) is None
    assert optimizer.look(facts_with({"optimizer": 0.2}, optimizers=())) is None
    assert optimizer.look(facts_with({"optimizer": 0.02})) is None


@pytest.mark.parametrize(
    ("fused", "how", "techniques"),
    [
        (False, "not fused, in 300 parameter groups", ("fused_optimizer", "merge_groups")),
        (True, "fused, in 300 parameter groups", ("merge_groups",)),
    ],
)
def test_an_update_of_many_groups(fused: bool, how: str, techniques: tuple[str, ...]) -> None:
    many = (an_optimizer(fused=fused, groups=300, distinct_groups=26),)
    cause = optimizer.look(facts_with({"optimizer": 0.2}, optimizers=many))
    assert cause is not None
    assert cause.techniques == techniques
    assert cause.evidence == f"20% of a step is the update by Adam, {how}"


def test_groups_that_are_few_or_all_differ_are_no_cause() -> None:
    for groups, distinct in ((4, 1), (300, 300)):
        fused = (an_optimizer(fused=True, groups=groups, distinct_groups=distinct),)
        assert optimizer.look(facts_with({"optimizer": 0.2}, optimizers=fused)) is None


def test_one_of_two_optimizers_not_fused_is_a_cause() -> None:
    optimizers = (an_optimizer(fused=True), an_optimizer())
    assert optimizer.look(facts_with({"optimizer": 0.2}, optimizers=optimizers, step_said=True)) is not None


def test_more_threads_than_the_quota_lets_run() -> None:
    steps = (step(shares={"forward": 0.9}),) * 30
    cause = threads.look(facts({"logical_cpus": 16, "quota_cpus": 2.0}, threads=16, steps=steps))
    assert cause is not None
    assert cause.evidence == "torch uses 16 threads where 2 can run at once: at most 90% of a step"
    assert cause.techniques == ("threads",)


@pytest.mark.parametrize(("used", "device"), [(2, "cpu"), (1, "cpu"), (16, "cuda:0")])
def test_threads_that_fit_or_do_not_matter_are_no_cause(used: int, device: str) -> None:
    machine = {"logical_cpus": 16, "quota_cpus": 2.0}
    waits = (step(shares={"data": 1.0}),) * 30
    assert threads.look(facts(machine, threads=used, roots=(root(devices=(device,)),), steps=waits)) is None


def test_causes_come_with_the_costliest_first() -> None:
    found = find_causes(facts_with({"data": 0.5, "forward": 0.2, "backward": 0.1, "optimizer": 0.2}))
    assert [cause.name for cause in found] == ["input", "compute", "optimizer"]
    found = find_causes(facts_with({"data": 0.1, "forward": 0.2, "backward": 0.3, "optimizer": 0.4}))
    assert [cause.name for cause in found] == ["compute", "optimizer", "input"]


def test_where_nothing_takes_time_nothing_is_found() -> None:
    assert find_causes(updating()) == []


def test_causes_suggest_only_techniques_that_exist() -> None:
    from hasten.inside.techniques.catalog import CATALOG

    everything = {"data": 0.25, "forward": 0.25, "optimizer": 0.5}
    steps = tuple(step(shares=everything) for _ in range(5))
    found = find_causes(facts({"logical_cpus": 1}, threads=16, steps=steps))
    assert {name for cause in found for name in cause.techniques} <= set(CATALOG)
    assert len(found) == 4


def test_what_is_left_on_for_debugging_is_named_with_its_line() -> None:
    found = (
        Leftover("anomaly detection", "train.py:12", removable=True),
        Leftover("CUDA_LAUNCH_BLOCKING=1", "", removable=False),
    )
    cause = debugging.look(facts(leftovers=found))
    assert cause is not None
    assert cause.techniques == ("debugging_off",)
    assert cause.evidence.endswith("anomaly detection (train.py:12), CUDA_LAUNCH_BLOCKING=1")
    only_reported = debugging.look(facts(leftovers=found[1:]))
    assert only_reported is not None
    assert only_reported.techniques == ()
    assert debugging.look(facts()) is None


def test_lines_at_which_a_step_stands_still() -> None:
    seen = facts_with({"forward": 1.0})
    seconds = seen.observation.steps[0].seconds
    waits = (Wait(".item()", "train.py:9", 1, 0.3 * seconds), Wait("print", "train.py:10", 1, 0.01 * seconds))
    cause = waiting.look(facts_with({"forward": 1.0}, waits=waits))
    assert cause is not None
    assert cause.share == pytest.approx(0.3)
    assert ".item() at train.py:9 (30%)" in cause.evidence
    assert "train.py:10" not in cause.evidence
    assert waiting.look(facts_with({"forward": 1.0}, waits=waits[1:])) is None


def test_who_waits_for_a_gpu_that_computes_loses_nothing() -> None:
    seen = facts_with({"forward": 0.8, "other": 0.2})
    seconds = seen.observation.steps[0].seconds
    on_gpu = (replace(seen.observation.roots[0], devices=("cuda:0",)),)
    waits = (Wait(".item()", "train.py:9", 1, 0.9 * seconds),)
    cause = waiting.look(facts_with({"forward": 0.8, "other": 0.2}, waits=waits, roots=on_gpu))
    assert cause is not None
    assert cause.share == pytest.approx(0.2)
    assert waiting.look(facts_with({"forward": 1.0}, waits=waits, roots=on_gpu)) is None


def test_copies_to_the_device_suggest_page_locked_memory() -> None:
    seen = facts_with({"forward": 0.5, "other": 0.5})
    seconds = seen.observation.steps[0].seconds
    waits = (Wait(".to()", "train.py:9", 2, 0.4 * seconds), Wait(".item()", "train.py:12", 1, 0.1 * seconds))
    both = facts_with({"forward": 0.5, "other": 0.5}, waits=waits)
    cause = copies.look(both)
    assert cause is not None
    assert cause.share == pytest.approx(0.4)
    assert cause.techniques == ("pin_memory", "device_prefetch", "uint8_transfer")
    assert ".to() at train.py:9 (40%)" in cause.evidence
    fetches = waiting.look(both)
    assert fetches is not None
    assert ".to()" not in fetches.evidence


# ---- of the whole run
def with_lines(run: WatchedRun, name: str, *where: str) -> WatchedRun:
    """The run with the lines of its part ``name``."""

    def told(parts: tuple[Part, ...]) -> tuple[Part, ...]:
        return tuple(replace(part, where=where) if part.name == name else part for part in parts)

    return replace(run, parts=told(run.parts), whole_epochs=told(run.whole_epochs))


def test_what_takes_most_of_the_run_comes_first() -> None:
    run = with_lines(
        watched_run(epochs=1, start=50.0, steps=40.0, evaluation=60.0), "evaluation", "train.py:9"
    )
    found = find_causes(facts_with({"data": 0.5, "forward": 0.5}, run=run))
    assert [cause.name for cause in found] == ["evaluation", "input", "compute"]
    assert [cause.share for cause in found] == pytest.approx([0.6, 0.2, 0.2])
    assert found[0].evidence == (
        "60% of an epoch is evaluation (train.py:9); without it, 2.50 times faster, 6.25 at most"
    )
    assert found[1].evidence.startswith("50% of a step is waiting for data: ")
    assert found[1].evidence.endswith("; 20% of an epoch")


def test_of_a_run_that_was_watched_to_its_end_the_start_counts_too() -> None:
    run = watched_run(ended=True, start=50.0, steps=40.0, evaluation=10.0)
    (evaluation, compute) = sorted(find_causes(facts_with({"forward": 1.0}, run=run)), key=lambda c: c.share)
    assert evaluation.evidence.startswith("10% of the run is evaluation; ")
    assert compute.share == pytest.approx(0.4)


def test_steps_that_are_all_of_a_run_keep_their_share() -> None:
    (cause,) = find_causes(
        facts_with(
            {"data": 0.5, "optimizer": 0.5},
            optimizers=(an_optimizer(fused=True),),
            run=watched_run(steps=99.0, output=1.0),
        )
    )
    assert cause.share == pytest.approx(0.5)
    assert "watched" not in cause.evidence


@pytest.mark.parametrize(
    ("part", "name", "said"),
    [
        ("evaluation", "evaluation", "is evaluation"),
        ("first batches", "epochs", "passes before the first batches of epochs"),
        ("epoch turns", "turns", "passes between an epoch's last step and the next epoch's start"),
        ("saving", "saving", "is saving 2 files"),
        ("output", "output", "is printing and logging"),
        ("garbage", "garbage", "garbage collector, which ran 2 times"),
    ],
)
def test_each_part_of_a_run_is_a_cause(part: str, name: str, said: str) -> None:
    (cause, *_) = find_causes(updating(run=watched_run({"steps": 70.0, part: 30.0}, epochs=1)))
    assert cause.name == name
    assert cause.share == pytest.approx(0.3)
    assert said in cause.evidence
    assert "1.43 times faster" in cause.evidence
    assert find_causes(updating(run=watched_run({"steps": 99.0, part: 1.0}, epochs=1))) == []


def test_what_came_once_among_a_few_steps_says_nothing_of_the_run() -> None:
    run = watched_run(steps=70.0, saving=30.0)
    once = replace(run, parts=tuple(replace(part, count=1) for part in run.parts))
    assert [cause.name for cause in find_causes(updating(run=run))] == ["saving"]
    assert find_causes(updating(run=once)) == []


def test_workers_that_start_anew_are_named() -> None:
    run = watched_run({"steps": 50.0, "first batches": 50.0}, epochs=1)
    (cause,) = find_causes(updating(run=run, loaders=(loader(workers=2),)))
    assert "because its loader starts worker processes anew" in cause.evidence
    for others in (loader(), loader(workers=2, training=False)):
        (without,) = find_causes(updating(run=run, loaders=(others,)))
        assert "anew" not in without.evidence


def test_what_a_script_does_between_epochs_is_no_loaders() -> None:
    """Samples of a generator, say. Workers of a loader that starts them anew end there."""
    run = watched_run({"steps": 70.0, "first batches": 5.0, "epoch turns": 25.0}, epochs=1)
    found = find_causes(updating(run=run))
    assert [cause.name for cause in found] == ["turns", "epochs"]
    assert [cause.share for cause in found] == pytest.approx([0.25, 0.05])
    assert not found[0].techniques
    own, workers = find_causes(updating(run=run, loaders=(loader(workers=2),)))
    assert (own.name, workers.name) == ("turns", "epochs")
    assert own.share == pytest.approx(0.20)
    assert workers.share == pytest.approx(0.10), "they end no slower than they start"
    stay = find_causes(updating(run=replace(run, epochs=2), loaders=(loader(workers=2, keeps_workers=True),)))
    assert [cause.share for cause in stay] == pytest.approx([0.25, 0.05])


def test_one_worker_is_one_process() -> None:
    (cause, *_) = find_causes(facts_with({"data": 0.5, "forward": 0.5}, loaders=(loader(workers=1),)))
    assert cause.evidence.endswith(" by 1 worker process")


def test_workers_of_a_single_epoch_start_once() -> None:
    run = watched_run({"steps": 50.0, "first batches": 50.0}, epochs=1, ended=True)
    (cause,) = find_causes(updating(run=run, loaders=(loader(workers=2),)))
    assert "because its loader starts worker processes;" in cause.evidence
    assert "persistent_workers" not in cause.techniques


def test_workers_that_start_once_are_no_cause_by_the_first_epoch() -> None:
    run = watched_run({"steps": 50.0, "first batches": 50.0}, epochs=1)
    stay = (loader(workers=2, keeps_workers=True),)
    assert find_causes(updating(run=run, loaders=stay)) == []
    for known in (replace(run, epochs=2), replace(run, ended=True)):
        (cause,) = find_causes(updating(run=known, loaders=stay))
        assert (cause.name, "anew" in cause.evidence) == ("epochs", False)


def test_prints_are_told_once() -> None:
    """By the run, where it was watched."""
    seconds = updating().observation.steps[0].seconds
    waits = (Wait("print", "train.py:10", 1, 0.4 * seconds),)
    found = find_causes(updating(waits=waits, run=watched_run(steps=60.0, output=40.0)))
    assert [cause.name for cause in found] == ["output"]


# ---- the loop's own code
def test_what_the_loop_does_itself_is_told() -> None:
    cause = loop.look(facts_with({"forward": 0.2, "backward": 0.2}))
    assert cause is not None
    assert cause.share == pytest.approx(0.6)
    assert cause.evidence.startswith("60% of a step is the loop's own code")
    assert loop.look(facts_with({"forward": 0.5, "backward": 0.46})) is None


def test_where_no_trained_module_is_called_the_forward_pass_is_the_loops() -> None:
    """Parameters are plain tensors, or a picture is trained through a frozen network."""
    steps = (step(shares={"backward": 0.4}, signature=(0, 0, 1)),) * 30
    cause = loop.look(facts(steps=steps))
    assert cause is not None
    assert cause.evidence.startswith(
        "60% of a step is the loop's own code, its forward pass included, because"
    )


@pytest.mark.parametrize(("passes", "said"), [(1, "1 forward pass"), (2, "2 forward passes")])
def test_passes_of_a_teacher_are_named_where_the_loop_is_told(passes: int, said: str) -> None:
    steps = (step(shares={"forward": 0.4}, evaluations=passes),) * 30
    cause = loop.look(facts(steps=steps))
    assert cause is not None
    assert f"batches, {said} without gradients included: " in cause.evidence


def test_the_loop_is_not_told_of_what_has_a_name_of_its_own() -> None:
    seconds = facts_with({}).observation.steps[0].seconds
    waits = (Wait(".item()", "train.py:9", 1, 0.3 * seconds),)
    run = watched_run(steps=80.0, output=20.0)
    found = find_causes(facts_with({"forward": 0.3}, waits=waits, run=run))
    shares = {cause.name: cause.share for cause in found}
    assert shares == pytest.approx({"compute": 0.24, "waiting": 0.24, "output": 0.2, "loop": 0.16})


def test_batches_that_the_loop_converts_from_float64_are_told() -> None:
    double = (loader(float64=True), loader(dataset="Held out", float64=True, training=False))
    cause = loop.look(facts_with({"forward": 0.5}, loaders=double))
    assert cause is not None
    assert cause.advice.startswith("Batches of Pictures are in float64, and what is trained is not")
    for more in (
        {"loaders": (loader(),)},
        {"loaders": double, "roots": (root(dtypes=("float64",)),)},
        {"loaders": double, "roots": ()},
    ):
        cause = loop.look(facts_with({"forward": 0.5}, **more))
        assert cause is not None
        assert cause.advice == ""


# ---- threads
def test_too_many_threads_cost_at_most_what_is_computed() -> None:
    """A run that mostly evaluates, or waits for data, does so with any number of threads."""
    machine = {"logical_cpus": 2, "physical_cores": 2}
    facts_ = facts({**machine}, threads=16, steps=(step(shares={"data": 0.8, "forward": 0.2}),) * 30)
    found = find_causes(facts_)
    assert [cause.name for cause in found] == ["input", "threads", "compute"]
    assert found[1].share == pytest.approx(0.2)


def test_fewer_threads_than_cores() -> None:
    machine = {"logical_cpus": 4, "physical_cores": 4}
    seen = facts(machine, threads=1, steps=(step(shares={"forward": 0.4, "backward": 0.4}),) * 30)
    cause = threads.look(seen)
    assert cause is not None
    assert cause.share == pytest.approx(0.8 * 0.75)
    assert cause.evidence.startswith("torch uses 1 of 4 cores: ")
    assert [cause.name for cause in find_causes(seen)][:2] == ["threads", "compute"]


def test_two_threads_of_one_core_are_not_two_cores() -> None:
    machine = {"logical_cpus": 4, "physical_cores": 2}
    seen = facts(machine, threads=2, steps=(step(shares={"forward": 0.9}),) * 30)
    assert threads.look(seen) is None


@pytest.mark.parametrize(
    ("used", "found"),
    [
        (Processors(1.1, 0.0, waiting=0.9, others=0.9), True),
        (Processors(0.8, 0.7, waiting=0.9, others=0.5), False),  # the loader's worker processes have it
        (Processors(1.9, 0.0, waiting=0.1, others=0.1), False),
        (Processors(1.9, 0.0, waiting=2.5), False),  # for other threads of the script
        (Processors(1.5, 0.0, waiting=0.5), False),  # a quota of one and a half stopped them
        (None, False),
    ],
)
def test_threads_that_wait_for_other_programs_come_first(used: Processors | None, found: bool) -> None:
    shares = {"forward": 0.4, "backward": 0.3, "optimizer": 0.1}
    seen = facts({"logical_cpus": 2}, threads=2, steps=(step(shares=shares),) * 30, processors=used)
    causes = find_causes(seen)
    assert (causes[0].name == "threads") is found
    if found:
        assert causes[0].evidence == (
            "of torch's 2 threads, 0.9 wait for a processor, as other programs keep it busy: at most 80% of "
            "a step"
        )
        assert causes[0].advice == "Stop these or, while they run, set OMP_NUM_THREADS=1"
    candidates, _ = choose(seen, causes, "close")
    assert (candidates[0].technique.name == "threads") is found
    assert [one.technique.name for one in candidates if one.first] == ["threads"] * found


# ---- precision
def test_float64_is_told_before_the_computing_that_is_left() -> None:
    seen = facts_with({"forward": 0.4, "backward": 0.4}, roots=(root(dtypes=("float64",)),))
    found = {cause.name: cause.share for cause in find_causes(seen)}
    assert list(found)[:2] == ["float64", "compute"]
    assert found["float64"] == pytest.approx(0.4)
    assert found["compute"] == pytest.approx(0.4)


@pytest.mark.parametrize(
    "more",
    [
        {"roots": (root(dtypes=("float32", "float64")),)},
        {"roots": (root(dtypes=("float64",)), root())},
        {"roots": (root(dtypes=("float64",)),), "autocast": ("bfloat16",)},
    ],
)
def test_float64_is_no_cause_where_not_all_is_computed_in_it(more: dict[str, Any]) -> None:
    assert double_precision.look(facts_with({"forward": 0.9}, **more)) is None


# ---- workers
@pytest.mark.parametrize(
    ("used", "share"),
    [
        (Processors(own=2.7, workers=0.9), 0.25 * 0.8),
        (Processors(own=1.0, workers=0.9), None),  # of four: two are idle
        (Processors(own=3.9, workers=0.1), None),
        (None, None),
    ],
)
def test_workers_of_a_loader_take_processors_from_the_training(
    used: Processors | None, share: float | None
) -> None:
    """What a step waits for data is told by itself."""
    shares = {"data": 0.2, "forward": 0.8}
    seen = facts_with(shares, processors=used, loaders=(loader(workers=3),))
    cause = workers.look(seen)
    assert (cause.share if cause is not None else None) == (pytest.approx(share) if share else None)
    if cause is not None:
        assert "by 3 worker processes): they keep 0.9 of 4 processors busy" in cause.evidence
        assert "loader_workers" in cause.techniques
    assert workers.look(facts_with(shares, processors=used, loaders=(loader(workers=0),))) is None
    on_gpu = (root(devices=("cuda:0",)),)
    assert workers.look(replace(seen, observation=replace(seen.observation, roots=on_gpu))) is None


@pytest.mark.parametrize(
    ("threads", "waiting", "told"), [(2, 0.8, "0.8"), (2, 3.1, "2.0"), (2, 0.2, ""), (1, 0.8, "")]
)
def test_fewer_threads_are_a_remedy_where_workers_keep_them_waiting(
    threads: int, waiting: float, told: str
) -> None:
    seen = facts_with(
        {"data": 0.2, "forward": 0.8},
        threads=threads,
        processors=Processors(own=2.7, workers=0.9, waiting=waiting),
        loaders=(loader(workers=3),),
    )
    cause = workers.look(seen)
    assert cause is not None
    assert ("threads" in cause.techniques) is bool(told)
    assert cause.evidence.endswith(f"of torch's 2 threads, {told} wait for one") is bool(told)


# ---- overhead
def test_many_small_operators_are_told_instead_of_computing() -> None:
    """Of 10 ms, 8 are spent on 400 operators of 20 us."""
    seen = facts_with({"forward": 0.4, "backward": 0.4}, operators=400)
    names = {cause.name: cause for cause in find_causes(seen)}
    assert "compute" not in names
    assert names["overhead"].share == pytest.approx(0.8)
    assert "in 400 operators of 20 us both ways" in names["overhead"].evidence


@pytest.mark.parametrize(("operators", "launches"), [(400, True), (140, True), (80, False)])
def test_on_a_gpu_small_operators_are_launches(operators: int, launches: bool) -> None:
    on_gpu = (root(devices=("cuda:0",)),)
    seen = facts_with({"forward": 0.4, "backward": 0.4}, operators=operators, roots=on_gpu)
    names = {cause.name: cause for cause in find_causes(seen)}
    assert ("overhead" in names, "compute" in names) == (launches, not launches)
    if launches:
        assert "the GPU waits while they are launched" in names["overhead"].evidence
        assert "compile" in names["overhead"].techniques


def test_where_no_module_and_no_optimizer_tells_the_device_it_is_the_cpu_without_a_gpu() -> None:
    """Weights that the script updates by hand, as the first part of PyTorch's tutorial on torch.nn does."""
    seen = facts_with({"forward": 0.4, "backward": 0.4}, operators=400, roots=(), optimizers=())
    assert "most of that is call overhead" in {c.name: c for c in find_causes(seen)}["overhead"].evidence
    assert seen.on_cpu
    with_a_gpu = replace(seen, machine=replace(seen.machine, accelerators=("H200",)))
    assert (with_a_gpu.on_cpu, with_a_gpu.on_gpu) == (False, False)


@pytest.mark.parametrize("operators", [None, 0, 100])
def test_large_operators_compute(operators: int | None) -> None:
    seen = facts_with({"forward": 0.4, "backward": 0.4}, operators=operators)
    assert overhead.look(seen) is None
    assert "compute" in {cause.name for cause in find_causes(seen)}


def test_operators_are_those_of_all_backward_passes_of_a_step() -> None:
    steps = (step(shares={"forward": 0.4, "backward": 0.4}, signature=(0, 4, 4)),) * 30
    assert overhead.look(facts(steps=steps, operators=100)) is not None


@pytest.mark.parametrize(
    ("passes", "samples", "operators", "said"),
    [
        (1, 64, 40, ""),
        (1, None, 40, ""),
        (1, 64, 400, "If the model goes through samples or positions one by one"),
        (9, 64, 40, "Compute all samples"),
        (1, 1, 40, "Compute all samples"),
    ],
)
def test_computing_all_at_once_is_advised_where_a_step_does_not(
    passes: int, samples: int | None, operators: int, said: str
) -> None:
    usual = step(0.0005, shares={"forward": 0.4, "backward": 0.4}, samples=samples, signature=(0, passes, 1))
    cause = overhead.look(facts(steps=(usual,) * 30, operators=operators))
    assert cause is not None
    assert cause.advice.startswith(said)
    assert bool(cause.advice) == bool(said)


@pytest.mark.parametrize(("models", "signature"), [(3, (0, 3, 1)), (1, (0, 2, 2))])
def test_a_pass_of_each_of_several_models_or_for_each_backward_pass_is_no_loop(
    models: int, signature: tuple[int, int, int]
) -> None:
    usual = step(0.001, shares={"forward": 0.4, "backward": 0.4}, samples=64, signature=signature)
    cause = overhead.look(facts(steps=(usual,) * 30, operators=40, roots=(root(),) * models))
    assert cause is not None
    assert cause.advice == ""


# ---- debugging
def test_what_watches_the_passes_alone_costs_no_more_than_they_take() -> None:
    anomaly = Leftover("anomaly detection", "train.py:12", removable=True)
    profiler = Leftover("profiler", "train.py:13", removable=True)
    run = watched_run(epochs=1, steps=50.0, evaluation=50.0)
    shares = {"forward": 0.4, "backward": 0.4}
    found = find_causes(facts_with(shares, leftovers=(anomaly,), run=run))
    assert [cause.name for cause in found][:2] == ["evaluation", "debugging"]
    assert found[1].share == pytest.approx(0.4)
    both = debugging.look(facts_with(shares, leftovers=(anomaly, profiler), run=run))
    assert both is not None
    assert both.share == 1.0


def test_flags_that_may_cost_nothing_do_not_come_before_what_is_seen_to_take_time() -> None:
    flag = Leftover("torch.use_deterministic_algorithms", "", removable=False)
    found = find_causes(facts_with({"data": 0.8, "forward": 0.2}, leftovers=(flag,)))
    assert [cause.name for cause in found] == ["input", "debugging", "compute"]


# ---- the loss
def test_a_loss_that_takes_longer_than_the_model_is_told_apart() -> None:
    """What the backward pass takes beyond the forward pass's time may be the loss's, too."""
    found = find_causes(facts_with({"forward": 0.1, "loss": 0.5, "backward": 0.4}))
    assert [cause.name for cause in found] == ["loss", "compute"]
    assert [cause.share for cause in found] == pytest.approx([0.8, 0.2])


@pytest.mark.parametrize(("forward", "loss_part"), [(0.3, 0.3), (0.05, 0.19)])
def test_a_usual_loss_is_computing(forward: float, loss_part: float) -> None:
    seen = facts_with({"forward": forward, "loss": loss_part, "backward": 0.4})
    assert loss.look(seen) is None
    cause = compute.look(seen)
    assert cause is not None
    assert cause.share == pytest.approx(forward + loss_part + 0.4)


def test_small_operators_are_not_shared_among_threads() -> None:
    machine = {"logical_cpus": 4, "physical_cores": 4}
    steps = (step(shares={"forward": 0.4, "backward": 0.4}),) * 30
    assert threads.look(facts(machine, threads=1, steps=steps, operators=400)) is None


def test_without_workers_the_first_batch_of_an_epoch_is_made_as_any_other() -> None:
    run = watched_run({"steps": 50.0, "first batches": 30.0, "epoch turns": 20.0}, epochs=1)
    seen = facts_with({"data": 0.8, "forward": 0.2}, run=run)
    found = {cause.name: cause for cause in find_causes(seen)}
    assert found["input"].share == pytest.approx(0.8 * 0.5 + 0.3)
    assert found["input"].evidence.endswith("; 70% of an epoch, first batches included")
    assert found["turns"].share == pytest.approx(0.2)
    assert "epochs" not in found


@pytest.mark.parametrize(("data", "workers"), [(0.8, 2), (0.04, 0)])
def test_a_first_batch_that_alone_is_waited_for_is_an_epochs_beginning(data: float, workers: int) -> None:
    run = watched_run({"steps": 50.0, "first batches": 50.0}, epochs=1)
    seen = facts_with({"data": data, "forward": 1 - data}, run=run, loaders=(loader(workers=workers),))
    shares = {cause.name: cause.share for cause in find_causes(seen)}
    assert shares["epochs"] == pytest.approx(0.5)
    assert shares.get("input", 0.0) == pytest.approx(0.4 if workers else 0.0)
