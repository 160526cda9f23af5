"""Reports as plain text."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hasten.records.cause import Cause
from hasten.records.caution import Caution
from hasten.records.comparison import SingleSteps, StepDeparture
from hasten.records.conclusion import Conclusion, Looks
from hasten.records.observation import STEPS_IN_BACKWARD, GpuMemory, Observation
from hasten.records.plan import Plan
from hasten.records.result import TuneResult
from hasten.records.trial import Ratio
from hasten.records.verdict import GuardVerdict, Invariants, TooLittleTime
from hasten.report.conclusion import conclusion_words
from hasten.report.console import open_console
from hasten.report.terminal import print_profile, print_tune

from ..bench.made_up import loader, observation, optimizer, root, step, watched_run
from .made_up import GAIN, GUARD_FAILED, HELD, NO_GAIN, NOT_CHECKED

PLAN_PATH = Path(".hasten/train/plan.toml")


def tune_report(result: TuneResult) -> str:
    stream = io.StringIO()
    print_tune(result, open_console(stream, 200), "train.py", PLAN_PATH)
    return stream.getvalue()


def profile_report(observed: Observation, *causes: Cause) -> str:
    stream = io.StringIO()
    print_profile(observed, list(causes), open_console(stream, 200))
    return stream.getvalue()


def test_a_gain() -> None:
    assert [line.rstrip() for line in tune_report(GAIN).splitlines()] == [
        "",
        "Plain, a step takes 14.2 ms, 4,507 samples a second.",
        "  90% of a step is forward, loss and backward",
        "",
        "tried              times faster (95%)    measured  with            result",
        "bf16               1.25x (1.22 to 1.28)  9 ABBA    -               kept: a gain",
        "threads (count=2)  1.25x (1.18 to 1.33)  6 pairs   bf16            kept: a gain",
        "channels_last      -                     -         threads + bf16  raised KeyError: '[/x]' [b]",
        "",
        "Time of a step by number of threads, with bf16:",
        "     2      8 ms  ################################",
        "     4     10 ms  ########################################  (as torch chooses)",
        "  Not measured with 1 thread: the budget ended before.",
        "  More than 2 threads gain nothing.",
        "",
        "Do not apply here: malloc. To see why:",
        "  hasten techniques train.py",
        "",
        "The whole plan trains 1.25 times faster (1.18 to 1.33, 6 pairs of fresh processes).",
        "Plan: threads (count=2), bf16.",
        "It pays 2 s once to set up, earned back after 700 steps.",
        "Accuracy held over 120 steps: same batches, flags, learning rates and random draws; "
        "the loss stays within 0.30% of plain's, where rounding explains 1.2%.",
        "Tuned in 100 s on Pencil and Paper 9000, 4 cores, 16 GiB, Linux x86_64, torch 2.13.0.",
        "",
        "The plan is in .hasten/train/plan.toml. Train under it:",
        "  hasten run train.py",
    ]


def test_no_name_of_a_technique_is_broken_in_two() -> None:
    along = Plan({"malloc": {}, "graph_free_evaluation": {}})
    tried = (replace(GAIN.tried[0], against=along), *GAIN.tried[1:])
    stream = io.StringIO()
    print_tune(replace(GAIN, tried=tried), open_console(stream, 80), "train.py", Path("plan.toml"))
    assert "graph_free_evaluation " in stream.getvalue()


def test_the_next_command_can_be_copied_whatever_its_length() -> None:
    stream, command = io.StringIO(), "train.py " + " ".join(f"--option-{number} 0.5" for number in range(20))
    print_tune(GAIN, open_console(stream, 80), command, Path("plan.toml"))
    lines = stream.getvalue().splitlines()
    assert lines[-1] == f"  hasten run {command}"
    assert f"  hasten techniques {command}" in lines


def test_what_is_no_command_is_wrapped() -> None:
    stream = io.StringIO()
    print_tune(NOT_CHECKED, open_console(stream, 80), "train.py", Path("plan.toml"))
    assert max(len(line) for line in stream.getvalue().splitlines()) <= 80


def test_rows_of_earlier_tunes_are_told() -> None:
    tried = (replace(GAIN.tried[0], earlier=True), *GAIN.tried[1:])
    report = tune_report(replace(GAIN, tried=tried))
    assert report.count("(from an earlier tune)") == 1
    assert "\n1 of 3 rows come from earlier tunes of the same training, within a day; the claim" in report
    assert "hasten tune --fresh" in report
    assert "earlier tune" not in tune_report(GAIN)


def test_a_set_up_that_lasts() -> None:
    report = tune_report(replace(GAIN, lasting_seconds=1.5))
    assert (
        "It pays 2 s once to set up, earned back after 700 steps; "
        "later runs skip 1.5 s of that: it is cached on disk."
    ) in report


def test_a_set_up_too_short_to_notice_is_not_told() -> None:
    assert "to set up" not in tune_report(replace(GAIN, setup_seconds=2e-4, breakeven_steps=1))
    one = tune_report(replace(GAIN, breakeven_steps=1))
    assert "once to set up, earned back after 1 step." in one


def test_where_another_training_comes_first_it_is_said() -> None:
    assert GAIN.guard is not None
    report = tune_report(replace(GAIN, guard=replace(GAIN.guard, after=32)))
    assert (
        "Accuracy held over 120 steps from step 33 on (its losses decide how long the part before that "
        "takes): same batches," in report
    )


def test_a_gain_over_whole_stretches_of_the_run() -> None:
    found = replace(GAIN, parts=("evaluation", "saving"), steps_ratio=Ratio(1.0, 0.98, 1.02, 6, "pairs"))
    report = tune_report(found)
    assert (
        "The whole plan trains, evaluation and saving included, 1.25 times faster (1.18 to 1.33, 6 pairs of "
        "fresh processes)." in report
    )
    assert (
        "That is over whole stretches of the run, with everything in them; regular steps alone: 1.00x "
        "(0.98 to 1.02)." in report
    )


def test_what_processes_besides_the_pairs_showed() -> None:
    report = " ".join(tune_report(replace(GAIN, looks=Looks(4, 1))).split())
    assert "6 pairs of fresh processes; 4 further processes under the plan, 1 of them slow)." in report


@pytest.mark.parametrize("result", [NO_GAIN, GUARD_FAILED], ids=lambda r: r.reason.code)
def test_no_gain(result: TuneResult) -> None:
    report = tune_report(result)
    assert f"No gain found: {conclusion_words(result)}." in report
    assert report.endswith("Train as before; nothing tried makes it faster here.\n")
    assert "plan.toml" not in report
    assert "pays" not in report


def test_without_a_gain_only_rows_of_what_was_tried_speak_of_faster() -> None:
    """A claim is a bold line of its own, and none is made."""
    assert not re.search(r"trains [\d.]+ times faster", tune_report(NO_GAIN))


def test_the_guard_failed() -> None:
    report = " ".join(tune_report(GUARD_FAILED).split())
    said = "the loss differs from the baseline's by 5.000%, where rounding explains 1.2%"
    assert f"Accuracy is not held: {said}." in report
    assert "Accuracy held" not in report


@pytest.mark.attack("truth")
def test_accuracy_that_could_not_be_checked_is_neither_held_nor_lost() -> None:
    report = " ".join(tune_report(NOT_CHECKED).split())
    assert "Nothing is claimed: accuracy could not be checked: the script's process was killed" in report
    assert "No plan is confirmed. The accuracy check holds three trainings in memory at once" in report
    for claim in ("Accuracy held", "Accuracy is not held", "No gain found", "Train as before", "plan.toml"):
        assert claim not in report


def test_other_random_draws_are_not_called_the_same() -> None:
    """Under a plan that draws different numbers, batches and RNG states were not compared."""
    verdict = replace(HELD, invariants=Invariants(("modes", "rates", "optimizer")))
    report = tune_report(replace(GAIN, guard=verdict))
    assert "same flags and learning rates, different draws from the same distributions; the loss" in report
    assert "random draws;" not in report


STEPS = SingleSteps(
    held=True,
    steps=(1, 2, 40, 81, 120),
    compared={"gradient": StepDeparture(0.9981, 0.02, True, 40, 0.001, 0.02)},
)


def test_losses_that_count_as_equal_are_not_said_to_be_explained() -> None:
    curve = replace(HELD.loss_curve, deviation=0.00026, tolerance=0.0001)
    report = tune_report(replace(GAIN, guard=replace(HELD, loss_curve=curve)))
    assert "within 0.026% of plain's, where rounding explains 0.010% (more than that, but little" in report
    assert "counts as equal" not in tune_report(GAIN)


def test_what_is_equal_to_the_last_bit_is_said_to_be() -> None:
    same = with_compared(gradient=StepDeparture(1.0, 1e6, True, 40, 0.0, 1e6))
    curve = replace(HELD.loss_curve, deviation=0.0, tolerance=0.37)
    report = tune_report(replace(GAIN, guard=replace(HELD, loss_curve=curve, numerics=same)))
    words = (
        "random draws; every loss equals plain's to the last bit; gradients of single steps equal plain's "
        "to the last bit."
    )
    assert words in " ".join(report.split())


def test_beyond_100_percent_no_digits_are_told() -> None:
    all_rounding = with_compared(gradient=StepDeparture(1.2, 1e6, True, 40, 0.1, 1e6))
    report = tune_report(replace(GAIN, guard=replace(HELD, numerics=all_rounding)))
    assert "1.200 times plain's at worst, where rounding explains more than 100%." in " ".join(report.split())


def test_single_steps() -> None:
    report = tune_report(replace(GAIN, guard=replace(HELD, numerics=STEPS)))
    words = "; gradients of single steps are 0.998 times plain's at worst, where rounding explains 2.0%."
    assert words in " ".join(report.split())


def test_single_steps_under_other_draws() -> None:
    report = tune_report(replace(GAIN, guard=replace(HELD, numerics=replace(STEPS, draws=True))))
    assert "where different draws explain 2.0%." in " ".join(report.split())


def test_single_steps_that_could_not_be_compared_are_owned_up_to() -> None:
    numerics = SingleSteps(left_out="no room")
    report = tune_report(replace(GAIN, guard=replace(HELD, numerics=numerics)))
    assert "single steps were not compared (no room)." in " ".join(report.split())


def test_evaluations() -> None:
    evaluated, told = (StepDeparture(1.0, 1 / 32, True, 3, apart, 1 / 32) for apart in (0.0041, 0.012))
    report = tune_report(replace(GAIN, guard=replace(HELD, numerics=with_compared(evaluation=evaluated))))
    words = (
        "; what evaluations return stays within 0.41% of what it is in full precision, where 3.1% is allowed."
    )
    assert words in " ".join(report.split())
    both = with_compared(evaluation=evaluated, printed=told)
    report = tune_report(replace(GAIN, guard=replace(HELD, numerics=both)))
    assert "precision, and the numbers printed of them within 1.2%, where" in " ".join(report.split())


def with_compared(**others: StepDeparture) -> SingleSteps:
    return replace(STEPS, compared={**STEPS.compared, **others})


def test_nothing_was_tried() -> None:
    result = replace(NO_GAIN, tried=(), guard=None, causes=(), reason=Conclusion("nothing applies"))
    report = tune_report(result)
    assert "No gain found: no technique applies here." in report
    assert "times faster" not in report
    assert "Accuracy" not in report


def test_unknown_samples_are_not_made_up() -> None:
    report = tune_report(replace(GAIN, baseline_samples_per_second=None))
    assert "Plain, a step takes 14.2 ms.\n" in report


def test_protection_that_was_off_is_told() -> None:
    assert "Protection was off (--allow-writes)" in tune_report(replace(GAIN, protection="off"))
    assert "Protection" not in tune_report(GAIN)


def test_writes_that_were_denied_are_told() -> None:
    assert "could not write files" in tune_report(replace(GAIN, protection="landlock"))
    assert "denied" not in tune_report(GAIN)
    assert "denied" not in tune_report(replace(GAIN, protection="off"))


def test_warnings_are_told() -> None:
    warning = Caution("not written down", text="the disk is [full]")
    assert "\nWarning: some results could not be saved: the disk is [full]\n" in tune_report(
        replace(GAIN, warnings=(warning,))
    )


# ---- profile
def test_a_profile() -> None:
    steps = tuple(step(0.01, shares={"data": 0.5, "forward": 0.25}) for _ in range(30))
    observed = observation(steps=steps, loaders=(loader(), loader(training=False, samples=None, workers=2)))
    observed = replace(observed, loaders=(*observed.loaders, loader(batch_size=None)))
    cause = Cause("input", 0.5, "50% of a step is waiting for data", ("dataset_in_ram", "loader_workers"))
    assert [line.rstrip() for line in profile_report(observed, cause).splitlines()] == [
        "",
        "30 steps after 11 warm-up steps: 10 ms a step, 800 samples a second",
        "(a step is one step of an optimizer; times are compared per sample)",
        "  data       5 ms    50%  ####################",
        "  forward    2.5 ms  25%  ##########",
        "  loss       0 us    0%",
        "  backward   0 us    0%",
        "  optimizer  0 us    0%",
        "  other      2.5 ms  25%  ##########",
        "trains __main__.Net: 1,000 parameters, float32",
        "reads Pictures (training): 64 samples, batches of 8, 0 workers",
        "reads Pictures (other): a stream, batches of 8, 2 workers",
        "reads Pictures (training): 64 samples, batches as the script makes them, 0 workers",
        "updates by Adam: 1,000 parameters",
        "Why it takes so long:",
        "  50% of a step is waiting for data: try dataset_in_ram, loader_workers",
    ]


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("seconds", "ended", "epochs", "said"),
    [
        (0.05, False, 1, "over an epoch the mean is 25 ms a step"),
        (0.05, True, 1, "over the whole run the mean is 25 ms a step"),
        (0.05, False, 0, None),  # the first steps are slow in any run
        (0.028, False, 1, None),
    ],
)
def test_where_the_mean_of_steps_is_far_above_their_median_both_are_told(
    seconds: float, ended: bool, epochs: int, said: str | None
) -> None:
    """Made-up runs have two steps; the median of those that were timed is 10 ms."""
    seen = observation(run=watched_run(steps=seconds, ended=ended, epochs=epochs))
    lines = profile_report(seen).splitlines()
    assert lines[1].startswith("30 steps after 11 warm-up steps: 10 ms a step")
    if said is None:
        assert "the mean" not in " ".join(lines[:5])
    else:
        assert lines[2].startswith(f"That is the median of these steps; {said}")


@pytest.mark.attack("truth")
@pytest.mark.parametrize(
    ("trained", "said"),
    [
        (None, "trains __main__.Net: 1,000 parameters, float32"),
        (1000, "trains __main__.Net: 1,000 parameters, float32"),
        (500, "trains __main__.Net: 500 of 1,000 parameters, float32"),
    ],
)
def test_a_profile_tells_what_is_trained(trained: int | None, said: str) -> None:
    text = profile_report(observation(roots=(root(trained=trained),)))
    assert said in text
    assert "autocast" not in text


def test_a_profile_tells_of_autocast_by_the_script() -> None:
    text = profile_report(observation(autocast=("bfloat16",)))
    assert "computes under the script's own autocast: bfloat16\n" in text


@pytest.mark.parametrize(
    ("lengths", "said"),
    [
        ((120, 130), "trains 2 times so far, one after another: 120 and 130 steps; the steps timed"),
        ((20,) * 400, "trains 400 times so far, one after another: 20 steps each; the steps timed"),
        ((20, 24) * 50, "trains 100 times so far, one after another: 20 to 24 steps each; the steps timed"),
    ],
)
def test_a_profile_tells_how_often_a_script_trains(lengths: tuple[int, ...], said: str) -> None:
    assert said in " ".join(profile_report(observation(trainings=lengths)).split())


def test_a_claim_of_epochs_that_were_cut_short_says_so() -> None:
    text = tune_report(replace(GAIN, parts=("evaluation",), shortened=0.0125))
    assert "gave 1.2% of its batches. This assumes that a whole epoch gains as much." in text
    assert "cut short" not in tune_report(replace(GAIN, parts=("evaluation",)))


def test_one_of_a_kind_is_told_in_the_singular() -> None:
    text = profile_report(
        observation(
            steps=(step(),),
            warmup_steps=1,
            roots=(root(parameters=1),),
            loaders=(loader(samples=1, workers=1),),
            optimizers=(optimizer(parameters=1),),
        )
    )
    assert text.lstrip().startswith("1 step after 1 warm-up step: ")
    assert "trains __main__.Net: 1 parameter, " in text
    assert "1 sample, batches of 8, 1 worker\n" in text
    assert "updates by Adam: 1 parameter\n" in text


def test_parts_that_do_not_add_up_to_a_step_are_explained() -> None:
    """One part of each step was disturbed, and in most steps it was another one."""
    names = ("data", "forward", "backward")
    disturbed = [{name: 1.0 if name == late else 0.0 for name in names} for late in names]
    steps = tuple(step(0.01, shares={"loss": 0.0, **disturbed[n % 3]}) for n in range(30))
    text = profile_report(observation(steps=steps))
    assert "10 ms a step" in text
    assert (
        "Each part is a median; together they are 0 us. Most steps took longer, now in one part"
        in " ".join(text.split())
    )
    assert "Each part" not in profile_report(observation())


def test_a_profile_on_a_gpu_tells_of_its_memory() -> None:
    gib = 2**30
    first = GpuMemory("cuda:0", 140 * gib, allocated_bytes=3 * gib, reserved_bytes=4 * gib, retries=0)
    text = profile_report(observation(gpu_memory=(first, replace(first, device="cuda:1", retries=2))))
    assert (
        "takes 3.00 of cuda:0's 140 GiB at most, 4.00 with torch's cache\n"
        "takes 3.00 of cuda:1's 140 GiB at most, 4.00 with torch's cache; "
        "it ran short 2 times\n"
    ) in text


def test_a_profile_without_a_cause_gives_none() -> None:
    assert "Why" not in profile_report(observation())


def test_an_optimizer_for_each_parameter_is_told_in_one_line() -> None:
    few = (optimizer(name="SGD", parameters=7), optimizer(name="SGD", parameters=8))
    many = (optimizer(name="Adam", parameters=100),) * 30
    text = profile_report(observation(optimizers=(*few, *many)))
    assert [line for line in text.splitlines() if line.startswith("updates by")] == [
        "updates by SGD: 7 parameters",
        "updates by SGD: 8 parameters",
        "updates by Adam, 30 of them: 3,000 parameters",
    ]


@pytest.mark.attack("truth")
def test_an_optimizer_that_made_no_step_is_told_only_where_none_did() -> None:
    """SAM's steps are made by the optimizer in it, of the same parameters."""
    around, base = optimizer(name="SAM", stepped=False), optimizer(name="SGD")
    assert "SAM" not in profile_report(observation(optimizers=(around, base)))
    assert "updates by SAM: 1,000 parameters" in profile_report(observation(optimizers=(around,)))


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        ({"cycle": 4}, "a step is one step of an optimizer; a block is 4 of them, after which"),
        ({"signature": (0, 4, 4)}, "of an optimizer, with 4 forward passes and 4 backward passes; times"),
        ({"signature": (0, 3, 1)}, "of an optimizer, with 3 forward passes and 1 backward pass; times"),
        ({"optimizers": ()}, "one backward pass (the script has no optimizer of torch.optim); times"),
        ({"uses": (STEPS_IN_BACKWARD,)}, "a step is one backward pass, within which the optimizers step;"),
        ({"step_said": True}, "a step is what the script marks with hasten.step(); times"),
        (
            {"steps_are_evaluations": True},
            "a step is one evaluation of the closure, of which each step of the optimizer takes many; times",
        ),
        ({"batch_size": None}, "times are compared per step, because the number of samples"),
    ],
)
def test_what_a_step_is_is_told(seen: dict[str, Any], said: str) -> None:
    signature = seen.pop("signature", (0, 1, 1))
    steps = (step(signature=signature),) * 30
    assert said in " ".join(profile_report(observation(steps=steps, **seen)).split())


def test_passes_that_differ_from_step_to_step_are_told_as_a_range() -> None:
    """A module that is called for each letter of a word."""
    steps = tuple(step(signature=(0, 4 + n % 8, 1)) for n in range(32))
    said = " ".join(profile_report(observation(steps=steps)).split())
    assert "of an optimizer, with 4 to 11 forward passes and 1 backward pass; times" in said


def test_a_batch_that_serves_two_optimizers_counts_once() -> None:
    """8 samples for every second step of 10 ms."""
    steps = (step(samples=8), step(samples=None)) * 15
    assert "10 ms a step, 400 samples a second" in profile_report(observation(steps=steps, cycle=2))


def test_an_evaluation_that_falls_into_a_step_is_left_out() -> None:
    usual, slow = step(shares={"forward": 1.0}), step(1.0, evaluations=20)
    report = profile_report(observation(steps=(*[usual] * 29, slow)))
    assert "10 ms a step" in report
    assert re.search(r"forward +10 ms +100%", report)


def test_a_cause_without_a_remedy_names_none() -> None:
    report = profile_report(observation(), Cause("input", 0.5, "50% of a step is waiting for data", ()))
    assert "  50% of a step is waiting for data\n" in report


def test_a_plan_that_changes_the_training_is_not_said_to_hold_accuracy() -> None:
    verdict = GuardVerdict("held", 45, changes=("prune",))
    report = tune_report(replace(GAIN, guard=verdict))
    assert (
        "Accuracy was not judged: prune changes the training itself. Losses stayed finite over 45 steps, and "
        "checkpoints kept their shapes. Faster means more samples in the same time, not how soon the model "
        "is as good."
    ) in " ".join(report.split())
    assert "Accuracy held" not in report
    assert [line.rstrip() for line in report.splitlines()[-4:]] == [
        "The plan is in .hasten/train/plan.toml. First check that model quality is held:",
        "  hasten verify train.py",
        "Then train under it:",
        "  hasten run train.py",
    ]


def test_of_ranks_it_is_said_that_one_was_looked_at_and_how_to_start_them() -> None:
    text = tune_report(replace(GAIN, nproc=2))
    assert "samples a second in each rank." in text
    assert "  hasten run --nproc-per-node 2 train.py" in text
    assert GAIN.guard is not None
    changing = replace(GAIN, nproc=2, guard=replace(GAIN.guard, changes=("batch_size",)))
    assert "  hasten verify --nproc-per-node 2 train.py" in tune_report(changing)
    instead = replace(GAIN, nproc=2, backend="shm")
    assert "  hasten run --nproc-per-node 2 --backend shm train.py" in tune_report(instead)


def test_a_profile_of_ranks_says_that_one_was_looked_at() -> None:
    stream = io.StringIO()
    print_profile(observation(), [], open_console(stream, 200), nproc=2)
    assert "10 ms a step, 800 samples a second in each rank (rank 0 of 2)\n" in stream.getvalue()


@pytest.mark.parametrize(
    ("techniques", "words"),
    [
        ((), "Accuracy was checked; the gain was not confirmed."),
        (("bf16",), "its accuracy was not checked"),
    ],
)
def test_where_the_budget_ended_it_is_said_whether_accuracy_was_checked(
    techniques: tuple[str, ...], words: str
) -> None:
    guard = GuardVerdict("not checked", why_not="budget", budget=TooLittleTime(300, techniques))
    assert words in tune_report(replace(NOT_CHECKED, guard=guard))


def test_what_a_user_can_do_comes_after_what_hasten_can_try() -> None:
    cause = Cause(
        "overhead", 0.4, "60% of a step is call overhead; 40% of the run", ("compile",), advice="Do less"
    )
    assert (
        cause.told(": try compile") == "60% of a step is call overhead; 40% of the run: try compile. Do less"
    )
    assert replace(cause, advice="").told() == "60% of a step is call overhead; 40% of the run"
